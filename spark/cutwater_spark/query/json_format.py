"""JSON events as SQL: parse them, check each field by its token, and name what does not fit.

The rules are those of `cutwater.core.events.json_events`; docs/EVENTS.md has each case. The first parse uses
types that check tokens themselves (booleans, numbers, VARIANT for decimals and bytes), and text for texts and
times. Spark makes text of any token. So if a text looks like another token, or a value did not fit, the event is
parsed again ("closely") with each field as VARIANT, which keeps the token's type and costs more.

Spark's parser reads only the first document of a text, repairs half surrogate pairs, and takes the last of two
equal names. These cases are detected here, in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame

from cutwater.core.events.formats import (
    CONFLUENT_HEADER_BYTES,
    CONFLUENT_JSON,
    JSON,
    WriterSchema,
)
from cutwater.core.events.json_events import (
    EMPTY,
    HALF_PAIR,
    MISSING,
    NESTED,
    NO_OBJECT,
    NOT_UTF8,
    REJECT,
    RULES,
    SOMETHING_BEHIND,
    TIMES,
    JsonField,
    json_fields,
)
from cutwater.core.events.rejection import NO_VALUE, NO_VALUE_RULE, UNDECODABLE
from cutwater.core.job.job import Job
from cutwater_spark.query import json_complex_types, json_values
from cutwater_spark.query.format_detection import has_number_of, other_format_rules, other_schema_flaws
from cutwater_spark.query.rejection_reasons import Flaw, flaw, rule_struct
from cutwater_spark.query.sql import name, text

__all__ = ["VALUES", "flaws", "repeats", "with_values"]

VALUES = "__values"
"""Column: a struct of the fields in their types; NULL if one does not fit, or is missing without default."""
_BODY = f"substring(value, {CONFLUENT_HEADER_BYTES + 1})"
_TEXT, _PARSED, _DOUBT, _CLOSELY, _CORRUPT = "__text", "__parsed", "__doubt", "__closely", "__corrupt"
_OPTIONS = (
    f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{_CORRUPT}', 'allowSingleQuotes', 'false', "
    "'allowNonNumericNumbers', 'false')"
)
_BACKSLASH, _BLANKS = chr(92), " \t\n\r"
# Possessive runs only: the input could make a repeated group recurse without limit.
_ONE_BRACE = r"^[^}]*+[}][ \t\n\r]*+\z"
_NO_TEXT = r'(?s)^(-?[0-9][0-9.eE+-]*|[{\[].*|"-?Infinity")$'
"""The text forms of JSON's other tokens, besides true and false; a text may look the same."""
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = r"\\u[dD][89a-fA-F]"


def with_values(raw: DataFrame, job: Job, known: Sequence[WriterSchema] = ()) -> DataFrame:
    """Add columns: the text, its first and its close parse, and the fields' values."""
    fields = json_fields(job.event_schema)
    parsed = _parse({one.name: json_values.parsed_as(one) for one in fields})
    closely = f"case when {_DOUBT} then {_parse({one.name: 'variant' for one in fields})} end"
    made = ", ".join(f"{text(one.name)}, {_value(one)}" for one in fields)
    return (
        raw.selectExpr("*", f"{_text(job, known)} as {_TEXT}")
        .selectExpr("*", f"{parsed} as {_PARSED}")
        .selectExpr("*", f"{_doubtful(fields)} as {_DOUBT}")
        .selectExpr("*", f"{closely} as {_CLOSELY}")
        .selectExpr("*", f"named_struct({made}) as {VALUES}")
    )


def _text(job: Job, known: Sequence[WriterSchema]) -> str:
    if job.format.kind == JSON:
        return "cast(value as string)"
    readable = [one for one in known if not one.problem]
    return f"case when {has_number_of(readable)} then cast({_BODY} as string) end"


def _parse(types: dict[str, str]) -> str:
    schema = ", ".join(f"{name(one)} {type_}" for one, type_ in types.items())
    return f"from_json({_TEXT}, {text(f'{schema}, {_CORRUPT} string')}, {_OPTIONS})"


def _doubtful(fields: tuple[JsonField, ...]) -> str:
    """Return whether the close parse is needed: a value did not fit its type, or a text may be another token."""
    texts = [f"{_PARSED}.{name(one.name)}" for one in fields if one.kind in ("string", "enum")]
    unfit = f"{_PARSED} is null or {_PARSED}.{_CORRUPT} is not null"
    return f"({' or '.join([unfit, *(f'coalesce({_suspect(one)}, false)' for one in texts)])})"


def _suspect(raw: str) -> str:
    """Return whether this text may be another token. The first character rules most texts out."""
    first = f"{raw} < ':' or {raw} >= '{{' or ({raw} >= '[' and {raw} < {text(_BACKSLASH)})"
    return f"case when {first} then {raw} rlike {text(_NO_TEXT)} else {raw} in ('true', 'false') end"


def repeats(job: Job) -> str:
    """Return whether an object that the schema names has a name twice, as SQL over these columns."""
    return json_complex_types.repeats(_TEXT, json_fields(job.event_schema))


def flaws(job: Job, known: Sequence[WriterSchema] = ()) -> list[Flaw]:
    found = [flaw("value is null", NO_VALUE, NO_VALUE_RULE)]
    found += _of_value() if job.format.kind == JSON else _of_framing(known)
    found += [flaw(when, UNDECODABLE, rule) for when, rule in _of_text()]
    if job.repeated_names == REJECT:
        found.append(flaw(repeats(job), UNDECODABLE, "the object has a name twice (source.repeated_names)"))
    return found + [one for field in json_fields(job.event_schema) for one in _of_field(field)]


def _of_value() -> Iterator[Flaw]:
    yield flaw("octet_length(value) = 0", UNDECODABLE, EMPTY)
    # No JSON starts with these bytes: one is a control character, one is no UTF-8.
    for when, rule in other_format_rules(JSON):
        yield flaw(when, UNDECODABLE, rule)


def _of_framing(known: Sequence[WriterSchema]) -> Iterator[Flaw]:
    """Yield the flaws of records without the number of a readable schema, and without a body."""
    yield from other_schema_flaws(CONFLUENT_JSON, known)
    yield flaw(f"octet_length({_BODY}) = 0", UNDECODABLE, EMPTY)


def _of_text() -> Iterator[tuple[str, str]]:
    yield f"not is_valid_utf8({_TEXT})", NOT_UTF8
    unparsed = f"{_CLOSELY} is null or {_CLOSELY}.{_CORRUPT} is not null"
    yield f"{_DOUBT} and ({unparsed})", NO_OBJECT
    yield _has_trailing_text(), SOMETHING_BEHIND
    yield _half_pair(), HALF_PAIR


def _has_trailing_text() -> str:
    """Return whether anything follows the object: only a single object is incomplete without its last brace."""
    trimmed = f"trim(trailing {text(_BLANKS)} from {_TEXT})"
    cut = f"left({trimmed}, length({trimmed}) - 1)"
    alone = f"endswith({trimmed}, '}}') and json_object_keys({cut}) is null"
    return f"case when {_TEXT} rlike {text(_ONE_BRACE)} then false else not ({alone}) end"


def _half_pair() -> str:
    """Return whether there is half a surrogate pair: Java makes each a question mark, and texts would collide."""
    # Without escaped backslashes: a `u` after one is no escape.
    plain = f"replace({_TEXT}, {text(_BACKSLASH * 2)}, '')"
    halves = f"regexp_replace({plain}, {text(_PAIR)}, '') rlike {text(_HALF)}"
    suspect = f"contains({_TEXT}, {text(_BACKSLASH + 'ud')}) or contains({_TEXT}, {text(_BACKSLASH + 'uD')})"
    return f"case when {suspect} then {halves} else false end"


def _of_field(field: JsonField) -> Iterator[Flaw]:
    value = f"{VALUES}.{name(field.name)}"
    if field.kind in NESTED:
        found = json_complex_types.flaw_of(_nested_token(field), field, text(field.name))
        yield Flaw(f"{found} is not null", text(UNDECODABLE), found)
        return
    unfit, rule = f"{_has_token(field)} and {value} is null", text(f"is not {RULES[field.kind]}")
    if field.kind in TIMES:
        token, parsed = _both(field)
        raw = f"case when {_DOUBT} then {json_values.as_text(token)} else {parsed} end"
        rule = json_values.time_rule(raw, rule, field.kind)
    yield Flaw(unfit, text(UNDECODABLE), rule_struct(rule, field.name))
    if not field.nullable:
        yield flaw(f"{value} is null", UNDECODABLE, MISSING, field.name)


def _has_token(field: JsonField) -> str:
    token, parsed = _both(field)
    at_once = (
        json_values.has_value(parsed) if json_values.parsed_as(field) == "variant" else f"{parsed} is not null"
    )
    return f"(case when {_DOUBT} then {json_values.has_value(token)} else {at_once} end)"


def _nested_token(field: JsonField) -> str:
    token, parsed = _both(field)
    return f"case when {_DOUBT} then {token} else {parsed} end"


def _value(field: JsonField) -> str:
    if field.kind in NESTED:
        return json_complex_types.value_of(_nested_token(field), field)
    token, parsed = _both(field)
    exact, plain = json_values.from_token(token, field), json_values.from_parsed(parsed, field)
    made = f"case when {_DOUBT} then {exact} else {plain} end"
    if field.default is None:
        return made
    return f"case when {_has_token(field)} then {made} else {json_values.default(field)} end"


def _both(field: JsonField) -> tuple[str, str]:
    """Return the field of the close parse, a token, and of the first parse."""
    return f"{_CLOSELY}.{name(field.name)}", f"{_PARSED}.{name(field.name)}"

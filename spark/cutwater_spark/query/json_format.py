"""JSON events as SQL: parse them as they stand, judge each field by its token, say what does not fit.

The rules are those of `cutwater.core.events.json_events`; docs/EVENTS.md has them case by case. An event is parsed
once with types that judge tokens by themselves (booleans, numbers, VARIANT for decimals and bytes), and with text
for texts and times. Spark makes text of any token: where one looks like another token, or anything did not fit,
and only there, the event is parsed closely, each field as VARIANT, which keeps the token's type: that costs more.

Spark's parser reads the first document of a text and no further, repairs half surrogate pairs, and takes the last
of two equal names: those are looked for here, in the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame

from cutwater.core.events.formats import JSON
from cutwater.core.events.json_events import (
    EMPTY,
    HALF_PAIR,
    MISSING,
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
from cutwater_spark.query import json_values
from cutwater_spark.query.format_detection import foreign
from cutwater_spark.query.rejection_reasons import Flaw, flaw, said
from cutwater_spark.query.sql import name, text

__all__ = ["REPEATS", "VALUES", "flaws", "with_values"]

VALUES = "__values"
"""Column: a struct of the fields in their types; NULL where one does not fit, or is missing without default."""
_TEXT, _PARSED, _DOUBT, _CLOSELY, _CORRUPT = "__text", "__parsed", "__doubt", "__closely", "__corrupt"
_KEYS = f"json_object_keys({_TEXT})"
REPEATS = f"coalesce(size({_KEYS}) <> size(array_distinct({_KEYS})), false)"
"""Has the object a name twice? SQL over those columns."""
_OPTIONS = (
    f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{_CORRUPT}', 'allowSingleQuotes', 'false', "
    "'allowNonNumericNumbers', 'false')"
)
_BACKSLASH, _BLANKS = chr(92), " \t\n\r"
# One possessive run of characters behind another: a group that repeats would recurse as deep as a stranger likes.
_ONE_BRACE = r"^[^}]*+[}][ \t\n\r]*+\z"
_NO_TEXT = r'(?s)^(-?[0-9][0-9.eE+-]*|[{\[].*|"-?Infinity")$'
"""What JSON's other tokens look like as text, beside true and false; texts may look so too."""
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = r"\\u[dD][89a-fA-F]"


def with_values(raw: DataFrame, job: Job) -> DataFrame:
    """Columns more: the text, what was parsed of it, at once and closely, and the fields' values."""
    fields = json_fields(job.event_schema)
    parsed = _parse({one.name: json_values.parsed_as(one) for one in fields})
    closely = f"case when {_DOUBT} then {_parse({one.name: 'variant' for one in fields})} end"
    made = ", ".join(f"{text(one.name)}, {_value(one)}" for one in fields)
    return (
        raw.selectExpr("*", f"cast(value as string) as {_TEXT}")
        .selectExpr("*", f"{parsed} as {_PARSED}")
        .selectExpr("*", f"{_doubtful(fields)} as {_DOUBT}")
        .selectExpr("*", f"{closely} as {_CLOSELY}")
        .selectExpr("*", f"named_struct({made}) as {VALUES}")
    )


def _parse(types: dict[str, str]) -> str:
    schema = ", ".join(f"{name(one)} {type_}" for one, type_ in types.items())
    return f"from_json({_TEXT}, {text(f'{schema}, {_CORRUPT} string')}, {_OPTIONS})"


def _doubtful(fields: tuple[JsonField, ...]) -> str:
    """Must the tokens be looked at? Where something did not fit its type, or a text may be no text."""
    texts = [f"{_PARSED}.{name(one.name)}" for one in fields if one.kind in ("string", "enum")]
    unfit = f"{_PARSED} is null or {_PARSED}.{_CORRUPT} is not null"
    return f"({' or '.join([unfit, *(f'coalesce({_suspect(one)}, false)' for one in texts)])})"


def _suspect(raw: str) -> str:
    """Might this text be made of another token? By its first character, since most need no closer look."""
    first = f"{raw} < ':' or {raw} >= '{{' or ({raw} >= '[' and {raw} < {text(_BACKSLASH)})"
    return f"case when {first} then {raw} rlike {text(_NO_TEXT)} else {raw} in ('true', 'false') end"


def flaws(job: Job) -> list[Flaw]:
    """What makes a record no event of the schema, over those columns."""
    found = [flaw("value is null", NO_VALUE, NO_VALUE_RULE)]
    found += [flaw(when, UNDECODABLE, rule) for when, rule in _of_text()]
    if job.repeated_names == REJECT:
        found.append(flaw(REPEATS, UNDECODABLE, "the object has a name twice (source.repeated_names)"))
    return found + [one for field in json_fields(job.event_schema) for one in _of_field(field)]


def _of_text() -> Iterator[tuple[str, str]]:
    yield "octet_length(value) = 0", EMPTY
    # No JSON begins with one of these bytes, of which one is a control character and one no UTF-8.
    yield from foreign(JSON)
    yield f"not is_valid_utf8({_TEXT})", NOT_UTF8
    unparsed = f"{_CLOSELY} is null or {_CLOSELY}.{_CORRUPT} is not null"
    yield f"{_DOUBT} and ({unparsed})", NO_OBJECT
    yield _behind(), SOMETHING_BEHIND
    yield _half_pair(), HALF_PAIR


def _behind() -> str:
    """Is there more than the object? Without its last brace, what is alone is cut short, and all else is not."""
    trimmed = f"trim(trailing {text(_BLANKS)} from {_TEXT})"
    cut = f"left({trimmed}, length({trimmed}) - 1)"
    alone = f"endswith({trimmed}, '}}') and json_object_keys({cut}) is null"
    return f"case when {_TEXT} rlike {text(_ONE_BRACE)} then false else not ({alone}) end"


def _half_pair() -> str:
    """Java puts a question mark for half a pair, so that different texts would fall together."""
    # Escaped backslashes go first: what stands behind one is no escape.
    plain = f"replace({_TEXT}, {text(_BACKSLASH * 2)}, '')"
    halves = f"regexp_replace({plain}, {text(_PAIR)}, '') rlike {text(_HALF)}"
    suspect = f"contains({_TEXT}, {text(_BACKSLASH + 'ud')}) or contains({_TEXT}, {text(_BACKSLASH + 'uD')})"
    return f"case when {suspect} then {halves} else false end"


def _of_field(field: JsonField) -> Iterator[Flaw]:
    value = f"{VALUES}.{name(field.name)}"
    unfit, rule = f"{_given(field)} and {value} is null", text(f"is not {RULES[field.kind]}")
    if field.kind in TIMES:
        token, parsed = _both(field)
        raw = f"case when {_DOUBT} then {json_values.as_text(token)} else {parsed} end"
        rule = json_values.time_rule(raw, rule, field.kind)
    yield Flaw(unfit, text(UNDECODABLE), said(rule, field.name))
    if not field.nullable:
        yield flaw(f"{value} is null", UNDECODABLE, MISSING, field.name)


def _given(field: JsonField) -> str:
    """Is there a token for the field other than null?"""
    token, parsed = _both(field)
    at_once = _no_null(parsed) if json_values.parsed_as(field) == "variant" else f"{parsed} is not null"
    return f"(case when {_DOUBT} then {_no_null(token)} else {at_once} end)"


def _no_null(token: str) -> str:
    return f"{token} is not null and not is_variant_null({token})"


def _value(field: JsonField) -> str:
    token, parsed = _both(field)
    made = f"case when {_DOUBT} then {json_values.of_token(token, field)} else {json_values.of(parsed, field)} end"
    if field.default is None:
        return made
    return f"case when {_given(field)} then {made} else {json_values.default(field)} end"


def _both(field: JsonField) -> tuple[str, str]:
    """The field as a token, and as it was parsed at once."""
    return f"{_CLOSELY}.{name(field.name)}", f"{_PARSED}.{name(field.name)}"

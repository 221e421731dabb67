"""JSON events as SQL: parse strictly, convert each field to its type, say what does not fit.

The rules are those of `cutwater.core.jsonevents`. Spark's own parser is too kind in four ways, each met here: it
makes text of any value for a string field; it takes an epoch number for seconds; it reads the first of several
documents, or of an array (so the text is wrapped into an object); and it repairs bytes that are not UTF-8.

Text made of another value looks like one: a number, true, an object. Where some field looks so, and only there,
the event is parsed a second time as VARIANT, which keeps the types: doing that always took twice as long.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from cutwater.core.jsonevents import DIRECT, JsonField, json_fields
from cutwater_spark.sql import binary, name, text

__all__ = ["json_fields", "parse", "unfit", "values"]

_DIGITS = {"timestamp-millis": 15, "timestamp-micros": 18}
"""More digits than any time there is, and no overflow: an error here would end the query."""
_OF_EPOCH = {"timestamp-millis": "timestamp_millis", "timestamp-micros": "timestamp_micros"}
_ISO = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})?$"
_PARSED_AS = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
}
_CORRUPT = "__corrupt"
_NO_TEXT = "(?s)^(-?[0-9][0-9.eE+-]*|[{\\[].*|[+-](NaN|INF|Infinity))$"
_WORDS = "('true', 'false', 'NaN', 'INF', 'Infinity')"
"""What JSON's other values look like as text; texts may look so too."""
_ALL_TEXTS = "^OBJECT<([^:<>]+: (STRING|VOID)(, )?)*>$"


def parse(column: str, fields: tuple[JsonField, ...]) -> str:
    """Struct (e: the raw fields, __corrupt: set where anything is no JSON or of another type)."""
    inner = ", ".join(f"{name(one.name)}: {_PARSED_AS.get(one.kind, 'string')}" for one in fields)
    schema = text(f"e struct<{inner}>, {_CORRUPT} string")
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{_CORRUPT}', 'allowSingleQuotes', 'false')"
    return f"from_json({_wrapped(column)}, {schema}, {options})"


def _wrapped(column: str) -> str:
    return f"concat('{{\"e\":', cast({column} as string), '}}')"


def values(parsed: str, fields: tuple[JsonField, ...]) -> str:
    """Struct of the fields in their types; NULL for one that does not fit, or is not there and has no default."""
    made = ", ".join(f"{text(one.name)}, {_value(f'{parsed}.e.{name(one.name)}', one)}" for one in fields)
    return f"named_struct({made})"


def unfit(column: str, parsed: str, struct: str, fields: tuple[JsonField, ...]) -> str:
    """Is the event no event of the schema? Never NULL for a value that is there."""
    wrong = [
        f"not is_valid_utf8(cast({column} as string))",
        f"{parsed} is null or {parsed}.{_CORRUPT} is not null or {parsed}.e is null",
        *_no_text(column, parsed, fields),
        *(_unfit(parsed, struct, one) for one in fields if not (one.nullable and one.kind in DIRECT)),
    ]
    return f"({' or '.join(wrong)})"


def _unfit(parsed: str, struct: str, field: JsonField) -> str:
    missing = f"{struct}.{name(field.name)} is null"
    if not field.nullable:
        return missing
    return f"({parsed}.e.{name(field.name)} is not null and {missing})"


def _no_text(column: str, parsed: str, fields: tuple[JsonField, ...]) -> list[str]:
    """Is a field of text something else? Looked at closely only where some field might be."""
    texts = [one for one in fields if one.kind in ("string", "enum")]
    if not texts:
        return []
    schema = text(f"e struct<{', '.join(f'{name(one.name)}: variant' for one in texts)}>")
    closely = f"schema_of_variant(to_variant_object(from_json({_wrapped(column)}, {schema}).e))"
    suspect = " or ".join(_suspect(f"{parsed}.e.{name(one.name)}") for one in texts)
    return [f"case when {suspect} then not coalesce({closely} rlike {text(_ALL_TEXTS)}, false) else false end"]


def _suspect(raw: str) -> str:
    """Might this text be made of another value? By its first character, since most need no closer look."""
    first = f"{raw} < ':' or {raw} >= '{{' or ({raw} >= '[' and {raw} < {text(chr(92))})"
    return f"case when {first} then {raw} rlike {text(_NO_TEXT)} else {raw} in {_WORDS} end"


def _value(raw: str, field: JsonField) -> str:
    converted = _converted(raw, field)
    if field.default is None:
        return converted
    return f"case when {raw} is not null then {converted} else {_literal(field)} end"


def _converted(raw: str, field: JsonField) -> str:
    kind = field.kind
    if kind == "enum":
        return f"case when {raw} in ({', '.join(map(text, field.symbols))}) then {raw} end"
    if kind == "fixed":
        return f"case when length({raw}) = {field.size} then {raw} end"
    if kind == "decimal":
        return _decimal(raw, field)
    return _time(raw, kind) if kind in _DIGITS else raw


def _decimal(raw: str, field: JsonField) -> str:
    """A number or its text, without more digits than the type has: it is never rounded."""
    fraction = f"([.][0-9]{{1,{field.scale}}})?" if field.scale else ""
    whole = f"0*[0-9]{{0,{field.precision - field.scale}}}"
    return (
        f"case when {raw} rlike '^-?(?=[0-9]){whole}{fraction}$' "
        f"then cast({raw} as decimal({field.precision}, {field.scale})) end"
    )


def _time(raw: str, kind: str) -> str:
    """Epoch time in the schema's unit, or ISO 8601; without an offset it is UTC. Finer parts are cut off."""
    iso = f"try_cast({raw} as timestamp)"
    if kind == "timestamp-millis":
        iso = f"timestamp_millis(unix_millis({iso}))"
    return (
        f"case when {raw} rlike '^-?[0-9]{{1,{_DIGITS[kind]}}}$' then {_OF_EPOCH[kind]}(cast({raw} as bigint)) "
        f"when {raw} rlike '{_ISO}' then {iso} end"
    )


def _literal(field: JsonField) -> str:
    """The schema's default, which Avro writes for bytes as text of code points up to 255."""
    default: Any = field.default
    if field.kind in ("string", "enum"):
        return text(default)
    if field.kind in ("bytes", "fixed"):
        return binary(default.encode("latin-1"))
    if field.kind == "decimal":
        unscaled = int.from_bytes(default.encode("latin-1"), "big", signed=True)
        return f"cast('{Decimal(unscaled).scaleb(-field.scale):f}' as decimal({field.precision}, {field.scale}))"
    if field.kind in _OF_EPOCH:
        return f"{_OF_EPOCH[field.kind]}({int(default)}L)"
    return f"cast('{str(default).lower()}' as {_PARSED_AS[field.kind]})"

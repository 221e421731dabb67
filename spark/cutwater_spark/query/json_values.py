"""The value of a JSON event's field as SQL: from the first parse, or from its token, a VARIANT."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from cutwater.core.events.json_events import NESTED, JsonField
from cutwater.core.events.rejection import YEARS_RULE
from cutwater_spark.query.rejection_reasons import unit_hint
from cutwater_spark.query.sql import binary, text

_DIGITS = {"timestamp-millis": 15, "timestamp-micros": 18}
"""More digits than any valid time has, and no overflow, which would end the query."""
_OF_EPOCH = {
    "date": "date_from_unix_date",
    "timestamp-millis": "timestamp_millis",
    "timestamp-micros": "timestamp_micros",
}
_END = r"\z"
_ISO = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})?" + _END
_DATE = "^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}" + _END
_BASE64 = f"^[A-Za-z0-9+/]*+={{0,2}}{_END}"
_TYPES = {"boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double"}
_AS_VARIANT = NESTED | {"bytes", "fixed", "decimal"}
_TEXT, _WHOLE = "STRING", "BIGINT"
"""Kinds of tokens, as schema_of_variant names them; a number with a point is DECIMAL(...).

A number of more than 38 digits, or with an exponent, is a DOUBLE, which is not exact.
"""


def parsed_as(field: JsonField) -> str:
    """Return the field's type in the first parse: one that checks the token, else text."""
    # Numbers must not pass through a double, and Spark's base64 may have holes.
    return _TYPES.get(field.kind) or ("variant" if field.kind in _AS_VARIANT else "string")


def sql_type(field: JsonField) -> str:
    """Return the type of a value. The field is none of those that hold others."""
    if field.kind == "decimal":
        return f"decimal({field.precision}, {field.scale})"
    if field.kind in ("bytes", "fixed"):
        return "binary"
    if field.kind in _OF_EPOCH:
        return "date" if field.kind == "date" else "timestamp"
    return _TYPES.get(field.kind, "string")


def from_parsed(parsed: str, field: JsonField) -> str:
    """Return the value from the first parse, if that is not in doubt; NULL if it does not fit or is null."""
    if field.kind in ("float", "double"):
        return _finite(parsed, field.kind)
    return from_token(parsed, field) if parsed_as(field) == "variant" else _of_text(parsed, field)


def from_token(token: str, field: JsonField) -> str:
    """Return the value of a token; NULL if it does not fit the field or is null."""
    of, kind = field.kind, f"schema_of_variant({token})"
    if of in ("float", "double"):
        return _floating(token, kind, of)
    if of == "boolean":
        return f"case when {kind} = 'BOOLEAN' then {_variant_get(token, of)} end"
    if of in ("int", "long"):
        return f"case when {kind} = '{_WHOLE}' then {_variant_get(token, _TYPES[of])} end"
    if of == "decimal":
        fits = f"{kind} in ('{_TEXT}', '{_WHOLE}') or startswith({kind}, 'DECIMAL')"
    elif of in _DIGITS:
        fits = f"{kind} in ('{_TEXT}', '{_WHOLE}')"
    else:
        fits = f"{kind} = '{_TEXT}'"
    return f"case when {fits} then {_of_text(_variant_get(token, 'string'), field)} end"


def default(field: JsonField) -> str:
    """Return the schema's default; Avro writes that of bytes as text of code points up to 255."""
    given: Any = field.default
    if field.kind in ("string", "enum"):
        return text(given)
    if field.kind in ("bytes", "fixed"):
        return binary(given.encode("latin-1"))
    if field.kind == "decimal":
        unscaled = int.from_bytes(given.encode("latin-1"), "big", signed=True)
        return f"cast('{Decimal(unscaled).scaleb(-field.scale):f}' as decimal({field.precision}, {field.scale}))"
    if field.kind in _OF_EPOCH:
        return f"{_OF_EPOCH[field.kind]}({int(given)})"
    return f"cast('{str(given).lower()}' as {_TYPES[field.kind]})"


def time_rule(raw: str, otherwise: str, kind: str) -> str:
    """Return the rule that a time's token breaks: a whole number is outside the years, else `otherwise`."""
    years = f"concat({text(YEARS_RULE)}, {unit_hint(f'try_cast({raw} as bigint)', kind)})"
    return f"case when {raw} rlike {text(f'^-?[0-9]++{_END}')} then {years} else {otherwise} end"


def as_text(token: str) -> str:
    return _variant_get(token, "string")


def has_value(token: str) -> str:
    return f"{token} is not null and not is_variant_null({token})"


def _variant_get(token: str, type_: str) -> str:
    return f"try_variant_get({token}, '$', '{type_}')"


def _floating(token: str, kind: str, type_: str) -> str:
    number, words = _variant_get(token, type_), _variant_get(token, "string")
    word = f"case when {words} in ('NaN', 'Infinity', '-Infinity') then cast({words} as {type_}) end"
    numbers = f"{kind} in ('{_WHOLE}', 'DOUBLE') or startswith({kind}, 'DECIMAL')"
    return f"case when {kind} = '{_TEXT}' then {word} when {numbers} then {_finite(number, type_)} end"


def _finite(number: str, type_: str) -> str:
    """Return the number; NULL if it is infinite, so beyond the type. Drop zero's sign."""
    return f"case when abs({number}) <> double('Infinity') then {number} + {type_}(0) end"


def _of_text(raw: str, field: JsonField) -> str:
    kind = field.kind
    if kind == "enum":
        return f"case when {raw} in ({', '.join(map(text, field.symbols))}) then {raw} end"
    if kind in ("bytes", "fixed"):
        fits = f"{raw} rlike {text(_BASE64)} and length({raw}) % 4 = 0"
        made = f"case when {fits} then unbase64({raw}) end"
        return made if kind == "bytes" else f"case when octet_length({made}) = {field.size} then {made} end"
    if kind == "decimal":
        return _decimal(raw, field)
    if kind == "date":
        return f"case when {raw} rlike {text(_DATE)} then try_cast({raw} as date) end"
    return _time(raw, kind) if kind in _DIGITS else raw


def _decimal(raw: str, field: JsonField) -> str:
    """Return a number or its text, never rounded: more digits than the type's may only be zeros at the end."""
    fraction = f"([.][0-9]{{1,{field.scale}}}+0*+)?" if field.scale else "([.]0++)?"
    whole = f"0*+[0-9]{{0,{field.precision - field.scale}}}"
    return (
        f"case when {raw} rlike {text(f'^-?(?=[0-9]){whole}{fraction}{_END}')} "
        f"then try_cast({raw} as decimal({field.precision}, {field.scale})) end"
    )


def _time(raw: str, kind: str) -> str:
    """Return epoch time in the schema's unit, or ISO 8601, UTC without an offset. Finer parts are cut off."""
    iso = f"try_cast({raw} as timestamp)"
    if kind == "timestamp-millis":
        iso = f"timestamp_millis(unix_millis({iso}))"
    return (
        f"case when {raw} rlike {text(f'^-?[0-9]{{1,{_DIGITS[kind]}}}{_END}')} "
        f"then {_OF_EPOCH[kind]}(try_cast({raw} as bigint)) when {raw} rlike {text(_ISO)} then {iso} end"
    )

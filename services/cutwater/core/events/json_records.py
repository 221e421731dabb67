"""A decoder of JSON events by the rules of docs/EVENTS.md, for samples that are read without Spark.

The driver does the same in SQL, and tests compare the two.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Any

from cutwater.core.events.formats import JSON, foreign
from cutwater.core.events.json_events import (
    EMPTY,
    HALF_PAIR,
    KEY_SHOWN,
    MISSING,
    NESTED,
    NO_OBJECT,
    NOT_UTF8,
    RULES,
    SOMETHING_BEHIND,
    JsonField,
)
from cutwater.core.events.rejection import (
    ELEMENTS_MAX,
    NO_VALUE,
    NO_VALUE_RULE,
    UNDECODABLE,
    YEARS_RULE,
    Flaw,
    unit_hint,
)

DEPTH_MAX, DIGITS_MAX, NAME_MAX = 1_000, 1_000, 50_000
_BLANKS = " \t\n\r"
_ESCAPED_BACKSLASH = r"\\"
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_TEXT_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]')
_NAME = re.compile(r'("(?:[^"\\]|\\.)*+")[ \t\n\r]*+(:?)')
_WHOLE, _DECIMAL = re.compile(r"-?[0-9]+"), re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?")
_NO_DIGIT = re.compile(r"[^0-9]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_WORDS = ("NaN", "Infinity", "-Infinity")
_BITS = {"int": 31, "long": 63}
FLOAT_END = 2.0**128 - 2.0**103
"""From here on a number overflows a float when it is rounded."""
_END = {"float": FLOAT_END, "double": float("inf")}
"""From here on a number overflows the type when it is rounded."""
_TOKEN_DIGITS = 38
"""A number with more digits loses some; a text does not."""
_EPOCH_DIGITS = {"timestamp-millis": 15, "timestamp-micros": 18}
_UNIT = {"timestamp-millis": 1_000, "timestamp-micros": 1}
"""In microseconds."""
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(?:\.([0-9]{1,9}))?"
    r"(Z|[+-](?:(?:0[0-9]|1[0-7]):[0-5][0-9]|18:00))?"
)
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = Context(prec=_TOKEN_DIGITS)


class _Number(str):
    __slots__ = ()


class _UnfitError(ValueError):
    def __init__(self, rule: str, path: str) -> None:
        super().__init__(rule)
        self.flaw = Flaw(UNDECODABLE, rule, path)


def read(value: bytes | None, fields: tuple[JsonField, ...], kind: str = JSON) -> dict[str, Any] | Flaw:
    """Decode a record: the values of the fields (times in microseconds since 1970), or its flaw.

    `kind`: JSON, or CONFLUENT_JSON for what is behind the framing.
    """
    found = tokens(value, kind)
    if isinstance(found, Flaw):
        return found
    try:
        return {one.name: _made(found.get(one.name), one, one.name) for one in fields}
    except _UnfitError as error:
        return error.flaw


def _made(token: Any, field: JsonField, path: str) -> Any:
    """Return the value of a token. Raises _UnfitError with the path of what does not fit."""
    if token is None:
        made = None if field.default is None else _default(field, field.default)
        if made is None and not field.nullable:
            raise _UnfitError(MISSING, path)
        return made
    made = _nested(token, field, path) if field.kind in NESTED else _VALUES[field.kind](token, field)
    if made is None:
        raise _UnfitError(_rule(token, field), path)
    return made


def _nested(token: Any, field: JsonField, path: str) -> Any:
    """Return the value of an object or array; None for other tokens, and beyond the bound."""
    if field.kind == "record":
        if not isinstance(token, dict):
            return None
        return {one.name: _made(token.get(one.name), one, f"{path}.{one.name}") for one in field.fields}
    if field.item is None or not isinstance(token, list if field.kind == "array" else dict):
        return None
    if len(token) > ELEMENTS_MAX:
        return None
    if field.kind == "array":
        return [_made(one, field.item, f"{path}[{at}]") for at, one in enumerate(token)]
    # In Spark's order of keys, so that both name the same one of two unfit values.
    keys = sorted(token, key=lambda key: key.encode("utf-16-be"))
    return {one: _made(token[one], field.item, f"{path}['{one[:KEY_SHOWN]}']") for one in keys}


def _rule(token: Any, field: JsonField) -> str:
    if field.kind in _UNIT and isinstance(token, str) and _WHOLE.fullmatch(token):
        # Python does not parse numbers of thousands of digits, and no unit makes them a date.
        return YEARS_RULE + (unit_hint(int(token), field.kind) if len(token) < _TOKEN_DIGITS else "")
    return f"is not {RULES[field.kind]}"


def tokens(value: bytes | None, kind: str = JSON) -> dict[str, Any] | Flaw:
    """Return the object's values by name, numbers as sent; for repeated names the last value."""
    if value is None:
        return Flaw(NO_VALUE, NO_VALUE_RULE)
    broken = None if value else EMPTY
    if value and kind == JSON:
        broken = foreign(JSON, value)
    if broken:
        return Flaw(UNDECODABLE, broken)
    try:
        found = _object(value.decode())
    except UnicodeDecodeError:
        found = NOT_UTF8
    return Flaw(UNDECODABLE, found) if isinstance(found, str) else found


def iso_micros(text: str) -> int | None:
    """Return an ISO 8601 time of an event as microseconds since 1970, truncated; None for other texts."""
    found = _ISO.fullmatch(text)
    try:
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}+00:00") if found else None
    except ValueError:
        return None
    if found is None or moment is None:
        return None
    zone = found[4] or "Z"
    minutes = 0 if zone == "Z" else int(zone[:3]) * 60 + int(zone[0] + zone[4:])
    since = moment - _EPOCH
    seconds = since.days * 86_400 + since.seconds - minutes * 60
    return seconds * 1_000_000 + int((found[3] or "").ljust(6, "0")[:6])


def _object(text: str) -> dict[str, Any] | str:
    try:
        found, end = _DECODER.raw_decode(text, len(text) - len(text.lstrip(_BLANKS)))
    except (ValueError, RecursionError):
        return NO_OBJECT
    if not isinstance(found, dict) or _depth(text[:end]) > DEPTH_MAX or _has_long_name(text[:end]):
        return NO_OBJECT
    if text[end:].strip(_BLANKS):
        return SOMETHING_BEHIND
    # Remove escaped backslashes first: what follows one is not an escape.
    escapes = text.replace(_ESCAPED_BACKSLASH, "") if "\\u" in text else ""
    return HALF_PAIR if _HALF.search(_PAIR.sub("", escapes)) else found


def _depth(text: str) -> int:
    deepest = depth = 0
    for one in _TEXT_OR_BRACKET.findall(text):
        depth += 1 if one in "[{" else -(one in "]}")
        deepest = max(deepest, depth)
    return deepest


def _has_long_name(text: str) -> bool:
    """Return whether a name has more characters in UTF-16 than Spark's parser takes."""
    if 2 * len(text) <= NAME_MAX:
        return False
    names = (one for one, colon in _NAME.findall(text) if colon and 2 * len(one) > NAME_MAX)
    return any(len(json.loads(one).encode("utf-16-le", "surrogatepass")) > 2 * NAME_MAX for one in names)


def _number(text: str) -> _Number:
    # Spark's parser does not count a zero before the point.
    if len(text) > DIGITS_MAX and len(_NO_DIGIT.sub("", text)) - text.lstrip("-").startswith("0") > DIGITS_MAX:
        raise ValueError(text)
    return _Number(text)


def _refused(word: str) -> Any:
    raise ValueError(word)


_DECODER = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_refused)


def _default(field: JsonField, given: Any) -> Any:
    if given is None or field.kind not in NESTED:
        return None if given is None else _flat_default(field, given)
    if field.item is None:
        return {one.name: _default(one, given.get(one.name, one.default)) for one in field.fields}
    item = field.item
    if field.kind == "array":
        return [_default(item, one) for one in given]
    return {key: _default(item, one) for key, one in given.items()}


def _flat_default(field: JsonField, given: Any) -> Any:
    # A schema has bytes as text of code points up to 255, times in their unit, and NaN as a text.
    if field.kind in _UNIT:
        return given * _UNIT[field.kind]
    if field.kind in _END:
        return float(given)
    if field.kind not in ("bytes", "fixed", "decimal"):
        return given
    raw = given.encode("latin-1")
    return unscaled(raw, field.scale) if field.kind == "decimal" else raw


def unscaled(raw: bytes, scale: int) -> Decimal:
    """Decode a decimal as Avro writes it."""
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, Context(prec=len(raw) * 3 + 1))


def _boolean(token: Any, _field: JsonField) -> bool | None:
    return token if isinstance(token, bool) else None


def _integer(token: Any, field: JsonField) -> int | None:
    if not isinstance(token, _Number) or not _WHOLE.fullmatch(token):
        return None
    number, end = int(token), 1 << _BITS[field.kind]
    return number if -end <= number < end else None


def _floating(token: Any, field: JsonField) -> float | None:
    if isinstance(token, _Number):
        return float(token) if abs(float(token)) < _END[field.kind] else None
    return float(token) if token in _WORDS else None


def _text(token: Any, _field: JsonField) -> str | None:
    return token if isinstance(token, str) and not isinstance(token, _Number) else None


def _symbol(token: Any, field: JsonField) -> str | None:
    return token if _text(token, field) in field.symbols else None


def _bytes(token: Any, field: JsonField) -> bytes | None:
    text = _text(token, field)
    if text is None or len(text) % 4 or not _BASE64.fullmatch(text):
        return None
    found = base64.b64decode(text)
    return found if field.kind == "bytes" or len(found) == field.size else None


def _decimal(token: Any, field: JsonField) -> Decimal | None:
    found = _DECIMAL.fullmatch(token) if isinstance(token, str) else None
    if found is None:
        return None
    whole, fraction = found[2], found[3] or ""
    if isinstance(token, _Number) and max(len((whole + fraction).lstrip("0")), len(fraction)) > _TOKEN_DIGITS:
        return None
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    if len(whole) > field.precision - field.scale or len(fraction) > field.scale:
        return None
    digits = whole + fraction.ljust(field.scale, "0")
    return Decimal(f"{found[1]}{digits or 0}").scaleb(-field.scale, _EXACT)


def _date(token: Any, _field: JsonField) -> int | None:
    """Return a date as days since 1970."""
    if not isinstance(token, str) or not _DATE.fullmatch(token):
        return None
    try:
        return (datetime.fromisoformat(f"{token}T00:00:00+00:00") - _EPOCH).days
    except ValueError:
        return None


def _time(token: Any, field: JsonField) -> int | None:
    if not isinstance(token, str):
        return None
    unit = _UNIT[field.kind]
    if _WHOLE.fullmatch(token) and len(token.lstrip("-")) <= _EPOCH_DIGITS[field.kind]:
        return int(token) * unit
    micros = None if isinstance(token, _Number) else iso_micros(token)
    return None if micros is None else micros // unit * unit


_VALUES: dict[str, Callable[[Any, JsonField], Any]] = {
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _floating,
    "double": _floating,
    "string": _text,
    "enum": _symbol,
    "bytes": _bytes,
    "fixed": _bytes,
    "decimal": _decimal,
    "date": _date,
    "timestamp-millis": _time,
    "timestamp-micros": _time,
}

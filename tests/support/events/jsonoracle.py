"""A second reading of JSON events by the rules of docs/FORMATS.md, from Python's own parser and plain values."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from cutwater.core.events.json_events import JsonField

REJECTED = None
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:[0-5]\d)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET_MAX_MINUTES = 18 * 60
_DIGITS_MAX = 38
_ELEMENTS_MAX = 10_000
_FLOAT_END = 2.0**128 - 2.0**103
"""From here on a number is rounded to what is no float."""


class Number(str):
    """A number as it was sent."""


class Pairs(list[tuple[str, Any]]):
    """An object as it was sent."""


class Read(NamedTuple):
    event: dict[str, Any] | None
    """None: rejected."""
    repeats: bool


def read(value: bytes, fields: tuple[JsonField, ...]) -> Read:
    """What the rules make of a record. Times are microseconds since 1970."""
    try:
        found = json.loads(
            value.decode(), object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=_refuse
        )
        json.dumps(_plain(found), ensure_ascii=False).encode()  # refuses half a surrogate pair
    except (ValueError, RecursionError):
        return Read(REJECTED, False)
    if not isinstance(found, Pairs):
        return Read(REJECTED, False)
    last = dict(found)
    try:
        event = {one.name: _field(last.get(one.name), one) for one in fields}
    except ValueError:
        return Read(REJECTED, False)
    return Read(event, _repeats(found, fields))


def _repeats(found: Any, fields: tuple[JsonField, ...]) -> bool:
    return len(dict(found)) < len(found) or any(_repeats_in(dict(found).get(one.name), one) for one in fields)


def _repeats_in(token: Any, field: JsonField) -> bool:
    if token is None or field.item is None:
        return token is not None and field.kind == "record" and _repeats(token, field.fields)
    twice = field.kind == "map" and len(dict(token)) < len(token)
    inner = token if field.kind == "array" else [one for _, one in token]
    return twice or any(_repeats_in(one, field.item) for one in inner)


def _refuse(word: str) -> None:
    raise ValueError(word)


def _plain(found: Any) -> Any:
    if isinstance(found, Pairs):
        return [[name, _plain(one)] for name, one in found]
    return [_plain(one) for one in found] if isinstance(found, list) else found


def _field(token: Any, field: JsonField) -> Any:
    if token is None:
        if field.has_default and field.default is not None:
            return field.default
        if field.nullable:
            return None
        raise ValueError(field.name)
    return _READ[field.kind](token, field)


def _record(token: Any, field: JsonField) -> dict[str, Any]:
    _need(isinstance(token, Pairs))
    last = dict(token)
    return {one.name: _field(last.get(one.name), one) for one in field.fields}


def _array(token: Any, field: JsonField) -> list[Any]:
    _need(isinstance(token, list) and not isinstance(token, Pairs) and len(token) <= _ELEMENTS_MAX)
    assert field.item is not None
    return [_field(one, field.item) for one in token]


def _map(token: Any, field: JsonField) -> dict[str, Any]:
    _need(isinstance(token, Pairs) and len(dict(token)) <= _ELEMENTS_MAX)
    item = field.item
    assert item is not None
    return {name: _field(one, item) for name, one in dict(token).items()}


def _need(fits: object) -> None:
    if not fits:
        raise ValueError


def _boolean(token: Any, _field: JsonField) -> bool:
    _need(isinstance(token, bool))
    return bool(token)


def _whole(token: Any, field: JsonField) -> int:
    _need(isinstance(token, Number) and re.fullmatch(r"-?\d+", token))
    bits = 31 if field.kind == "int" else 63
    _need(-(2**bits) <= int(token) < 2**bits)
    return int(token)


def _float(token: Any, field: JsonField) -> float:
    if isinstance(token, Number):
        _need(abs(float(token)) < (_FLOAT_END if field.kind == "float" else float("inf")))
    else:
        _need(token in ("NaN", "Infinity", "-Infinity"))
    return float(token)


def _text(token: Any, field: JsonField) -> str:
    _need(isinstance(token, str) and not isinstance(token, Number))
    _need(field.kind != "enum" or token in field.symbols)
    return str(token)


def _bytes(token: Any, field: JsonField) -> bytes:
    _need(re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", _text(token, field)) and len(token) % 4 == 0)
    found = base64.b64decode(token, validate=True)
    _need(field.kind != "fixed" or len(found) == field.size)
    return found


def _decimal(token: Any, field: JsonField) -> Decimal:
    _need(isinstance(token, str) and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", token))
    sign, digits, exponent = Decimal(token).as_tuple()
    if isinstance(token, Number):
        _need(len(digits) <= _DIGITS_MAX and -int(exponent) <= _DIGITS_MAX)
    scaled = int("".join(map(str, digits))) * 10 ** (field.scale + int(exponent) + 2_000)
    _need(scaled % 10**2_000 == 0 and scaled // 10**2_000 < 10**field.precision)
    return Decimal((sign, Decimal(scaled // 10**2_000).as_tuple().digits, -field.scale))


def _time(token: Any, field: JsonField) -> int:
    _need(isinstance(token, str))
    unit = 1_000 if field.kind == "timestamp-millis" else 1
    if re.fullmatch(r"-?[0-9]+", token) and len(token.lstrip("-")) <= (15 if unit > 1 else 18):
        return int(token) * unit
    _need(not isinstance(token, Number) and _ISO.fullmatch(token))
    # Finer parts are cut off, to microseconds here.
    moment = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", token))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    offset = moment.utcoffset()
    _need(offset is not None and abs(offset.total_seconds()) <= _OFFSET_MAX_MINUTES * 60)
    since = moment - _EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return micros // unit * unit


def _date(token: Any, field: JsonField) -> int:
    found = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", _text(token, field), re.ASCII)
    _need(found)
    return (datetime(*map(int, found.groups()), tzinfo=UTC) - _EPOCH).days  # type: ignore[union-attr, misc]


_READ: Mapping[str, Any] = {
    "boolean": _boolean, "int": _whole, "long": _whole, "float": _float, "double": _float, "string": _text,
    "enum": _text, "bytes": _bytes, "fixed": _bytes, "decimal": _decimal, "date": _date,
    "timestamp-millis": _time, "timestamp-micros": _time, "record": _record, "array": _array, "map": _map,
}  # fmt: skip

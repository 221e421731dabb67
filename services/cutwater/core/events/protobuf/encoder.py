"""The encoder of new events as Protobuf messages, which checks each value."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.events.json_records import iso_micros
from cutwater.core.events.protobuf.fields import ENUM, MAP, SECONDS, TIMESTAMP, WRAPPER, ProtoField
from cutwater.core.events.protobuf.records import FORMATS
from cutwater.core.events.protobuf.wire import LENGTH, VARINT, entry
from cutwater.core.util.varints import varint, zigzag

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BOOLEANS = {"true": True, "false": False}


def encode_message(record: Mapping[str, Any], fields: Sequence[ProtoField], path: str = "") -> bytes:
    """Encode a record. Raises UsageError, which names the field, for a value that does not fit.

    A field that is missing, null or its default is not written. Times are datetimes, microseconds or ISO 8601.
    """
    within = f"{path}." if path else ""
    if unknown := sorted(record.keys() - {one.name for one in fields}):
        raise UsageError(f"{within}{unknown[0]}: the message has no such field")
    by_number = sorted(fields, key=lambda one: one.number)  # as other serializers write them
    return b"".join(_field(record.get(one.name), one, within + one.name) for one in by_number)


def _field(value: Any, field: ProtoField, path: str) -> bytes:
    if value is None:
        if not field.has_default:
            raise _unfit(None, field, path)
        return b""
    if field.repeated:
        return _list(value, field, path)
    if field.type == MAP:
        return _map(value, field, path)
    if field.default is not None and type(value) is type(field.default) and value == field.default:
        return b""
    return entry(field.number, field.kind, _value(value, field, path))


def _list(values: Any, field: ProtoField, path: str) -> bytes:
    if not isinstance(values, list | tuple):
        raise _unfit(values, field, path)
    made = [_value(one, field, f"{path}[{at}]") for at, one in enumerate(values)]
    if field.is_packable and made:
        return entry(field.number, LENGTH, b"".join(made))
    return b"".join(entry(field.number, field.kind, one) for one in made)


def _map(values: Any, field: ProtoField, path: str) -> bytes:
    if not isinstance(values, Mapping):
        raise _unfit(values, field, path)
    key, value = field.fields
    pairs = (
        entry(key.number, key.kind, _value(_key(one, key), key, path))
        + entry(value.number, value.kind, _value(held, value, f"{path}['{one}']"))
        for one, held in values.items()
    )
    return b"".join(entry(field.number, LENGTH, pair) for pair in pairs)


def _key(given: Any, key: ProtoField) -> Any:
    """Return the key of a map, whose keys are texts."""
    if not isinstance(given, str) or key.type == "string":
        return given
    if key.type == "bool":
        return _BOOLEANS.get(given)
    return int(given) if given.removeprefix("-").isdecimal() and len(given) <= len(str(-(1 << 63))) else None


def _value(value: Any, field: ProtoField, path: str) -> bytes:
    kind = field.type
    if kind == TIMESTAMP:
        value = _time(value)
    if kind == WRAPPER:
        value = {"value": value}
    if field.fields:
        if not isinstance(value, Mapping):
            raise _unfit(value, field, path)
        return encode_message(value, field.fields, path)
    made = _text_or_bytes(value, kind) if kind in ("string", "bytes") else _number(value, field)
    if made is None:
        raise _unfit(value, field, path)
    return made


def _time(value: Any) -> Any:
    micros = iso_micros(value) if isinstance(value, str) else value
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        micros = (moment - _EPOCH) // timedelta(microseconds=1)
    if not isinstance(micros, int) or not SECONDS[0] <= micros // 1_000_000 <= SECONDS[1]:
        return None
    return {"seconds": micros // 1_000_000, "nanos": micros % 1_000_000 * 1_000}


def _text_or_bytes(value: Any, kind: str) -> bytes | None:
    if kind == "bytes":
        return bytes(value) if isinstance(value, bytes | bytearray) else None
    try:
        return value.encode() if isinstance(value, str) else None
    except UnicodeEncodeError:
        return None


def _number(value: Any, field: ProtoField) -> bytes | None:
    kind = field.type
    if kind == ENUM:
        value = {symbol: number for number, symbol in field.symbols}.get(value) if isinstance(value, str) else None
    elif (kind == "bool") != isinstance(value, bool):
        return None
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        value = int(value)
    if kind in ("float", "double"):
        return _floating(value, kind)
    if not isinstance(value, int) or not _fits(value, kind):
        return None
    if field.kind != VARINT:
        return struct.pack(FORMATS[kind], value)
    return zigzag(value) if kind.startswith("sint") else varint(value)


def _floating(value: Any, kind: str) -> bytes | None:
    try:
        return struct.pack(FORMATS[kind], value)
    except (struct.error, OverflowError):
        return None


def _fits(value: int, kind: str) -> bool:
    bits = 64 if kind.endswith("64") else 32
    if kind.startswith(("uint", "fixed")):
        return 0 <= value < 1 << bits
    return -(1 << bits - 1) <= value < 1 << bits - 1


def _unfit(value: Any, field: ProtoField, path: str) -> UsageError:
    if value is None:
        return UsageError(f"{path} is missing, null or no {field.type}")
    return UsageError(f"{path}: {value!r:.100} is no {'list of ' * field.repeated}{field.type}")

"""A second reading of Avro events, by the specification and the rules of docs/FORMATS.md, from plain bytes.

Not by fastavro, which takes a negative index of a union or an enum for one from the end.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

FIRST_US, LAST_US = -55_855_785_600_000_000, 247_092_508_800_000_000
"""The years 200 to 9800, which event times and other moments must be in."""


class DamagedError(ValueError):
    """The bytes are no event."""


class Bytes:
    """A record's body, read from its beginning to its end."""

    def __init__(self, value: bytes) -> None:
        self._value, self._at = value, 0

    def take(self, count: int) -> bytes:
        found = self._value[self._at : self._at + count]
        if count < 0 or len(found) < count:
            raise DamagedError
        self._at += count
        return found

    def whole(self, bits: int) -> int:
        """A number by sevens, at most as many as fill its bits."""
        found = 0
        for shift in range(0, bits, 7):
            (byte,) = self.take(1)
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                found &= (1 << bits) - 1
                return (found >> 1) ^ -(found & 1)
        raise DamagedError

    def require_end(self) -> None:
        if self._at != len(self._value):
            raise DamagedError


def read(value: bytes, header: bytes, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the rules make of a record, None for a rejected one; moments as microseconds, decimals unscaled."""
    if not value.startswith(header):
        return None
    body = Bytes(value[len(header) :])
    try:
        event = {one["name"]: _read(body, one["type"]) for one in schema["fields"]}
        body.require_end()
    except ValueError:  # UnicodeDecodeError too
        return None
    return event


def _read(body: Bytes, type_: Any) -> Any:
    if isinstance(type_, list):
        return _read(body, _chosen(body, type_))
    about: Mapping[str, Any] = type_ if isinstance(type_, dict) else {"type": type_}
    kind, logical = about["type"], about.get("logicalType")
    if kind == "enum":
        return _chosen(body, about["symbols"])
    if kind in ("int", "long"):
        return _moment(body.whole(64), logical) if logical else body.whole(32 if kind == "int" else 64)
    if kind in ("bytes", "string", "fixed"):
        found = body.take(about["size"] if kind == "fixed" else body.whole(64))
        if logical == "decimal":
            return _unscaled(found, about["precision"])
        return found.decode() if kind == "string" else found
    return _PLAIN[kind](body)


def _chosen(body: Bytes, of: list[Any]) -> Any:
    at = body.whole(32)
    if not 0 <= at < len(of):
        raise DamagedError
    return of[at]


def _moment(number: int, logical: str) -> int:
    micros = number * (1_000 if logical == "timestamp-millis" else 1)
    if not FIRST_US <= micros <= LAST_US:
        raise DamagedError
    return micros


def _unscaled(found: bytes, precision: int) -> int:
    number = int.from_bytes(found, "big", signed=True)
    if not found or abs(number) >= 10**precision:
        raise DamagedError
    return number


_PLAIN: Mapping[str, Any] = {
    "null": lambda _: None,
    "boolean": lambda body: body.take(1) == b"\1",
    "float": lambda body: struct.unpack("<f", body.take(4))[0],
    "double": lambda body: struct.unpack("<d", body.take(8))[0],
}

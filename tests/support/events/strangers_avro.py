"""Events in Avro as strangers' programs spoil them: numbers, lengths and indexes that are not what they were."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import fastavro

from support.events import strangers

SEED = 20_261_127
KINDS: dict[str, Any] = {name: type_ for name, type_ in strangers.KINDS.items() if name != "d"} | {
    "f": "boolean",
    "t": {"type": "enum", "name": "Tint", "symbols": ["red", "blue"]},
}
SCHEMA = {
    "type": "record",
    "name": "Event",
    "namespace": "test",
    "fields": [{"name": name, "type": type_} for name, type_ in KINDS.items()],
}
NUMBERS = [
    b"\x80",
    b"\xff",
    b"\xff" * 5,
    b"\xff" * 12,
    b"\x01",
    b"\x03",
    b"\x04",
    b"\x06",
    b"\x7f",
    b"\x80\x00",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x1f",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 9 + b"\x03",
    b"\x80" * 9 + b"\x00",
]
"""Cut short, negative, out of range, longer than they need be or may be."""
TEXTS = [b"", b"k1", "größe".encode(), b"\xff\xfe", b"\xed\xa0\x80", b"\xc3", b"\x00", b"x" * 70]


def records(count: int, header: bytes, seed: int) -> list[bytes]:
    """More than half are spoilt: bits, a number, its end, its header, or all of it."""
    rng = random.Random(seed)
    return [_record(header, rng) for _ in range(count)]


def _record(header: bytes, rng: random.Random) -> bytes:
    fields = [_field(type_, rng) for type_ in KINDS.values()]
    dice = rng.random()
    if dice < 0.2:
        at = rng.randrange(len(fields))
        fields[at] = rng.choice(NUMBERS) + fields[at][rng.randrange(2) :]
    elif dice < 0.25:
        del fields[rng.randrange(len(fields))]  # another schema's bytes, under this one's header
    elif dice < 0.3:
        rng.shuffle(fields)
    made = bytearray(header + b"".join(fields))
    if 0.3 < dice < 0.45:
        for _ in range(rng.randrange(1, 4)):
            made[rng.randrange(len(header), len(made))] ^= 1 << rng.randrange(8)
    elif 0.45 < dice < 0.5:
        del made[rng.randrange(len(made)) :]
    elif 0.5 < dice < 0.53:
        made += rng.randbytes(rng.randrange(1, 9))
    elif 0.53 < dice < 0.55:
        made[rng.randrange(len(header))] ^= 1 << rng.randrange(8)
    elif dice > 0.98:
        return header * rng.randrange(2) + rng.randbytes(rng.randrange(60))
    return bytes(made)


def _field(type_: Any, rng: random.Random) -> bytes:
    if isinstance(type_, list):
        at = rng.randrange(len(type_))
        return _long(at) + _field(type_[at], rng)
    about = type_ if isinstance(type_, dict) else {"type": type_}
    return _MADE[about.get("logicalType", about["type"])](about, rng)


def _text(_about: Any, rng: random.Random) -> bytes:
    found = rng.choice(TEXTS[:3] if rng.random() < 0.97 else TEXTS)
    return _long(len(found)) + found


def _decimal(_about: Any, rng: random.Random) -> bytes:
    size = rng.choice([4, 5, 9, 20])
    return _long(size) + rng.randrange(-(10**9), 10**9).to_bytes(size, "big", signed=True)


def _number(_about: Any, rng: random.Random) -> bytes:
    return _long(rng.choice([0, -1, 77, 2**31 - 1, -(2**31)]))


_MADE: dict[str, Callable[[Any, random.Random], bytes]] = {
    "null": lambda _about, _rng: b"",
    "boolean": lambda _about, rng: rng.choice([b"\0", b"\1"]),
    "int": _number,
    "long": _number,
    "float": lambda _about, rng: rng.randbytes(4),
    "double": lambda _about, rng: rng.randbytes(8),
    "string": _text,
    "bytes": _text,
    "fixed": lambda about, rng: rng.randbytes(about["size"]),
    "enum": lambda about, rng: _long(rng.randrange(len(about["symbols"]))),
    "decimal": _decimal,
    "timestamp-millis": lambda _about, _rng: _long(1_700_000_000_000),
    "timestamp-micros": lambda _about, _rng: _long(1_700_000_000_000_000),
}


def _long(number: int) -> bytes:
    made = io.BytesIO()
    fastavro.schemaless_writer(made, "long", number)
    return made.getvalue()

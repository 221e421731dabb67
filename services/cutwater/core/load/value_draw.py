"""Random values of a schema's types."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from cutwater.core.events.avro_types import Schema
from cutwater.core.job.field_paths import bare
from cutwater.core.load.key_draw import Chance

TEXTS = 50
"""Different texts of a field."""
NUMBERS = 1_000
"""Whole numbers are below."""
NULLS = 0.05
"""The share of nulls in a field that may be null."""
UNITS_US = {
    "timestamp-millis": 1_000,
    "timestamp-micros": 1,
    "local-timestamp-millis": 1_000,
    "local-timestamp-micros": 1,
}
_DAY_US = 86_400_000_000


class Occasion(NamedTuple):
    """What an event's values are made of."""

    key: int
    """The number of its key."""
    at_us: int
    """Its event time, since 1970."""
    chance: Chance


Make = Callable[[Occasion], Any]
Given = dict[str, "Make | Given"]
"""Makers of some fields of a record, by name; of fields inside of a field, one more such tree."""


def record_draw(schema: Schema, given: Given) -> Make:
    """Return a maker of records as the schema's root, with the given makers of some fields."""
    return _Draw(schema).record(schema.root, given)


class _Draw:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def record(self, node: Any, given: Given) -> Make:
        makers = {}
        for field in self._schema.type_of(bare(node))["fields"]:
            name = field["name"]
            wanted = given.get(name)
            if wanted is None:
                makers[name] = self._value(field["type"], name)
            else:
                makers[name] = wanted if callable(wanted) else self.record(field["type"], wanted)
        pairs = tuple(makers.items())
        return lambda on: {name: make(on) for name, make in pairs}

    def _value(self, node: Any, name: str) -> Make:
        if isinstance(node, list):
            return self._union(node, name)
        avro = self._schema.type_of(node)
        kind, logical = avro["type"], str(avro.get("logicalType"))
        if logical in _LOGICAL:
            return _LOGICAL[logical](avro, name)
        if kind == "record":
            return self.record(node, {})
        if kind == "array":
            item = self._value(avro["items"], name)
            return lambda on: [item(on) for _ in range(1 + on.chance.randrange(3))]
        if kind == "map":
            value = self._value(avro["values"], name)
            return lambda on: {f"{name}-{one}": value(on) for one in range(1 + on.chance.randrange(2))}
        return _PLAIN[kind](avro, name)

    def _union(self, node: Sequence[Any], name: str) -> Make:
        others = [self._value(one, name) for one in node if one != "null"]
        nulls = NULLS if "null" in node else 0.0
        if not others:
            return lambda _: None
        only = others[0]
        if len(others) == 1 and not nulls:
            return only
        if len(others) == 1:
            return lambda on: None if on.chance.random() < nulls else only(on)
        return lambda on: None if on.chance.random() < nulls else others[on.chance.randrange(len(others))](on)


def uuid_of(number: int, kind: str) -> Any:
    found = uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128), version=4)
    return found.bytes if kind == "fixed" else str(found)


def _moment(avro: Mapping[str, Any], _name: str) -> Make:
    unit = UNITS_US[avro["logicalType"]]
    return lambda on: on.at_us // unit


def _drawn_decimal(avro: Mapping[str, Any], _name: str) -> Make:
    most, scale = 10 ** min(avro["precision"], avro.get("scale", 0) + 3), avro.get("scale", 0)
    return lambda on: Decimal(on.chance.randrange(most)).scaleb(-scale)


def _drawn_bytes(size: int) -> Make:
    return lambda on: on.chance.randrange(1 << 62).to_bytes(8, "big").rjust(size, b"\0")[-size:] if size else b""


def _drawn_symbol(avro: Mapping[str, Any], _name: str) -> Make:
    symbols = avro["symbols"]
    return lambda on: symbols[on.chance.randrange(len(symbols))]


_Maker = Callable[[Mapping[str, Any], str], Make]
_LOGICAL: dict[str, _Maker] = {
    **dict.fromkeys(UNITS_US, _moment),
    "date": lambda _avro, _name: lambda on: on.at_us // _DAY_US,
    "time-millis": lambda _avro, _name: lambda on: on.at_us % _DAY_US // 1_000,
    "time-micros": lambda _avro, _name: lambda on: on.at_us % _DAY_US,
    "uuid": lambda avro, _name: lambda on: uuid_of(on.chance.randrange(TEXTS), avro["type"]),
    "decimal": _drawn_decimal,
}
_PLAIN: dict[str, _Maker] = {
    "null": lambda _avro, _name: lambda _: None,
    "boolean": lambda _avro, _name: lambda on: on.chance.random() < 0.5,
    "int": lambda _avro, _name: lambda on: on.chance.randrange(NUMBERS),
    "long": lambda _avro, _name: lambda on: on.chance.randrange(NUMBERS),
    "float": lambda _avro, _name: lambda on: on.chance.randrange(NUMBERS * 4) / 4,
    "double": lambda _avro, _name: lambda on: on.chance.randrange(NUMBERS * 100) / 100,
    "string": lambda _avro, name: lambda on: f"{name}-{on.chance.randrange(TEXTS)}",
    "bytes": lambda _avro, _name: _drawn_bytes(8),
    "fixed": lambda avro, _name: _drawn_bytes(avro["size"]),
    "enum": _drawn_symbol,
}

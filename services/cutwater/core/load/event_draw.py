"""Random events of a job's schema, with the key and the event time that a load gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from cutwater.core.events.avro_types import Schema
from cutwater.core.events.key_columns import BOOLEAN, DATE, UUID
from cutwater.core.job.job import Job
from cutwater.core.load.time_field import TimeField, column_field, plain_type
from cutwater.core.load.value_draw import Given, Make, Occasion, record_draw, uuid_of

DAYS = 30_000
"""Different dates of a key."""


class EventDraw:
    """Makes events of a job. A key column by an expression, or from an array or map, has random values."""

    def __init__(self, job: Job, keys: int, time: TimeField) -> None:
        schema, given = Schema.of(job.event_schema), Given()
        names = job.key_fields
        radix = _least_radix(keys, len(names))
        for at, name in enumerate(names):
            below = len(names) - 1 - at
            if found := column_field(job, schema, name):
                value = _key_value(str(found.steps[-1]), plain_type(schema, found.node))
                steps = tuple(map(str, found.steps))
                _put(given, steps, _of_key(value, radix**below, radix if at else keys))
        _put(given, time.steps, lambda on: time.value(on.at_us))
        self._make = record_draw(schema, given)

    def make(self, occasion: Occasion) -> dict[str, Any]:
        """Return an event: its fields as Avro's Python values, times as numbers in the field's unit."""
        made: dict[str, Any] = self._make(occasion)
        return made


def _of_key(value: Callable[[int], Any], divisor: int, modulus: int) -> Make:
    return lambda on: value(on.key // divisor % modulus)


def _least_radix(keys: int, columns: int) -> int:
    """Return the least number of values of each column that makes enough keys."""
    radix = max(1, int(keys ** (1 / max(columns, 1))))
    while radix**columns < keys and columns:
        radix += 1
    return radix


def _put(given: Given, steps: Sequence[str], make: Make) -> None:
    tree: Any = given
    for one in steps[:-1]:
        tree = tree.setdefault(one, {})
    tree[steps[-1]] = make


def _key_value(name: str, avro: Mapping[str, Any]) -> Callable[[int], Any]:
    """Return the value of a key's number, by the field's type. Types with few values repeat them."""
    kind, logical = avro["type"], str(avro.get("logicalType"))
    if logical == "decimal":
        digits, scale = avro["precision"], avro.get("scale", 0)
        return lambda number: Decimal(number % 10**digits).scaleb(-scale)
    if logical == UUID:
        return lambda number: uuid_of(number, kind)
    if logical == DATE:
        return lambda number: number % DAYS
    if kind == "enum":
        symbols = avro["symbols"]
        return lambda number: symbols[number % len(symbols)]
    return _BY_TYPE.get(kind, lambda number: f"{name}-{number}")


_BY_TYPE: dict[str, Callable[[int], Any]] = {
    BOOLEAN: lambda number: number % 2 == 1,
    "int": lambda number: number % (1 << 31),
    "long": lambda number: number,
}

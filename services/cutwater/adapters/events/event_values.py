"""Values of events as programs give them, made plain before Avro or JSON is written.

Avro's writer takes a datetime without a zone as the machine's local time, and a number beyond a float as infinity.
It compares a decimal's digits with the precision, wherever its point is, and writes a fixed -0 as -2. JSON's
writer knows neither UUIDs nor the numbers of numpy, nor the pairs of type and value that Avro's has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from numbers import Integral, Real
from typing import Any
from uuid import UUID

from cutwater.core.errors import UsageError
from cutwater.core.events.avro_types import Schema
from cutwater.core.events.json_records import FLOAT_END, unscaled
from cutwater.core.job.field_paths import bare, type_of
from cutwater.core.job.measures import TIMES, FieldType

Make = Callable[[Any], Any]
"""Returns the plain form of a value, which is not null; the value itself if it does not fit the type."""


def event_values(schema: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return a function from an event to the same event with plain values. `schema`: without recursive types.

    A datetime without a zone is UTC. The function raises UsageError, which names the field, for a finite number
    beyond a float, and for a decimal beyond its type. Of a union of several types all values stay as they are.
    """
    found = Schema.of(schema)
    return _record(found, found.type_of(found.root), "")


def _record(schema: Schema, type_: Mapping[str, Any], path: str) -> Callable[[Any], Any]:
    within = f"{path}." if path else ""
    every = {one["name"]: _maker(schema, one["type"], within + one["name"]) for one in type_["fields"]}
    makers = {name: make for name, make in every.items() if make is not None}

    def made(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        plain = dict(value)
        for name, make in makers.items():
            if (one := plain.get(name)) is not None:
                plain[name] = make(one)
        return plain

    return made


def _maker(schema: Schema, node: Any, path: str) -> Make | None:
    """Return None for a type whose values are plain."""
    inner = bare(node)
    if isinstance(inner, list):
        return None
    type_ = schema.type_of(inner)
    kind = type_["type"]
    made: Make | None = None
    if (of := type_of(schema, inner)).name == "decimal":
        made = partial(_decimal, path, of)
    elif kind == "record":
        made = _record(schema, type_, path)
    elif kind in ("array", "map"):
        make = _maker(schema, type_["items" if kind == "array" else "values"], f"{path}[]")
        made = partial(_list if kind == "array" else _map, make or _same)
    elif kind in ("int", "long"):
        made = _time if type_.get("logicalType") in TIMES else _integer
    elif kind in ("float", "double"):
        made = partial(_floating, path if kind == "float" else "")
    elif kind in ("string", "fixed"):
        made = _text if kind == "string" else _bytes
    if isinstance(node, list):
        return partial(_of_union, made or _same)
    return made


def _same(value: Any) -> Any:
    return value


def _of_union(make: Make, value: Any) -> Any:
    # The writer of Avro takes a tuple in a union as the type's name and the value.
    is_pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
    return make(value[1] if is_pair else value)


def _list(make: Make, value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    return [None if one is None else make(one) for one in value]


def _map(make: Make, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: None if one is None else make(one) for name, one in value.items()}


def _time(value: Any) -> Any:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return _integer(value)


def _integer(value: Any) -> Any:
    if type(value) in (int, bool):  # at once: a check against an abstract class takes a microsecond
        return value
    return int(value) if isinstance(value, Integral) else value


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value


def _bytes(value: Any) -> Any:
    return value.bytes if isinstance(value, UUID) else value


def _decimal(path: str, of: FieldType, value: Any) -> Any:
    """Return a Decimal also for the bytes that Avro has for one."""
    if isinstance(value, bytes | bytearray):
        value = unscaled(bytes(value), of.scale)
    if not isinstance(value, Decimal):
        return value
    exponent = value.as_tuple().exponent
    is_beyond = value.is_finite() and value and value.adjusted() >= of.precision - of.scale
    if not isinstance(exponent, int) or exponent < -of.scale or is_beyond:
        raise UsageError(f"{path}: {value!s:.60} does not fit {of}")
    return value or value.copy_abs()


def _floating(path: str, value: Any) -> Any:
    """`path`: of a float; empty for a double."""
    if type(value) is bool or not (type(value) in (int, float) or isinstance(value, Real)):
        return value
    try:
        number = float(value)
    except OverflowError:
        return value
    if path and FLOAT_END <= abs(number) < float("inf"):
        raise UsageError(f"{path}: {number!r} is beyond a float, which holds numbers up to about 3.4e38")
    return number

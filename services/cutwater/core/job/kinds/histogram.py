"""Counts of a field's values by buckets with fixed bounds.

A bucket holds the values from its lower bound up to, but not including, its upper one; the first holds all values
below, and the last all others, NaN included, which Spark orders above every number. Each bucket is a count of its
own, so Spark aggregates by hash, and merging adds.

Users see a list of counts: its type does not depend on the bounds, and a bound such as -0.5 is no column's name.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.job.measures import Declaration, FieldType, Measure, Partials, count_partial
from cutwater.core.util.suggestions import value_text

BOUNDS_MAX = 100
_LONG_END = 1 << 63


def histogram(declared: Declaration) -> Measure:
    name, field = declared.name, declared.field
    bounds = _literals(declared)
    buckets = [f"{field} < {bounds[0]}"]
    buckets += [f"{field} >= {low} and {field} < {high}" for low, high in pairwise(bounds)]
    buckets.append(f"{field} >= {bounds[-1]}")
    columns = [f"{name}_{number}" for number in range(len(buckets))]

    def present(row: Partials) -> list[int]:
        return [row[column] or 0 for column in columns]

    partials = tuple(
        count_partial(column, f"case when {bucket} then 1 end")
        for column, bucket in zip(columns, buckets, strict=True)
    )
    return Measure(name, "histogram", partials, present, {"type": "array", "items": "long"}, length=len(columns))


def _literals(declared: Declaration) -> list[str]:
    """Return the bounds as SQL of the field's type. Raises UsageError for bounds that it cannot have."""
    of, given = declared.of, declared.bounds
    if not 1 <= len(given) <= BOUNDS_MAX:
        raise UsageError(f"measure '{declared.name}': {len(given)} bounds; allowed: 1 to {BOUNDS_MAX}")
    convert, sql = _WRITTEN.get(of.name, _DOUBLES)
    found: list[Any] = [convert(one, of) for one in given]
    for one, value in zip(given, found, strict=True):
        if value is None:
            raise UsageError(
                f"measure '{declared.name}': the bound {value_text(one)} is no {of}, which its field is"
            )
    if sorted(set(found)) != found:
        raise UsageError(
            f"measure '{declared.name}': the bounds are not ascending: [{', '.join(map(value_text, given))}]"
        )
    return [sql(value, of) for value in found]


def _integer(bound: float, _of: FieldType) -> int | None:
    # Of an int's field too: a bound outside its range is allowed, and the comparison is one of longs.
    return int(bound) if bound == int(bound) and -_LONG_END < bound < _LONG_END else None


def _exact(bound: float, of: FieldType) -> Decimal | None:
    # Of the field's own type, because Spark would cut digits from a comparison of two wide types.
    if abs(bound) >= 10 ** (of.precision - of.scale):
        return None
    number = Decimal(repr(bound))
    digits = number.normalize().as_tuple().exponent
    return number if isinstance(digits, int) and -digits <= of.scale else None


def _double(bound: float, _of: FieldType) -> float | None:
    try:
        return float(bound)
    except OverflowError:
        return None


_Pair = tuple[Callable[[float, FieldType], Any], Callable[[Any, FieldType], str]]
_DOUBLES: _Pair = (
    _double,
    lambda value, _of: f"cast('{value!r}' as double)",
)
_WHOLES: _Pair = _integer, lambda value, _of: f"{value}L"
_WRITTEN: dict[str, _Pair] = {
    "int": _WHOLES,
    "long": _WHOLES,
    "decimal": (_exact, lambda value, of: f"cast('{value:f}' as {of})"),
}
"""By type: a bound as a value of it, None if it has none, and that value as SQL."""

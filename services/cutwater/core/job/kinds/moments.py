"""Variance and standard deviation of a sample, from partials that merge.

Of whole and decimal numbers the partials are exact: number, sum, and sum of the squares. Of floating point numbers
they are number, mean, and sum of the squared distances from it, merged by the formulas of Chan et al. (1983): a
plain sum of squares would lose all digits of values that are far from zero and close together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from cutwater.core.job.measures import (
    MAX_DECIMAL,
    WIDE,
    Declaration,
    FieldType,
    Measure,
    Partial,
    Partials,
    add,
    coalesced,
    count_partial,
    seed_of,
    sql_sum,
    sum_partial,
)

FACTOR_DIGITS = 14
"""Digits of one event's value: its square has twice as many, which is what an addend may have."""


def variance(declared: Declaration) -> Measure:
    """Return the measure `variance`: of a sample, None for fewer than two values."""
    return _made("variance", declared.name, str(declared.field), declared.of, lambda found: found)


def deviation(declared: Declaration) -> Measure:
    """Return the measure `stddev`, the square root of the variance."""
    return _made("stddev", declared.name, str(declared.field), declared.of, math.sqrt)


def _made(kind: str, name: str, field: str, of: FieldType, finish: Callable[[float], float]) -> Measure:
    if of.name in ("float", "double"):
        partial = _moments_partial(name, field)
        return Measure(name, kind, (partial,), lambda row: _presented(_of_moments(row[name]), finish), "double")
    count, total, squares = f"{name}_count", f"{name}_sum", f"{name}_squares"
    partials = (
        count_partial(count, field),
        sum_partial(total, field, of),
        _squares_partial(squares, field, of),
    )

    def present(row: Partials) -> float | None:
        return _presented(_of_sums(row[count], row[total], row[squares]), finish)

    return Measure(name, kind, partials, present, "double")


def _presented(found: float | None, finish: Callable[[float], float]) -> float | None:
    return None if found is None else finish(found)


def _of_sums(count: int | None, total: Any, squares: Decimal | None) -> float | None:
    if not count or count < 2 or squares is None:
        return None
    # In whole: the difference of two large numbers is exact before it is divided.
    scaled = WIDE.subtract(WIDE.multiply(Decimal(count), squares), WIDE.power(Decimal(total), 2))
    return float(WIDE.divide(scaled, Decimal(count * (count - 1))))


def _of_moments(found: Any) -> float | None:
    if found is None or found["count"] < 2:
        return None
    return float(found["m2"]) / (int(found["count"]) - 1)


def _squares_partial(column: str, field: str, of: FieldType) -> Partial:
    total = FieldType("decimal", MAX_DECIMAL, 2 * of.scale)
    factor = f"cast({field} as decimal({FACTOR_DIGITS},{of.scale}))"
    square = f"cast({factor} * {factor} as decimal({2 * FACTOR_DIGITS},{2 * of.scale}))"
    events, seeds = f"cast(sum({square}) as {total})", f"cast(sum({seed_of(column)}) as {total})"
    return Partial(column, total.avro, events, coalesced(sql_sum(events, seeds, total), events, seeds), add)


def _moments_partial(name: str, field: str) -> Partial:
    types = {"count": "long", "mean": "double", "m2": "double"}
    fields = [{"name": part, "type": type_} for part, type_ in types.items()]
    record = {"type": "record", "name": f"{name}_moments", "fields": fields}
    number, mean = f"count({field})", f"avg({field})"
    distances = f"var_pop({field}) * count({field})"
    events = _struct(f"count({field}) > 0", number, mean, distances)
    # A row has at most one seed, so a sum is its value.
    seed = {part: f"sum({seed_of(name)}.{part})" for part in types}
    seeds = _struct(f"{seed['count']} is not null", *seed.values())
    apart, together = f"({seed['mean']} - {mean})", f"({number} + {seed['count']})"
    merged = _struct(
        f"count({field}) > 0 and {seed['count']} is not null",
        together,
        f"{mean} + {apart} * {seed['count']} / {together}",
        f"{distances} + {seed['m2']} + {apart} * {apart} * {number} * {seed['count']} / {together}",
    )
    return Partial(name, record, events, coalesced(merged, events, seeds), _merge_moments, one_seed=True)


def _struct(condition: str, count: str, mean: str, m2: str) -> str:
    """Return SQL for the moments under a condition, else NULL. The fields themselves are never NULL."""
    parts = f"'count', coalesce({count}, 0L), 'mean', coalesce({mean}, 0D), 'm2', coalesce({m2}, 0D)"
    return f"case when {condition} then named_struct({parts}) end"


def _merge_moments(one: Any, other: Any) -> dict[str, Any]:
    count = one["count"] + other["count"]
    apart = other["mean"] - one["mean"]
    return {
        "count": count,
        "mean": one["mean"] + apart * other["count"] / count,
        "m2": one["m2"] + other["m2"] + apart * apart * one["count"] * other["count"] / count,
    }

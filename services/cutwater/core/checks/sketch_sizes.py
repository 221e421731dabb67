"""Bytes of what a measure keeps in a row, by how many values the row has had.

Sketches are small as long as they hold few values. Sizes are those of Apache DataSketches as Spark writes them.
"""

from __future__ import annotations

import math
from functools import cache

from cutwater.core.job.kinds.frequent_items import TOP, kept_values
from cutwater.core.job.kinds.quantiles import kll_bytes
from cutwater.core.job.measures import (
    HLL,
    THETA,
    THETA_BYTES_MAX,
    THETA_VALUES,
    Measure,
)

SKETCH_LIST_MAX, SKETCH_SET_MAX = 7, 384
"""The most values for which an HLL sketch of 4,096 registers is a list, and a set of hashes."""
SKETCH_LIST_BYTES, SKETCH_FULL_BYTES = 40, 4_136
_SET_HEAD_BYTES, _SET_SLOTS_MIN, _SET_FILL = 12, 32, 0.75
_THETA_HEAD_BYTES, _HASH_BITS = 8, 63
"""Of a compressed theta sketch; its hashes are stored as the differences of sorted ones."""
_EULER = 0.5772
_UNION_BYTES = 1
"""Which of null and the value it is."""


def sketch_bounds(measure: Measure) -> tuple[int, int]:
    """Return the bytes of a `distinct` measure's smallest and largest sketch."""
    if measure.sketch == THETA:
        return 2 * _THETA_HEAD_BYTES, THETA_BYTES_MAX
    return SKETCH_LIST_BYTES, SKETCH_FULL_BYTES


def sketch_bytes(distinct: int, sketch: str = HLL) -> int:
    """Return the bytes of a sketch of `distinct` different values."""
    if sketch == THETA:
        return _theta_bytes(distinct)
    if distinct <= SKETCH_LIST_MAX:
        return SKETCH_LIST_BYTES
    if distinct > SKETCH_SET_MAX:
        return SKETCH_FULL_BYTES
    slots = _SET_SLOTS_MIN
    while distinct > slots * _SET_FILL:
        slots *= 2
    return _SET_HEAD_BYTES + 4 * slots


def _theta_bytes(distinct: int) -> int:
    """The widest of n gaps between random hashes is ln n + 0.58 times the mean gap, and all have its bits."""
    if distinct <= 1:
        return 2 * _THETA_HEAD_BYTES
    held = min(distinct, THETA_VALUES)
    widest = max(math.log(held) + _EULER, 1.0)
    bits = min(_HASH_BITS, math.ceil(_HASH_BITS - math.log2(distinct) + math.log2(widest)))
    head = _THETA_HEAD_BYTES * (1 if distinct <= THETA_VALUES else 2) + -(-held.bit_length() // 8)
    return head + -(-held * bits // 8)


def values_bytes(measure: Measure, events: int, values: int | None, item_bytes: float) -> float | None:
    """Return the mean bytes that a measure keeps in a row of so many events; None if they do not matter.

    `values`: how many different ones the field has; None: each event has another one. `item_bytes`: of a text that
    a `top` keeps, or of its number. Each event is assumed to have a value.
    """
    if measure.kind == "distinct":
        return sketch_bytes(different(values, events), measure.sketch)
    if measure.kind == "quantile":
        return kll_bytes(events)
    if measure.kind == TOP:
        held = min(different(values, events), kept_values(measure.length))
        return 5 + held * (item_bytes + _long_bytes(-(-events // max(held, 1))))
    if measure.kind == "histogram":
        return measure.length * (_UNION_BYTES + _long_bytes(-(-events // measure.length)))
    return None


@cache
def different(values: int | None, events: int) -> int:
    """Return how many of so many equally frequent values some events have, on the mean."""
    if values is None:
        return events
    return round(values * -math.expm1(events * math.log1p(-1 / values))) if values > 1 else min(values, events)


def _long_bytes(number: int) -> int:
    """Return the bytes of a count in Avro."""
    return max(1, -(-(number.bit_length() + 1) // 7))

"""Quantiles from one KLL sketch (Karnin, Lang and Liberty, 2016) in the bytes of Apache DataSketches.

Spark builds the sketches, and draws lots when it halves a full level. Readers merge sketches here, and a hash of
the level's values decides instead: whoever merges the same sketches gets the same bytes. A level holds values that
stand for 2^level events each. A level beyond its capacity is sorted, and every second value moves up.

Up to some 200 values a sketch holds all of them, and its quantiles are exact.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.job.measures import Declaration, Measure, Partial, Partials, coalesced, seed_of
from cutwater.core.util.suggestions import value_text

KLL_K = 200
"""The error of a rank is below 1.33 % with a probability of 99 %."""
KLL_BYTES = 4_800
"""Of a sketch of some hundred thousand values; one of 10^9 has a third more."""
KLL_VALUES_MAX = 100_000
"""Up to so many values `kll_bytes` is exact."""
RANKS_MAX = 20
_M = 8
"""The least capacity of a level."""
_HEAD, _MORE = struct.Struct("<BBBBHBx"), struct.Struct("<QHBx")
_FAMILY = 15
EMPTY = bytes.fromhex("02010f01c8000800")
"""A sketch without values, of this size."""
_EMPTY, _SINGLE = 1, 4


class _Sketch(NamedTuple):
    total: int
    least: float
    greatest: float
    levels: Sequence[Sequence[float]]
    """Each sorted."""


def quantile(declared: Declaration) -> Measure:
    name, field, ranks = declared.name, declared.field, _check_ranks(declared)
    column, seed = name, seed_of(name)
    # Without a value Spark returns an empty sketch.
    events = f"case when count({field}) > 0 then kll_sketch_agg_double(cast({field} as double), {KLL_K}) end"
    seeds = f"case when count({seed}) > 0 then kll_merge_agg_double({seed}, {KLL_K}) end"
    both = coalesced(f"kll_sketch_merge_double({events}, {seeds})", events, seeds)

    def present(row: Partials) -> list[float] | None:
        return quantiles(row[column], ranks) if row[column] else None

    partial = Partial(column, "bytes", events, both, merge_sketches)
    output = {"type": "array", "items": "double"}
    return Measure(name, "quantile", (partial,), present, output, length=len(ranks))


def _check_ranks(declared: Declaration) -> tuple[Fraction, ...]:
    given = declared.ranks
    if not 1 <= len(given) <= RANKS_MAX or not all(0 <= one <= 1 for one in given):
        shown = ", ".join(map(value_text, given))
        raise UsageError(
            f"measure '{declared.name}': the ranks are [{shown}]; allowed: 1 to {RANKS_MAX} numbers from 0 to 1"
        )
    # By its text: 0.07 of 100 values are 7, not 8 by the digits that a double adds.
    return tuple(Fraction(repr(one)) for one in given)


def quantiles(sketch: bytes, ranks: Sequence[Fraction]) -> list[float] | None:
    """Return, for each rank, the least value that at least this share of all values does not exceed.

    None for a sketch without values: NaN are none.
    """
    found = _parse(sketch)
    if not found.total:
        return None
    weighted = sorted((value, 1 << level) for level, values in enumerate(found.levels) for value in values)
    return [_at(found, weighted, math.ceil(rank * found.total)) for rank in ranks]


def of_equal_values(one: bytes, other: bytes) -> bool:
    """Return whether two sketches can be of the same values: as many, with the same least and greatest one.
    As long as both hold all values, these are compared."""
    mine, theirs = _parse(one), _parse(other)
    if mine.total != theirs.total:
        return False
    if not mine.total:
        return True
    exact = len(mine.levels) == len(theirs.levels) == 1
    ends = (mine.least, mine.greatest) == (theirs.least, theirs.greatest)
    return ends and (not exact or [*mine.levels[0]] == [*theirs.levels[0]])


def _at(found: _Sketch, weighted: Sequence[tuple[float, int]], position: int) -> float:
    if position <= 1:
        return found.least
    if position >= found.total:
        return found.greatest
    for value, weight in weighted:
        position -= weight
        if position <= 0:
            return value
    return found.greatest


def merge_sketches(one: bytes, other: bytes) -> bytes:
    """Return the sketch of both; the order of the two makes no difference."""
    mine, theirs = _parse(one), _parse(other)
    if not mine.total or not theirs.total:
        return one if mine.total else other
    height = max(len(mine.levels), len(theirs.levels))
    levels = [sorted([*_level(mine, at), *_level(theirs, at)]) for at in range(height)]
    least, greatest = min(mine.least, theirs.least), max(mine.greatest, theirs.greatest)
    return _serialize(_Sketch(mine.total + theirs.total, least, greatest, _compress(levels)))


def _level(sketch: _Sketch, at: int) -> Sequence[float]:
    return sketch.levels[at] if at < len(sketch.levels) else ()


def _compress(levels: list[list[float]]) -> list[list[float]]:
    """Halve levels from the lowest on, until all values have room."""
    kept, at = sum(map(len, levels)), 0
    while at < len(levels):
        values = levels[at]
        if kept > _total_capacity(len(levels)) and len(values) >= _capacity(len(levels), at):
            odd = len(values) % 2  # a single value stays behind
            stay, move = values[:odd], values[odd:]
            if at + 1 == len(levels):
                levels.append([])
            first = blake2b(struct.pack(f"<{len(move)}d", *move), digest_size=1).digest()[0] & 1
            levels[at], levels[at + 1] = stay, sorted([*levels[at + 1], *move[first::2]])
            kept -= len(move) // 2
        at += 1
    return levels


def _capacity(height: int, level: int) -> int:
    """Return what a level of `height` has room for: the top one for k, each below for two thirds of that."""
    depth = height - level - 1
    return max(_M, ((KLL_K << depth + 1) // int(3**depth) + 1) // 2)


def _total_capacity(height: int) -> int:
    return sum(_capacity(height, level) for level in range(height))


def kll_bytes(values: int) -> int:
    """Return the bytes of a sketch that was given so many values, one by one; of more than KLL_VALUES_MAX about.

    A merged sketch may have up to a half more or less: it is compressed at other moments.
    """
    if values <= 1:
        return _HEAD.size + 8 * values
    at = min(values, KLL_VALUES_MAX)
    counts, kept, heights = _halvings()
    place = bisect_right(counts, at) - 1
    held = kept[place] + at - counts[place]
    return _HEAD.size + _MORE.size + 4 * heights[place] + 8 * (2 + held)


@cache
def _halvings() -> tuple[list[int], list[int], list[int]]:
    """Return, for each halving of a level: values given so far, values held behind it, and levels."""
    counts, kept, heights, levels, given = [0], [0], [1], [0], 0
    while given < KLL_VALUES_MAX:
        room = _total_capacity(len(levels)) - sum(levels)
        levels[0] += room
        given += room
        at = next(at for at, held in enumerate(levels) if held >= _capacity(len(levels), at))
        if at + 1 == len(levels):
            levels.append(0)
        levels[at + 1] += levels[at] // 2
        levels[at] %= 2
        # The halving comes with the next value.
        levels[0] += 1
        given += 1
        counts.append(given)
        kept.append(sum(levels))
        heights.append(len(levels))
    return counts, kept, heights


def _parse(sketch: bytes) -> _Sketch:
    """Raises UsageError for bytes that are no such sketch."""
    try:
        _, _, family, flags, k, m = _HEAD.unpack_from(sketch)
        if (family, k, m) != (_FAMILY, KLL_K, _M):
            raise UsageError(f"a sketch of family {family} and k = {k}, not of {_FAMILY} and {KLL_K}")
        if flags & _EMPTY:
            return _Sketch(0, math.nan, math.nan, ())
        if flags & _SINGLE:
            (value,) = struct.unpack_from("<d", sketch, _HEAD.size)
            return _Sketch(1, value, value, ([value],))
        count, _, height = _MORE.unpack_from(sketch, _HEAD.size)
        bounds = [*struct.unpack_from(f"<{height}I", sketch, _HEAD.size + _MORE.size), _total_capacity(height)]
        start = _HEAD.size + _MORE.size + 4 * height
        least, greatest, *values = struct.unpack_from(f"<{2 + bounds[-1] - bounds[0]}d", sketch, start)
        places = [one - bounds[0] for one in bounds]
        # Adding 0.0 makes -0.0 equal in its bytes, too.
        levels = [sorted(value + 0.0 for value in values[begin:end]) for begin, end in pairwise(places)]
        return _Sketch(count, least + 0.0, greatest + 0.0, levels)
    except struct.error as error:
        raise UsageError(f"not a KLL sketch: {error}") from None


def _serialize(sketch: _Sketch) -> bytes:
    height, values = len(sketch.levels), [value for level in sketch.levels for value in level]
    bounds = [_total_capacity(height) - len(values)]
    for level in sketch.levels[:-1]:
        bounds.append(bounds[-1] + len(level))
    return b"".join(
        (
            _HEAD.pack(5, 1, _FAMILY, 0, KLL_K, _M),
            _MORE.pack(sketch.total, KLL_K, height),
            struct.pack(f"<{height}I", *bounds),
            struct.pack(f"<{2 + len(values)}d", sketch.least, sketch.greatest, *values),
        )
    )

"""Theta sketches: set operations against sets of Python, and one form for the same values."""

from __future__ import annotations

import random
from functools import reduce
from typing import Any

import pytest
from datasketches import update_theta_sketch
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.sketches import Estimate, ThetaSketches
from cutwater.core.errors import UsageError
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import THETA, THETA_BYTES_MAX, THETA_LG_K, THETA_VALUES, FieldType, Measure, merge

SETS = ThetaSketches()
numbers = st.sets(st.integers(0, 30), max_size=20)
several = st.lists(numbers, max_size=4)


def sketch(values: Any, compress: bool = True) -> bytes:
    """As Spark writes it: of at most 4,096 hashes, compressed."""
    found = update_theta_sketch(THETA_LG_K)
    for one in values:
        found.update(one)
    found.trim()
    return bytes(found.compact().serialize(compress))


def measure(of: str = "long") -> Measure:
    return build("m", "distinct", "f", FieldType(of), SETS, sketch=THETA)


@given(st.lists(numbers, min_size=1, max_size=4), several, several)
def test_sets_of_few_values_are_exact(of: list[set[int]], common: list[set[int]], without: list[set[int]]) -> None:
    """In any, in every, in none; an empty set is one."""
    true = set.union(*of)
    true = {one for one in true if all(one in other for other in common)}.difference(*without)
    found = SETS.combined(*(list(map(sketch, sets)) for sets in (of, common, without)))
    assert found == Estimate(len(true), len(true), len(true), exact=True)


@given(st.lists(st.tuples(st.integers(0, 9_000), st.integers(0, 6_000)), min_size=2, max_size=4), st.randoms())
def test_the_same_values_have_one_sketch(spans: list[tuple[int, int]], rng: random.Random) -> None:
    """Whatever the rows that they come from, and the order of the merges."""
    parts = [range(first, first + size) for first, size in spans]
    whole = SETS.united([sketch({one for part in parts for one in part})])
    rows = list(map(sketch, parts))
    assert SETS.united(rows) == whole
    rng.shuffle(rows)
    assert reduce(SETS.union, rows) == SETS.union(rows[0], reduce(SETS.union, rows[1:])) == whole
    assert len(whole) <= THETA_BYTES_MAX


@pytest.mark.parametrize("size", [THETA_VALUES, 50_000])
def test_true_numbers_are_within_the_bounds(size: int) -> None:
    """Of 60 pairs of large sets with a few to all values in common; none is more than 4 standard errors away."""
    missed, estimated = 0, 0
    for number in range(60):
        start, shared = number * 10**7, size * number // 59
        one, other = range(start, start + size), range(start + size - shared, start + 2 * size - shared)
        rows = sketch(one), sketch(other)
        for true, of, common, without in (
            (2 * size - shared, rows, (), ()),
            (shared, rows[:1], rows[1:], ()),
            (size - shared, rows[:1], (), rows[1:]),
        ):
            found = SETS.combined(of, common, without)
            assert found.least <= found.number <= found.most
            missed += not found.least <= true <= found.most
            estimated += not found.exact
            assert not found.exact or found.number == true
            assert found.most - found.least <= 0.3 * size
    assert missed <= 3, "of 180; 0.3 % are expected"
    assert estimated == (180 if size > THETA_VALUES else estimated) > 50


def test_a_row_counts_and_merges() -> None:
    """Exactly up to 4,096 values; a row without a value has no sketch."""
    one = measure()
    rows = [{"m": sketch(range(3_000))}, {"m": sketch(range(2_000, THETA_VALUES))}]
    assert one.present(rows[0]) == 3_000
    assert one.present(merge(one, *rows)) == THETA_VALUES
    assert one.present({"m": None}) == 0
    assert merge(one, rows[0], {"m": None}) == rows[0]
    assert one.present({"m": sketch(range(20_000))}) == pytest.approx(20_000, rel=0.065)


def test_compressed_or_not_is_the_same_set() -> None:
    every = [sketch(range(size), compress) for size in (0, 1, 2, 700, 9_000) for compress in (True, False)]
    for plain, compressed in zip(every[1::2], every[::2], strict=True):
        assert SETS.united([plain]) == SETS.united([compressed])


@pytest.mark.parametrize(
    ("bytes_", "said"),
    [
        (b"", "not a theta sketch"),
        (b"\x00" * 8, "not a theta sketch"),
        (sketch(range(9))[:-1], "not a theta sketch"),
        (sketch(range(9)) + b"\x00", "are not its length"),
        (sketch(range(9), compress=False) + b"\x00", "are not its length"),
        (b"\x00" * (THETA_BYTES_MAX + 1), r"32,793 bytes; allowed: up to 32,792"),
    ],
    ids=["nothing", "zeros", "short", "long", "long, plain", "too long"],
)
def test_what_is_no_sketch_is_refused(bytes_: bytes, said: str) -> None:
    """And does not count as an empty set."""
    for refused in (lambda: SETS.estimate(bytes_), lambda: SETS.combined([bytes_], [], [])):
        with pytest.raises(UsageError, match=said):
            refused()

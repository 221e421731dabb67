"""KLL sketches: merged here, read by the library that Spark uses, and within their stated error."""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from fractions import Fraction
from itertools import permutations

import pytest
from datasketches import kll_doubles_sketch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.adapters.sketches import HllSketches
from cutwater.core.errors import UsageError
from cutwater.core.job.kinds.quantiles import KLL_K, merge_sketches, quantiles
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import FieldType

RANKS = tuple(map(Fraction, ("0", "0.01", "0.5", "0.95", "0.99", "1")))
EMPTY = bytes.fromhex("02010f01c8000800")
"""What Spark's kll_sketch_agg_double returns for no value."""


def sketch(values: list[float]) -> bytes:
    made = kll_doubles_sketch(KLL_K)
    for one in values:
        made.update(one)
    return bytes(made.serialize())


def exact(values: list[float]) -> list[float] | None:
    ordered = sorted(values)
    return [ordered[max(math.ceil(rank * len(values)) - 1, 0)] for rank in RANKS] if values else None


@settings(max_examples=30)
@given(st.lists(st.lists(st.floats(allow_nan=False), max_size=40), min_size=3, max_size=3))
def test_few_values_have_exact_quantiles(parts: list[list[float]]) -> None:
    """In whatever order three sketches are merged; NaN is no value."""
    every = exact([one for part in parts for one in part])
    for one, two, three in permutations([sketch([*part, math.nan]) for part in parts]):
        assert quantiles(merge_sketches(merge_sketches(one, two), three), RANKS) == every
        assert merge_sketches(one, two) == merge_sketches(two, one)


@pytest.mark.parametrize("shape", ["sorted", "shuffled", "few"])
def test_merged_sketches_are_within_their_error_and_read_by_the_library(shape: str) -> None:
    """Sixty panes of 300 values, and two large parts: twice the error of 1.33 %, and always the same bytes."""
    values = [float(number % 50 if shape == "few" else number) for number in range(18_000)]
    if shape != "sorted":
        random.Random(4).shuffle(values)
    parts = [sketch(values[at : at + 300]) for at in range(0, 18_000, 300)]
    for some in (parts, [sketch(values[:15_000]), sketch(values[15_000:])]):
        merged, again = EMPTY, EMPTY
        for one in some:
            merged, again = merge_sketches(merged, one), merge_sketches(one, again)
        assert merged == again
        assert len(merged) < 6_000
        ordered, found = sorted(values), quantiles(merged, RANKS)
        theirs = kll_doubles_sketch.deserialize(merged)
        assert found is not None
        assert (theirs.n, theirs.get_min_value(), theirs.get_max_value()) == (18_000, found[0], found[-1])
        assert theirs.get_quantiles([0.5, 0.95], True) == [found[2], found[3]]
        for rank, value in zip(RANKS, found, strict=True):
            low, high = bisect_left(ordered, value) / 18_000, bisect_right(ordered, value) / 18_000
            assert low - 0.0266 <= rank <= high + 0.0266, (rank, value)
        theirs.update(-1.0)  # and it goes on where this one ended
        theirs.merge(kll_doubles_sketch.deserialize(parts[0]))
        assert theirs.n == 18_301


def test_what_is_no_sketch_is_refused() -> None:
    assert quantiles(EMPTY, RANKS) is None
    for damaged in (
        b"",
        sketch([1.0, 2.0])[:-1],
        bytes.fromhex("02010f0190010800"),
        b"\x02\x01\x07\x01\xc8\0\x08\0",
    ):
        with pytest.raises(UsageError, match="sketch"):
            quantiles(damaged, RANKS)


@pytest.mark.parametrize("ranks", [(1.5,), (-0.1,), tuple([0.5] * 21)])
def test_ranks_are_shares(ranks: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match=r"measure 'm': the ranks are .*; allowed: 1 to 20 numbers from 0 to 1"):
        build("m", "quantile", "f", FieldType("int"), HllSketches(), ranks=ranks)
    with pytest.raises(UsageError, match="measure 'm': quantile needs 'ranks'"):
        build("m", "quantile", "f", FieldType("int"), HllSketches())


def test_a_rank_is_what_is_written() -> None:
    """As a double, 0.07 of 100 values would be a little more than 7 of them."""
    one = build("m", "quantile", "f", FieldType("int"), HllSketches(), ranks=(0.07,))
    assert one.present({"m": sketch([float(number) for number in range(1, 101)])}) == [7.0]

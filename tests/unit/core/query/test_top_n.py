"""The first rows by a measure are what sorting all of them gives, whatever order they come in."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.query.top_n import Ranking

VALUES = st.none() | st.sampled_from([1.0, 2.5, -3.0, math.inf, -math.inf, math.nan]) | st.integers(-3, 3)


def expected(offered: list[tuple[Any, tuple[int]]], descending: bool) -> list[tuple[int]]:
    """Said in another way: numbers apart from NaN and None, each sorted by itself."""
    known = [(value, row) for value, row in offered if value is not None and not math.isnan(value)]
    nans = sorted(row for value, row in offered if value is not None and math.isnan(value))
    nulls = sorted(row for value, row in offered if value is None)
    numbers = [row for _, row in sorted(known, key=lambda one: (-one[0] if descending else one[0], one[1]))]
    return [*nans, *numbers, *nulls] if descending else [*numbers, *nans, *nulls]


@given(st.lists(VALUES, max_size=40), st.integers(1, 5), st.booleans(), st.randoms())
def test_the_first_rows_are_those_of_a_sort(values: list[Any], most: int, descending: bool, random: Any) -> None:
    """Ties by the row, ascending in both orders; NaN above every number; None last."""
    offered = [(value, (place,)) for place, value in enumerate(values)]
    wanted = expected(offered, descending)[:most]
    for one in (offered, offered[::-1], random.sample(offered, len(offered))):
        ranking: Ranking[tuple[int]] = Ranking(most, descending)
        for value, row in one:
            ranking.offer(value, row)
            assert len(ranking._kept) <= 2 * most
        assert ranking.first() == wanted


@given(st.lists(VALUES, max_size=30), st.integers(1, 5), st.booleans(), st.integers(1, 4))
def test_the_first_of_the_firsts_are_the_first(values: list[Any], most: int, descending: bool, parts: int) -> None:
    """Rankings of parts join to the ranking of the whole: that is what several owners' answers do."""
    offered = [(value, (place,)) for place, value in enumerate(values)]
    joined: Ranking[tuple[int]] = Ranking(most, descending)
    for part in range(parts):
        own: Ranking[tuple[int]] = Ranking(most, descending)
        for value, row in offered[part::parts]:
            own.offer(value, row)
        for row in own.first():
            joined.offer(values[row[0]], row)
    assert joined.first() == expected(offered, descending)[:most]

"""Why a replayed row differs, and which differences are a sketch's error."""

from __future__ import annotations

import random
from typing import Any

import pytest
from datasketches import kll_doubles_sketch
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.sketches import HllSketches
from cutwater.core.checks.state_comparison import RowName
from cutwater.core.job.kinds.frequent_items import merge_counts
from cutwater.core.job.kinds.quantiles import KLL_K, of_equal_values
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import THETA, FieldType
from cutwater.core.past.replay_reasons import (
    Explainer,
    LateWindows,
    Reason,
    ReplaySummary,
    counts_overlap,
    estimates_agree,
)
from cutwater.core.past.state_difference import DifferenceSummary, MeasureChange, RowChange, RowKind, ShownRow

_SKETCHES = HllSketches()
NAME = RowName("JFK", 0, 60_000)
COUNT = build("n", "count", None, None, _SKETCHES)
DISTINCT = build("who", "distinct", "f", FieldType("string"), _SKETCHES)
NONE = LateWindows([])
SPANS = st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.just(0)).map(
    lambda one: (one[0], one[1], one[1] + 2)
)


@given(st.lists(SPANS), st.sampled_from("ab"), st.integers(0, 9), st.integers(1, 6))
def test_a_late_event_belongs_to_the_windows_of_its_pane(
    late: list[tuple[str, int, int]], key: str, start: int, size: int
) -> None:
    expected = any(one == key and start <= first and end <= start + size for one, first, end in late)
    assert LateWindows(late).touches(RowName(key, start, start + size)) == expected


def test_reasons_go_from_the_surest_on() -> None:
    change = RowChange(NAME, RowKind.ADDED, ())
    late = LateWindows([("JFK", 0, 60_000)])
    assert Explainer([COUNT], late, another=True).reason(change) is Reason.LATE
    assert Explainer([COUNT], NONE, another=True).reason(change) is Reason.JOB_FILE
    assert Explainer([COUNT], NONE, another=False).reason(change) is Reason.UNKNOWN


def changed(*names: str, hidden: tuple[str, ...] = ()) -> RowChange:
    return RowChange(NAME, RowKind.CHANGED, tuple(MeasureChange(one, 1, 2) for one in names), hidden)


def test_the_error_of_a_sketch_is_no_difference() -> None:
    """What else differs in the row still does; a sketch beyond its error differs."""
    explainer = Explainer([COUNT, DISTINCT], NONE, another=False)
    live, close, far = (ShownRow({"n": 1, "who": number}, {}) for number in (1_000, 1_030, 1_200))
    assert explainer.without_errors(changed("who"), live, close) == (None, ["who"])
    assert explainer.without_errors(changed("n", "who"), live, close) == (changed("n"), ["who"])
    assert explainer.without_errors(changed(hidden=("who",)), live, close) == (None, [])
    assert explainer.without_errors(changed("who"), live, far) == (changed("who"), [])
    nothing = ShownRow({"n": 1, "who": None}, {})
    assert explainer.without_errors(changed("who"), live, nothing) == (changed("who"), [])


def test_theta_sketches_are_exact() -> None:
    theta = build("who", "distinct", "f", FieldType("string"), _SKETCHES, sketch=THETA)
    live, close = (ShownRow({"who": number}, {}) for number in (1_000, 1_001))
    found = Explainer([theta], NONE, another=False).without_errors(changed("who"), live, close)
    assert found == (changed("who"), [])


def sketch(values: list[float]) -> bytes:
    made = kll_doubles_sketch(KLL_K)
    for one in values:
        made.update(one)
    return bytes(made.serialize())


@pytest.mark.parametrize(
    ("count", "other", "equal"), [(150, 150, True), (5_000, 5_000, True), (5_000, 5_001, False)]
)
def test_sketches_of_quantiles(count: int, other: int, equal: bool) -> None:
    """The same values in another order; one more; small ones hold all values, so one that is other is seen."""
    values = [float(number * number % 7_919) for number in range(max(count, other))]
    shuffled = values[:other]
    random.Random(1).shuffle(shuffled)
    assert of_equal_values(sketch(values[:count]), sketch(shuffled)) == equal
    if count < KLL_K:
        assert not of_equal_values(sketch(values[:count]), sketch([*values[1:count], 0.5]))
    assert not of_equal_values(sketch(values[:count]), sketch([*values[1:count], 1e9]))


def test_estimates_agree_within_three_standard_errors() -> None:
    assert estimates_agree(0, 1)
    assert estimates_agree(10_000, 10_400)
    assert not estimates_agree(10_000, 10_700)


@given(st.lists(st.sampled_from("abcdefgh"), max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_most_frequent_values_overlap_however_they_were_merged(values: list[str], one: int, other: int) -> None:
    """Two accounts of the same values always do, if either has an error; then a count that is far off does not."""

    def account(*parts: list[str]) -> dict[str, Any]:
        exact = [
            {"error": 0, "values": [{"value": each, "count": part.count(each)} for each in sorted({*part})]}
            for part in parts
        ]
        found = exact[0]
        for more in exact[1:]:
            found = merge_counts(found, more, 3)
        return found

    mine, theirs = (account(values[:at], values[at:]) for at in (one, other))
    if mine["error"] or theirs["error"]:
        assert counts_overlap(mine, theirs)
        far = {**theirs, "values": [{"value": "a", "count": 1_000}]}
        assert not counts_overlap(mine, far)
    else:
        assert not counts_overlap(mine, theirs)


def test_reasons_stand_beside_the_first_differences() -> None:
    found = ReplaySummary(DifferenceSummary(2))
    for reason in (Reason.LATE, Reason.UNKNOWN, Reason.LATE):
        found.add(changed("n"), reason)
    assert found.first == [Reason.LATE, Reason.UNKNOWN]
    assert (found.differences.rows, found.reasons[Reason.LATE]) == (3, 2)

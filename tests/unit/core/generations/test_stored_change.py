"""What a generation takes over of measures that are kept in state, and who compares the stored values of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.sketches import HllSketches
from cutwater.core.canary.row_comparison import CanaryRows
from cutwater.core.checks.state_comparison import RowName
from cutwater.core.generations.job_change import JobChange, compare_jobs, complete_from_ms, shown_from
from cutwater.core.generations.measure_change import Fate
from cutwater.core.job.derived_values import derived_measure
from cutwater.core.job.job import Job
from cutwater.core.job.kinds.stored_values import stored_measure
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import LONG, FieldType, Measure
from cutwater.core.job.windows import WindowSpec
from cutwater.core.past.replayed_rows import ReplayMerge, merging
from cutwater.core.past.state_difference import ShownRow
from support.cli.verb_records import JOB as FLIGHTS
from support.protocol_samples import milestone

_SKETCHES = HllSketches()
N = build("n", "count", None, None, _SKETCHES)
PLANES = build("planes", "distinct", "f", FieldType("string"), _SKETCHES)
MOST = build("most", "max", "v", LONG, _SKETCHES)
EACH = stored_measure("each", "n / planes", {"n": N, "planes": PLANES})
WINDOW = WindowSpec(60, 60)


def job(*measures: Measure, in_state: tuple[Measure, ...] = (PLANES,), **changes: Any) -> Job:
    return replace(FLIGHTS, measures=measures or (N, EACH), state_measures=in_state, window=WINDOW, **changes)


def fates(found: JobChange) -> list[tuple[str, Fate]]:
    return [(one.name, one.fate) for one in found.measures]


def test_a_stored_value_is_carried_over_in_part() -> None:
    """Also by a generation of the same job file: the rows become seeds as they are, and yet something is new."""
    found = compare_jobs(job(), job())
    assert fates(found) == [("n", Fate.CARRIED), ("each", Fate.PARTLY), ("planes", Fate.IN_STATE)]
    assert found.seeds.is_none
    assert found.has_new
    assert not found.changes_rows
    assert found.obstacles == []


def test_a_job_without_such_a_measure_has_nothing_new() -> None:
    assert not compare_jobs(job(N, in_state=()), job(N, in_state=())).has_new


def test_rows_that_are_merged_lose_their_stored_values() -> None:
    """Nobody knows the value of two rows together, so it starts empty, and is no obstacle."""
    found = compare_jobs(job(), replace(job(), window=WindowSpec(120, 120)))
    assert ("each", Fate.REPLACED) in fates(found)
    assert found.seeds.columns == (("n", "n"), ("each", None))
    assert found.obstacles == []


def test_another_expression_and_another_place_start_empty() -> None:
    """A derived value that becomes a stored one was in no row; a measure that leaves the rows is gone there."""
    other = stored_measure("each", "planes / n", {"n": N, "planes": PLANES})
    assert ("each", Fate.REPLACED) in fates(compare_jobs(job(), job(N, other)))
    readers = derived_measure("each", "n / planes", {"n": N, "planes": PLANES})
    before = job(N, PLANES, readers, in_state=())
    to_state = compare_jobs(before, job())
    assert fates(to_state) == [("n", Fate.CARRIED), ("each", Fate.ADDED), ("planes", Fate.IN_STATE)]
    assert to_state.changes_rows
    back = compare_jobs(job(), before)
    assert ("planes", Fate.ADDED) in fates(back)
    assert shown_from(job(), before) == {"n": "n", "planes": None, "each": "each"}
    assert shown_from(before, job()) == {"n": "n", "each": "each"}


def test_a_measure_that_only_leaves_the_rows_changes_them() -> None:
    """The stored value says the same, as it is computed from the same aggregates."""
    before = job(N, MOST, EACH)
    after = job(MOST, EACH, in_state=(N, PLANES))
    found = compare_jobs(before, after)
    assert ("each", Fate.PARTLY) in fates(found)
    assert [(one.name, one.before) for one in found.measures if one.fate is Fate.IN_STATE] == [
        ("n", "n"),
        ("planes", ""),
    ]
    assert found.changes_rows


EVENTS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 599)), max_size=25)


@given(below=EVENTS, above=EVENTS)
def test_every_row_from_window_x_on_has_its_value(
    below: list[tuple[str, int]], above: list[tuple[str, int]]
) -> None:
    """A row has none if it has events of before and of after: none of these is in window X or later."""
    places = [{(key, at // 60 * 60) for key, at in events} for events in (below, above)]
    without = places[0] & places[1]
    newest = max((start + 60 for _, start in places[0]), default=0)
    x_ms = complete_from_ms(compare_jobs(job(), job()), job(), job(), milestone(5), newest)
    assert all(start < x_ms for _, start in without)


def test_a_canary_does_not_compare_stored_values() -> None:
    """Its rows lack some of them, which says nothing about the job."""
    rows = CanaryRows(job(), job(), 0.0)
    assert rows.measures.shared == ("n",)
    here, there = ({"n": 2, "each": value} for value in (2.0, None))
    assert rows.change(RowName("JFK", 0, 60), ShownRow(here, here), ShownRow(there, there)) is None


@pytest.mark.parametrize("before", [None, job()])
def test_a_replay_does_not_compare_stored_values(before: Job | None) -> None:
    """Two rows' values have no merge, and a row of the job may have none. Nor what is derived of them."""
    twice = derived_measure("twice", "2 * each", {"each": EACH})
    merge = ReplayMerge(job(N, EACH, twice), before, None)
    assert merge.names == {"n"}
    row = {"n": 2, "each": 1.5}
    assert merge.partials(row, row) == {"n": 4, "each": None}
    assert [one.name for one in merging(job(), job())] == ["n"]

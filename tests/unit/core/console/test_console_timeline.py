"""The timeline of milestones: nothing counted twice, nothing lost in the aggregation, nothing invented."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.console.timeline import COLUMNS_MAX, STEPS, Timeline
from cutwater.core.protocol.records import Milestone
from support.protocol_samples import OTHER, milestone

FIRST = milestone(0)


def one(sequence: int, at_ms: int, took_ms: int = 900, **changes: Any) -> Milestone:
    """A milestone whose epoch took so long to write, and 100 ms to commit."""
    times = {"committed_ms": at_ms, "written_ms": at_ms - 100, "epoch_started_ms": at_ms - 100 - took_ms}
    return replace(FIRST, sequence=sequence, epoch=sequence - 1, **times | changes)


def timeline(times: list[int], **options: Any) -> Timeline:
    found = Timeline(**options)
    for number, at_ms in enumerate(times, 1):
        found.take(one(number, at_ms, events=number, rows=2 * number))
    return found


TIMES = st.lists(st.integers(0, 10**7), max_size=200)


@given(TIMES, st.integers(1, 50))
def test_each_milestone_is_in_exactly_one_column(times: list[int], columns: int) -> None:
    """Whatever the times, also after a clock was set back: numbers, events and rows add up."""
    found = timeline(times).columns_of(None, None, columns)
    assert found["count"] == found["kept"] == sum(found["counts"]) == len(times)
    assert sum(found["events"]) == sum(range(1, len(times) + 1))
    assert sum(found["rows"]) == 2 * sum(range(1, len(times) + 1))
    assert len(found["at"]) <= max(1, columns)
    assert found["at"] == sorted(found["at"])
    assert 0 not in found["counts"]


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=100), st.integers(1, 20))
def test_the_maximum_of_the_columns_is_that_of_all(took: list[int], columns: int) -> None:
    found = Timeline()
    for number, ms in enumerate(took, 1):
        found.take(one(number, 1_000 * number, ms))
    shown = found.columns_of(None, None, columns)
    assert max(shown["steps"]["written"]["max"]) == max(took) == shown["summary"]["written"]["max"]
    ranked = sorted(took)
    assert shown["summary"]["written"]["median"] == ranked[(len(ranked) - 1) // 2]
    assert shown["summary"]["written"]["known"] == len(took)


@given(TIMES, st.integers(0, 10**7), st.integers(0, 10**7))
def test_a_range_has_the_milestones_that_lie_in_it(times: list[int], start: int, end: int) -> None:
    """By the time at which each was in its order at the latest."""
    ordered = sorted(times)
    found = timeline(ordered).columns_of(start, end, 10)
    assert found["count"] == len([at for at in ordered if start <= at <= end])


def test_a_milestone_is_taken_once() -> None:
    found = timeline([1_000, 2_000])
    assert not found.take(one(2, 2_000))
    assert not found.take(one(1, 5_000))
    assert len(found) == 2


def test_the_oldest_are_forgotten() -> None:
    """In chunks, and with the ids of their generations."""
    found = timeline([1_000 * at for at in range(1, 10)], most=8)
    for number in range(10, 30):
        found.take(one(number, 1_000 * number, generation=OTHER))
    assert 8 <= len(found) <= 9
    newest = found.newest(3)
    assert [each["token"] for each in newest] == [f"{OTHER}:{number}" for number in (29, 28, 27)]
    assert found.columns_of(None, None, 100)["first"]["generation"] == str(OTHER)


def test_what_was_not_observed_is_unknown() -> None:
    """Neither view nor output: null, never 0."""
    found = timeline([1_000, 2_000, 3_000])
    found.mark_published(2, 2_250)
    shown = found.columns_of(None, None, 10)
    assert shown["steps"]["published"]["median"] == [None, 250, None]
    assert shown["steps"]["applied"]["max"] == [None, None, None]
    assert shown["summary"]["applied"] == {"known": 0, "median": None, "p99": None, "max": None}


def test_the_view_has_applied_what_lies_between_two_observations() -> None:
    """Later observations do not change it; a time before the milestone's counts as none."""
    found = timeline([1_000, 2_000, 3_000, 4_000])
    found.mark_applied(1, 3, 3_100)
    found.mark_applied(1, 4, 3_900)
    assert [each["steps"]["applied"] for each in reversed(found.newest(4))] == [None, 1_100, 100, 0]


def test_a_time_may_be_known_before_its_milestone() -> None:
    """Topics are read one after the other: a milestone may be written and published between two of these reads."""
    found = timeline([1_000])
    found.mark_published(2, 2_300)
    found.mark_applied(1, 3, 3_200)
    for number, at_ms in ((2, 2_000), (3, 3_000), (4, 4_000)):
        found.take(one(number, at_ms))
    steps = [each["steps"] for each in reversed(found.newest(3))]
    assert [each["published"] for each in steps] == [300, None, None]
    assert [each["applied"] for each in steps] == [1_200, 200, None]


def test_clocks_that_differ_make_no_negative_time() -> None:
    found = Timeline()
    found.take(replace(FIRST, epoch_started_ms=50, written_ms=20, committed_ms=10))
    assert found.newest(1)[0]["steps"] == {"written": 0, "committed": 0, "applied": None, "published": None}


@pytest.mark.parametrize("columns", [0, COLUMNS_MAX + 1, 10**9])
def test_the_number_of_columns_is_bounded(columns: int) -> None:
    found = timeline(list(range(0, 10**6, 1_000))).columns_of(None, None, columns)
    assert 1 <= len(found["at"]) <= COLUMNS_MAX


def test_an_empty_timeline_says_so() -> None:
    found = Timeline().columns_of(None, None, 100)
    assert (found["kept"], found["count"], found["first"], found["at"]) == (0, 0, None, [])
    assert set(found["steps"]) == set(STEPS)
    assert Timeline().newest(5) == []

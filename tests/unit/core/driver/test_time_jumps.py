"""Which event times follow from what was there, and which jump: against the rule, event by event."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.driver.time_jumps import Segment, held_from, judged_alike

HOUR = 3_600_000
times = st.lists(st.integers(0, 200), min_size=1, max_size=30)


def segments(at: list[int], step: int) -> list[Segment]:
    """As the driver's look makes them: by stretches of one step."""
    parts = [list(part) for _, part in groupby(sorted(at), key=lambda one: one // step)]
    return [Segment(part[0], part[-1], len(part)) for part in parts]


@given(times, st.integers(0, 200), st.integers(1, 40))
def test_an_event_is_held_iff_nothing_within_a_step_was_there_before_it(
    at: list[int], newest: int, jump: int
) -> None:
    """Event by event, in the order of their times; what is behind one that jumps is held with it."""
    held = held_from(segments(at, jump), newest, jump)
    known = newest
    for one in sorted(at):
        if one > known + jump:
            assert held == one
            return
        known = max(known, one)
    assert held is None


def test_one_far_ahead_among_many_is_held_in_a_first_epoch_too() -> None:
    """Where nothing was there before, time begins where most events are, and not with the oldest or newest."""
    at = [10**12 + number for number in range(500)]
    assert held_from(segments([*at, 2 * 10**12], HOUR), None, HOUR) == 2 * 10**12
    assert held_from(segments([5, *at], HOUR), None, HOUR) is None
    assert held_from(segments([7], HOUR), None, HOUR) is None, "one alone is time's beginning"
    assert held_from([], None, HOUR) is None


def test_a_dense_backlog_is_never_held_however_long_an_epoch_of_it_is() -> None:
    """A year in one epoch, an event an hour: each follows from the one before."""
    assert held_from(segments([number * HOUR for number in range(24 * 365)], 2 * HOUR), 0, 2 * HOUR) is None


@pytest.mark.parametrize(
    ("wanted", "held", "alike"),
    [
        (None, None, True),
        (50, 50, True),
        (50, 31, True),  # nothing lies between
        (50, None, False),
        (None, 50, False),
        (None, 70, True),  # of an epoch before, and nothing of this one is there
        (50, 60, False),  # through a segment
    ],
)
def test_a_bound_need_not_change_where_it_holds_the_same_events(
    wanted: int | None, held: int | None, alike: bool
) -> None:
    """A query is started anew only for events that it would judge otherwise."""
    assert judged_alike([Segment(10, 30, 5), Segment(50, 65, 2)], wanted, held) is alike


def test_of_two_halves_time_begins_with_the_later_one() -> None:
    """The median of an even number is the later of the two in the middle, and the earlier half is not held."""
    two = [Segment(5, 5, 3), Segment(2 * 10**12, 2 * 10**12, 3)]
    assert held_from(two, None, HOUR) is None
    assert held_from([two[0]._replace(events=4), two[1]], None, HOUR) == 2 * 10**12

"""When an epoch must be looked at again for late events, and how far apart partitions are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.driver.input_stats import InputStats, first_end_ms, may_hold_late, skew_warning
from cutwater.core.events.rejection import UNITS, unit_hint
from cutwater.core.job.windows import WindowSpec

SPECS = st.tuples(st.integers(1, 5_000), st.integers(1, 5_000)).map(
    lambda two: WindowSpec(max(two), max(min(two), -(-max(two) // 1_000)))
)


@given(st.integers(-(10**13), 10**13), SPECS)
def test_the_first_end_is_the_oldest_windows(at_ms: int, window: WindowSpec) -> None:
    """No window that holds a time ends before it, and the window that does holds the time."""
    end = first_end_ms(at_ms, window)
    assert at_ms < end <= at_ms + window.slide_ms
    assert end - window.size_ms in window.starts(at_ms)


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1), st.integers(0, 10**6), SPECS)
def test_an_epoch_is_looked_at_again_exactly_when_a_pair_is_late(
    times: list[int], closed_ms: int, window: WindowSpec
) -> None:
    """The oldest event speaks for all: if none of its windows is closed, nobody's is."""
    late = any(start + window.size_ms <= closed_ms for at in times for start in window.starts(at))
    assert may_hold_late(InputStats(len(times), 0, min(times)), window, closed_ms) is late


def test_an_epoch_without_usable_events_holds_nothing_late() -> None:
    """Nothing read, or everything rejected."""
    window = WindowSpec(1_000, 1_000)
    assert not may_hold_late(InputStats(), window, 10**12)
    assert not may_hold_late(InputStats(events=5, rejected=5), window, 10**12)


def test_skew_needs_two_partitions_with_events() -> None:
    """The newest of the one against the newest of the other; a silent partition is not behind."""
    assert InputStats().skew_ms == 0
    assert InputStats(newest_ms={3: 9_000}).skew_ms == 0
    assert InputStats(newest_ms={0: 9_000, 1: -500, 5: 8_000}).skew_ms == 9_500


def test_a_skew_is_warned_of_beyond_the_lateness_only() -> None:
    """With both figures in minutes."""
    assert skew_warning(3_600_000, 3_600_000) is None
    assert "120 minutes of event time apart, more than the lateness of 60" in str(
        skew_warning(7_200_000, 3_600_000)
    )


_PER_SECOND = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


@given(st.integers(315_532_800, 7_258_118_399), st.sampled_from(list(_PER_SECOND)), st.sampled_from(list(UNITS)))
def test_a_time_of_our_days_in_another_unit_is_told(seconds: int, unit: str, kind: str) -> None:
    """Each of the four units in each field, by that unit's name; in the field's own there is nothing to tell."""
    own = UNITS[kind]
    said = "" if unit == own else f": {unit} in a field of {own}?"
    assert unit_hint(seconds * _PER_SECOND[unit], kind) == said


def test_what_is_no_time_of_our_days_in_any_unit_has_no_hint() -> None:
    for number in (0, -1, 315_532_799, 10**25, -1_700_000_000):
        assert unit_hint(number, "timestamp-millis") == ""


def test_a_window_is_closed_from_its_very_end_on() -> None:
    """An event of it is late as soon as the watermark reaches that."""
    seen, hour = InputStats(events=1, oldest_ms=7), WindowSpec(3_600_000, 3_600_000)
    assert [may_hold_late(seen, hour, closed_ms) for closed_ms in (3_599_999, 3_600_000)] == [False, True]

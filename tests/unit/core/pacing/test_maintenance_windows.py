"""Maintenance windows: open by the zone's wall clock, every day, also when the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.pacing.maintenance_windows import (
    DAY_MINUTES,
    DAY_MS,
    MINUTE_MS,
    MaintenanceWindows,
    Window,
)

HOUR_MS = 60 * MINUTE_MS
ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"]
)
MINUTES = st.integers(0, DAY_MINUTES - 1)
WINDOWS = st.builds(Window, MINUTES, MINUTES).filter(lambda one: one.from_min != one.until_min)
MANY = st.builds(MaintenanceWindows, st.lists(WINDOWS, min_size=1, max_size=3).map(tuple), ZONES)
TIMES_MS = st.integers(int(datetime(2011, 12, 28, tzinfo=UTC).timestamp()) * 1_000, 1_900_000_000_000)
"""From two days before Apia skipped a day."""


def at(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1_000


def windows(*texts: str, zone: str = "UTC") -> MaintenanceWindows:
    return MaintenanceWindows.parse(texts, zone)


@given(MANY, TIMES_MS)
def test_open_is_what_the_clock_on_the_wall_shows(one: MaintenanceWindows, at_ms: int) -> None:
    """Compared with the text of the time, as a person reads it."""
    clock = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)).astimezone(ZoneInfo(one.zone))
    shown, inside = clock.strftime("%H:%M"), False
    for window in one.windows:
        begin, end = str(window).split("-")
        inside |= begin <= shown < end if begin < end else shown >= begin or shown < end
    assert one.is_open(at_ms) == inside


@given(MANY, TIMES_MS, st.floats(0, 1))
def test_the_next_change_is_the_next_one(one: MaintenanceWindows, at_ms: int, share: float) -> None:
    """It differs there, and nowhere before."""
    change_ms = one.next_change_ms(at_ms)
    if change_ms is None:
        assert all(one.is_open(at_ms + hour * HOUR_MS) == one.is_open(at_ms) for hour in range(72))
        return
    assert change_ms > at_ms
    assert one.is_open(change_ms) != one.is_open(at_ms)
    assert one.is_open(change_ms - 1) == one.is_open(at_ms)
    assert one.is_open(at_ms + int(share * (change_ms - 1 - at_ms))) == one.is_open(at_ms)


@given(MANY, TIMES_MS, st.integers(0, 3 * DAY_MS))
def test_spans_are_without_a_gap(one: MaintenanceWindows, from_ms: int, length_ms: int) -> None:
    spans = list(one.spans(from_ms, from_ms + length_ms))
    ends = [from_ms, *(end for _, _, end in spans)]
    assert ends[:-1] == [begin for _, begin, _ in spans]
    assert ends[-1] == from_ms + length_ms
    assert 0 <= one.open_ms(from_ms, from_ms + length_ms) <= length_ms
    assert all(first[0] != second[0] for first, second in pairwise(spans))


def test_a_change_of_the_clocks_makes_a_window_shorter_longer_or_skips_it() -> None:
    """Berlin: 2026-03-29 has no 02:30, and 2026-10-25 has it twice."""
    night = windows("02:00-05:00", zone="Europe/Berlin")

    def open_hours(day: str) -> float:
        begin_ms = at(f"{day}T00:00", "Europe/Berlin")
        return night.open_ms(begin_ms, begin_ms + DAY_MS) / HOUR_MS

    assert [open_hours(day) for day in ("2026-03-28", "2026-03-29", "2026-10-25")] == [3, 2, 4]
    skipped = windows("02:15-02:45", zone="Europe/Berlin")
    assert skipped.next_change_ms(at("2026-03-28T12:00")) == at("2026-03-30T00:15")
    assert skipped.next_change_ms(at("2026-10-24T12:00")) == at("2026-10-25T00:15")
    assert skipped.open_ms(at("2026-10-25T00:00"), at("2026-10-25T12:00")) == HOUR_MS


def test_over_midnight_and_the_whole_day() -> None:
    late = windows("22:30-01:00")
    assert late.is_open(at("2026-01-01T23:59"))
    assert late.is_open(at("2026-01-02T00:59"))
    assert not late.is_open(at("2026-01-02T01:00"))
    assert late.next_change_ms(at("2026-01-02T01:00")) == at("2026-01-02T22:30")
    for always in (MaintenanceWindows(), windows("00:00-24:00"), windows("00:00-12:00", "12:00-24:00")):
        assert always.is_open(at("2026-01-02T03:00"))
        assert always.next_change_ms(at("2026-01-02T03:00")) is None


@pytest.mark.parametrize("text", ["", "2-5", "02:00", "02:00-02:00", "25:00-26:00", "02:60-03:00", "00:00-24:01"])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no window"):
        windows(text)


@given(WINDOWS)
def test_a_window_is_read_as_it_is_written(one: Window) -> None:
    assert Window.parse(str(one)) == one


def test_an_unknown_zone_is_refused() -> None:
    for zone in ("Europe/Atlantis", "../etc/passwd", ""):
        with pytest.raises(UsageError, match="knows no time zone"):
            windows("02:00-03:00", zone=zone)

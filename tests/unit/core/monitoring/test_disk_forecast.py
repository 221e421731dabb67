"""When a disk is full: told of a steady loss whatever happens in between, and of nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.core.monitoring.disk_forecast import (
    SAMPLES_MIN,
    SCALES,
    UNKNOWN,
    Disk,
    FreeSpace,
    add_sample,
    forecast_from,
)

GB = 1_000_000_000
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
TOTAL = 1_000 * GB


def filled(hours: float, free_at: Callable[[float], float], every_ms: int = 30_000) -> Disk:
    """A disk that was looked at so often. `free_at`: free bytes after so many hours."""
    disk: Disk | None = None
    for at_ms in range(0, int(hours * HOUR_MS) + 1, every_ms):
        disk = add_sample(disk, at_ms, round(free_at(at_ms / HOUR_MS)), TOTAL)
    assert disk is not None
    return disk


def test_a_disk_that_fills_in_nine_days_says_so() -> None:
    """After a day of watching: 100 GB of 900 are gone."""
    forecast = filled(24, lambda hours: (1_000 - 100 * hours / 24) * GB, every_ms=300_000).forecast
    assert forecast.full_in_ms == pytest.approx(9 * DAY_MS, rel=0.02)
    assert forecast.span_ms == pytest.approx(DAY_MS, rel=0.02)


def test_an_hour_tells_of_hours_only() -> None:
    """What fills soon is told soon; of what fills later a short history tells nothing."""
    soon = filled(1, lambda hours: (100 - 20 * hours) * GB).forecast
    assert soon.full_in_ms == pytest.approx(4 * HOUR_MS, rel=0.05)
    later = filled(1, lambda hours: (1_000 - hours) * GB).forecast
    assert later.full_in_ms is None
    assert later.span_ms > 0


def test_a_new_rate_is_seen_within_the_hour() -> None:
    """A day without a change does not hide it."""
    free = lambda hours: (500 if hours < 24 else 500 - 100 * (hours - 24)) * GB  # noqa: E731
    forecast = filled(25, free, every_ms=60_000).forecast
    assert forecast.full_in_ms == pytest.approx(4 * HOUR_MS, rel=0.1)


@given(st.integers(0, 10_000), st.floats(0.05, 0.24))
@settings(max_examples=25, deadline=None)
def test_what_comes_and_goes_does_not_count(seed: int, share: float) -> None:
    """In up to a quarter of the samples a compaction takes 50 GB more, or a clean-up gives them back."""
    chance = random.Random(seed)
    steady = [FreeSpace(at * MINUTE_MS, round((300 - at / 2) * GB)) for at in range(60)]
    told = forecast_from(steady)
    strange = {at for at in range(1, 59) if chance.random() < share / 2}
    shaken = [
        one._replace(free_bytes=one.free_bytes + chance.choice((-50, 50)) * GB) if at in strange else one
        for at, one in enumerate(steady)
    ]
    assert forecast_from(shaken).full_in_ms == pytest.approx(told.full_in_ms, rel=0.35)


@given(st.integers(0, 10_000), st.floats(0, 5))
@settings(max_examples=25, deadline=None)
def test_a_disk_that_does_not_fill_is_not_said_to(seed: int, gained: float) -> None:
    """Its use goes up and down, or space is gained."""
    chance = random.Random(seed)
    disk = filled(2, lambda hours: (25 + gained * hours + chance.uniform(-20, 20)) * GB, every_ms=60_000)
    assert disk.forecast.full_in_ms is None


@given(st.integers(1, 10**12), st.integers(0, 10**13), st.integers(1, 100))
def test_neither_the_unit_nor_the_time_of_day_matters(loss: int, begin_ms: int, factor: int) -> None:
    """Twice the bytes at twice the rate are full as soon."""
    first = [FreeSpace(at * MINUTE_MS, 60 * loss - at * loss) for at in range(40)]
    other = [FreeSpace(begin_ms + at, free * factor) for at, free in first]
    told, again = forecast_from(first), forecast_from(other)
    assert told.full_in_ms == pytest.approx(21 * MINUTE_MS)
    assert again.full_in_ms == pytest.approx(21 * MINUTE_MS)


def test_too_little_is_nothing() -> None:
    few = [FreeSpace(at * MINUTE_MS, GB - at) for at in range(SAMPLES_MIN - 1)]
    assert forecast_from(few) == UNKNOWN
    assert filled(0.1, lambda hours: (1 - hours) * GB).forecast == UNKNOWN


def test_histories_are_bounded() -> None:
    disk = filled(60, lambda hours: 500 * GB, every_ms=600_000)
    assert [len(one) for one in disk.histories] == [number for _, number in SCALES]
    assert disk.newest.at_ms == 60 * HOUR_MS


def test_another_disk_or_a_clock_set_back_begins_again() -> None:
    disk = filled(1, lambda hours: (100 - hours) * GB)
    assert add_sample(disk, HOUR_MS + MINUTE_MS, GB, TOTAL + 1).forecast == UNKNOWN
    assert add_sample(disk, HOUR_MS - MINUTE_MS, GB, TOTAL).forecast == UNKNOWN
    assert add_sample(disk, HOUR_MS + MINUTE_MS, 99 * GB, TOTAL).forecast != UNKNOWN

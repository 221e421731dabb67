"""When a candidate with windows and bounds has caught up, and what is said if it never does."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.pacing.catch_up import (
    Approach,
    approach_text,
    forecast_s,
    needed_per_s,
    rate_warning,
    too_slow_text,
)
from cutwater.core.pacing.maintenance_windows import DAY_MS, MaintenanceWindows
from cutwater.core.pacing.schedules import WorkBounds

NIGHT = MaintenanceWindows.parse(["02:00-05:00"])
HOUR_S, HOUR_MS = 3_600, 3_600_000
RUN = "cutwater generation schedule g2"


@given(st.integers(0, 20_000_000), st.integers(0, 9_000), st.integers(0, 1_000), st.integers(0, 23))
def test_the_forecast_is_what_a_minute_by_minute_account_gives(
    left: int, reads: int, comes: int, hour: int
) -> None:
    """Independent of spans: each minute either both read, or only the promoted generation."""
    found = forecast_s(Approach(left, reads, comes), NIGHT, hour * HOUR_MS)
    lag, minutes = float(left), 0
    while minutes < 14 * 1_440:
        is_open = 2 <= (hour + minutes / 60) % 24 < 5
        if is_open and reads > comes and lag <= (reads - comes) * 60:
            break
        lag = max(lag + 60 * (comes - (reads if is_open else 0)), 0)
        minutes += 1
    if minutes >= 14 * 1_440:
        assert found is None
    else:
        assert found is not None
        assert minutes * 60 - 1 <= found <= (minutes + 1) * 60 + 1


def test_a_rate_above_what_is_needed_converges_and_one_below_it_does_not() -> None:
    """Seeded: with windows of any length and hour, and from any lag."""
    rng = random.Random(40)
    for _ in range(40):
        begin, hours = rng.randrange(24), rng.randrange(1, 12)
        windows = MaintenanceWindows.parse([f"{begin:02}:00-{(begin + hours) % 24:02}:00"])
        comes = rng.uniform(1, 1_000)
        needed = needed_per_s(comes, windows, 0)
        assert needed == pytest.approx(comes * 24 / hours)
        left = int(comes * HOUR_S)
        assert forecast_s(Approach(left + 1, 1.3 * needed, comes), windows, 0) is not None
        far = int(comes * DAY_MS / 1_000 * 3)
        assert forecast_s(Approach(far, 0.95 * needed, comes), windows, 0) is None


def test_who_does_not_catch_up_is_told_what_to_run() -> None:
    """By what makes it slow: its bound, its windows, or itself."""
    bounded = WorkBounds(max_events_per_s=900)
    assert too_slow_text(Approach(10, 890.0, 1_000.0), bounded, RUN, 0).endswith(f"Run '{RUN} --max-rate 1200'")
    narrow = WorkBounds(NIGHT)
    found = too_slow_text(Approach(10**9, 1_500.0, 1_000.0), narrow, RUN, 0)
    assert "more than 8,000 events/s within its windows" in found
    assert "--window" in found
    itself = Approach(10, 700.0, 1_000.0)
    assert "--yield 10s" in too_slow_text(itself, WorkBounds(), RUN, 0)
    assert "more cores" in too_slow_text(itself, WorkBounds(yield_ms=1), RUN, 0)
    assert too_slow_text(Approach(10, 2_000.0, 1_000.0), WorkBounds(), RUN, 0) == ""
    assert approach_text(Approach(600, 400.0, 100.0), WorkBounds(), RUN, 0).endswith("100 arrive: about 2 s left")
    assert "does not catch up" in approach_text(itself, WorkBounds(), RUN, 0)


def test_a_bound_below_what_arrives_is_warned_of_at_once() -> None:
    """Before the candidate has read anything."""
    assert "needs more than 1,000" in rate_warning(WorkBounds(max_events_per_s=999), 1_000.0, 0)
    assert "needs more than 8,000 within its windows" in rate_warning(WorkBounds(NIGHT, 5_000), 1_000.0, 0)
    for quiet in (WorkBounds(NIGHT, 9_000), WorkBounds(), WorkBounds(max_events_per_s=1_001)):
        assert rate_warning(quiet, 1_000.0, 0) == ""
    assert rate_warning(WorkBounds(max_events_per_s=1), 0.0, 0) == ""

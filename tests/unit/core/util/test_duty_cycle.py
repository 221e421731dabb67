"""A candidate's share of the machine: kept over any epochs, and never more rest than necessary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.util.duty_cycle import REST_MAX_S, DutyCycle

SHARES = st.floats(0.05, 1)
EPOCHS = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 5)), min_size=1, max_size=30)


@given(SHARES, EPOCHS)
def test_work_is_at_most_its_share(share: float, epochs: list[tuple[float, float]]) -> None:
    pace, now, worked = DutyCycle(share), 0.0, 0.0
    for busy, idle in epochs:
        now += idle
        now += pace.rest_s(now)
        pace.record_work(now, now + busy)
        now, worked = now + busy, worked + busy
    now += pace.rest_s(now)
    assert worked <= now * share + 1e-6


@given(SHARES, st.floats(0, 1000), st.floats(0, 1000))
def test_a_rest_is_bounded_and_idle_time_counts(share: float, busy: float, idle: float) -> None:
    pace = DutyCycle(share)
    pace.record_work(0, busy)
    whole = pace.rest_s(busy)
    assert whole <= REST_MAX_S + 1e-6
    assert pace.rest_s(busy + idle) == pytest.approx(max(0, whole - idle), abs=1e-6)


def test_a_whole_machine_needs_no_rest() -> None:
    pace = DutyCycle(1)
    assert pace.rest_s(0) == 0
    pace.record_work(0, 100)
    assert pace.rest_s(100) == 0

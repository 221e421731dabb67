"""Limits: no more bytes than the rate allows but for one piece, and no more work than a candidate's share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.core.util.rate_limit import PIECE_S, REST_MAX_S, DutyCycle, Throttle
from cutwater.mirror.copier import BYTES


@given(st.lists(st.tuples(st.integers(0, 5_000), st.floats(0, 3)), max_size=60))
def test_the_rate_is_held(steps: list[tuple[int, float]]) -> None:
    throttle, now_s, taken = Throttle(1_000), 0.0, 0
    for size, later_s in steps:
        now_s += later_s
        if throttle.free(now_s):
            assert taken <= 1_000 * now_s + 1e-6, "all that went before is paid for"
            throttle.record_bytes(size, now_s)
            taken += size


def test_without_a_rate_nothing_waits() -> None:
    throttle = Throttle(0)
    throttle.record_bytes(10**12, 5.0)
    assert throttle.free(5.0)
    assert throttle.piece(BYTES) == BYTES


@given(st.integers(1, 10_000_000))
def test_what_goes_at_once_is_what_brokers_take_in_time(bytes_per_s: int) -> None:
    """Where they take no more than the rate, it is acknowledged long before the client gives up."""
    assert 0 < Throttle(bytes_per_s).piece(BYTES) <= min(BYTES, PIECE_S * bytes_per_s)
    assert PIECE_S < TIMEOUT_S / 2


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

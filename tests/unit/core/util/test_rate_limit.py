"""Over any stretch of time no more goes than was said, but for one piece."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.core.util.rate_limit import PIECE_S, Throttle
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

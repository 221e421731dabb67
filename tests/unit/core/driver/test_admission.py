"""How many events an epoch may read: what takes about five seconds, within the job's bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.driver.admission import COLD, FIRST, LEAST, TARGET_S, Admission

HUGE = 10**12
EPOCHS = st.lists(
    st.tuples(st.integers(0, 10**8), st.integers(0, 10**12), st.floats(0, 10**4)), min_size=1, max_size=50
)


def backlog(
    admission: Admission, per_second: float, epochs: int = 20, cost_s: float = 0.4, size: int = 50
) -> float:
    """Run epochs that read all they may, at a steady rate behind a fixed cost; the seconds of the last one."""
    took_s = 0.0
    for _ in range(epochs):
        events = admission.limit
        took_s = cost_s + events / per_second
        admission.epoch_took(events, events * size, took_s)
    return took_s


def test_a_backlog_is_read_in_epochs_of_about_five_seconds() -> None:
    """At any rate between the least and the bound, from the same first epoch."""
    for per_second in (20_000, 130_000, 1_000_000):
        assert abs(backlog(Admission(HUGE, HUGE), per_second) - TARGET_S) < 0.5
    slow = Admission(HUGE, HUGE)
    backlog(slow, 100)
    assert slow.limit == LEAST


def test_the_first_full_epoch_takes_longer_than_the_next_one_will() -> None:
    """One that is not full compiles little, so it does not count as the first."""
    admission = Admission(HUGE, HUGE)
    admission.epoch_took(1_000, 50_000, 9.0)
    admission.epoch_took(FIRST, FIRST * 50, TARGET_S)
    assert admission.limit == FIRST / COLD
    admission.epoch_took(admission.limit, admission.limit * 50, TARGET_S)
    assert admission.limit == FIRST / COLD


def test_an_epoch_that_reads_less_than_it_may_changes_nothing() -> None:
    """At rest an epoch is small and costs what it costs: that says nothing about a large one."""
    admission = Admission(HUGE, HUGE)
    for seconds in (0.3, 9.0):
        admission.epoch_took(1_000, 50_000, seconds)
    admission.epoch_took(0, 0, 30.0)
    assert admission.limit == FIRST


def test_large_events_are_fewer_at_once() -> None:
    """By the mean size of those before, also of an epoch that was not full; and slowly back."""
    admission = Admission(HUGE, 64 << 20)
    admission.epoch_took(100, 100 << 20, 0.1)
    assert admission.limit == 64
    admission = Admission(HUGE, 500_000_000)
    admission.epoch_took(100, 100 * 10_000, 0.1)
    assert admission.limit == 50_000
    admission.epoch_took(50_000, 50_000 * 100, 0.3)
    assert 50_000 < admission.limit < 200_000


@given(EPOCHS, st.integers(1, 10**7), st.integers(1, 10**12))
def test_no_epoch_makes_a_limit_beyond_the_bounds(
    epochs: list[tuple[int, int, float]], events_max: int, bytes_max: int
) -> None:
    """Whatever is observed, clocks that stand still included."""
    admission = Admission(events_max, bytes_max)
    for one in epochs:
        admission.epoch_took(*one)
        assert 1 <= admission.limit <= events_max

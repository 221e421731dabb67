"""A candidate's pace: within its windows, at most its rate, and at least as fast as it needs to be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.pacing.candidate_pace import CandidatePace
from cutwater.core.pacing.maintenance_windows import MINUTE_MS, MaintenanceWindows
from cutwater.core.pacing.schedules import WorkBounds

EPOCHS = st.lists(st.tuples(st.integers(0, 50_000), st.floats(0, 5), st.floats(0, 3)), min_size=1, max_size=40)


def paced(share: float = 1.0, **bounds: object) -> CandidatePace:
    pace = CandidatePace(share)
    pace.bounds = WorkBounds(**bounds)  # type: ignore[arg-type]
    return pace


@given(st.integers(1, 100_000), EPOCHS)
def test_the_rate_is_held(rate: int, epochs: list[tuple[int, float, float]]) -> None:
    """All that is read until an epoch begins is at most the rate times the time, whatever epochs take."""
    pace, now_s, read = paced(max_events_per_s=rate), 0.0, 0
    for events, took_s, idle_s in epochs:
        now_s += idle_s
        now_s += pace.rest_s(now_s, 0, requested=True)
        assert read <= rate * now_s * (1 + 1e-9) + 1e-6
        pace.record_epoch(now_s, now_s + took_s, events)
        now_s, read = now_s + took_s, read + events


@given(st.integers(1, 1_439), st.integers(0, 1_439), st.floats(0.05, 1))
def test_nothing_is_read_outside_of_the_windows(length: int, minute: int, share: float) -> None:
    """From 00:00 on for some minutes: the rest is exactly until then."""
    windows = MaintenanceWindows.parse([f"00:00-{length // 60:02}:{length % 60:02}"])
    rest_s = paced(share, windows=windows).rest_s(0.0, minute * MINUTE_MS, requested=True)
    assert rest_s == (0 if minute < length else (1_440 - minute) * 60)


def test_an_epoch_is_no_larger_than_its_rate_allows() -> None:
    """And the bound ends with the schedule."""
    pace = paced(max_events_per_s=1_000)
    assert pace.events_max == 2_000
    pace.bounds = WorkBounds()
    assert pace.events_max is None


@given(st.floats(0.02, 1), st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)), max_size=60))
def test_the_share_is_between_what_was_asked_and_all(share: float, seen: list[tuple[float, float]]) -> None:
    pace = CandidatePace(share)
    for reads, comes in seen:
        before = pace.share
        pace.adapt_share(reads, comes)
        assert share <= pace.share <= 1
        assert pace.share >= before or reads > 2 * comes


@given(st.floats(0.01, 0.99), st.floats(1.05, 50))
def test_a_slower_candidate_gets_what_it_needs(share: float, capability: float) -> None:
    """It reads its share of what it could, which is more than what comes: 1. So it catches up in the end."""
    pace = CandidatePace(share)
    for _ in range(20):
        pace.adapt_share(capability * pace.share, 1.0)
    assert capability * pace.share > 1


def test_a_request_ends_rests_for_the_share_but_not_those_for_the_rate() -> None:
    shared, bounded = paced(0.25), paced(max_events_per_s=100)
    for pace in (shared, bounded):
        pace.record_epoch(0.0, 1.0, 500)
    assert shared.rest_s(1.0, 0, requested=False) == 3
    assert shared.rest_s(1.0, 0, requested=True) == 0
    assert bounded.rest_s(1.0, 0, requested=False) == bounded.rest_s(1.0, 0, requested=True) == 4

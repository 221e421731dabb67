"""Two ways of closing windows: by Spark's watermark, or by a floor that lags behind the job's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.driver.input_stats import InputStats
from cutwater.core.driver.lateness import BACKLOG, ByFloor, ByWatermark, StateSpan, due_floor
from cutwater.core.generations.start_state import StartState
from cutwater.core.protocol.cuts import Cut, EpochPlan, Range
from support.protocol_samples import barrier

HOUR_MS = 3_600_000
TIMES = st.integers(0, 10**13)
BEGUN = StartState(Cut.of_topic("e", [3]), floor_ms=50, horizon_ms=40, first_watermark_ms=70)
PLAN, BEFORE = EpochPlan(Cut.of_topic("e", [9]), 0), EpochPlan(Cut.of_topic("e", [5]), 60)


def test_the_floor_is_that_of_the_query_whatever_spark_says() -> None:
    """The offsets are those of the plans, or of the parent milestone."""
    closing = ByFloor(BEGUN, 55, 10)
    assert closing.range(PLAN, BEFORE) == Range(BEFORE.source_cut, PLAN.source_cut, 55)
    assert closing.range(PLAN, None) == Range(BEGUN.source_cut, PLAN.source_cut, 55)
    assert closing.floor_ms(1_000) == 55
    assert ByWatermark(BEGUN).range(PLAN, BEFORE).closed_ms == 60
    assert ByWatermark(BEGUN).floor_ms(1_000) == 1_000


def test_the_watermark_follows_the_epochs_own_events_and_never_goes_back() -> None:
    """The newest partition counts; in a backlog the one that is furthest behind."""
    closing, apart = ByFloor(BEGUN, 55, 10), {0: 100, 1: 500}
    before = barrier(4, watermark_ms=200)
    assert closing.watermark_ms(PLAN, None, InputStats()) == 70
    assert closing.watermark_ms(PLAN, None, InputStats(newest_ms=apart)) == 490
    assert closing.watermark_ms(PLAN, None, InputStats(newest_ms=apart, full=True)) == 90
    assert closing.watermark_ms(PLAN, before, InputStats(newest_ms=apart, full=True)) == 200
    assert closing.watermark_ms(PLAN, before, InputStats()) == 200
    assert ByWatermark(BEGUN).watermark_ms(BEFORE, None, InputStats(newest_ms=apart)) == 70
    assert ByWatermark(BEGUN).watermark_ms(BEFORE, before, InputStats()) == 200


def test_a_horizon_is_not_above_the_floor() -> None:
    """Above the floor events are counted, and what they count for must be there."""
    assert BEGUN.horizon_at(1_000, 100, 0, floor_ms=300) == 300
    assert BEGUN.horizon_at(1_000, 900, 0, floor_ms=300) == 100
    assert BEGUN.horizon_at(1_000, 900, 200, floor_ms=150) == 200


def test_a_generation_takes_floor_and_watermark_from_its_parent() -> None:
    """Where events may amend, both; else the watermark closes."""
    parent = barrier(4, watermark_ms=200, floor_ms=120)
    amends, closes = StartState.of(parent, True), StartState.of(parent)  # type: ignore[arg-type]
    assert (amends.floor_ms, amends.first_watermark_ms) == (120, 200)
    assert (closes.floor_ms, closes.first_watermark_ms) == (200, 200)
    assert (amends.raised(230, True).floor_ms, amends.raised(230, True).first_watermark_ms) == (120, 230)
    assert (closes.raised(230).floor_ms, closes.raised(230).first_watermark_ms) == (230, 230)


def test_it_is_due_once_as_much_is_closed_as_stays() -> None:
    """Lateness and amendments of an hour each: two hours stay."""
    for closed_hours, due in ((1, False), (2, True), (9, True)):
        watermark_ms = (closed_hours + 1) * HOUR_MS
        span = StateSpan(0, watermark_ms, watermark_ms + HOUR_MS)
        assert due_floor(span, HOUR_MS, 60, 60, False) == (watermark_ms - HOUR_MS if due else None)


def test_not_twice_within_the_rest_which_is_longer_in_a_backlog() -> None:
    """What stays longer than needed is bounded by the time, not by the event time that passes."""
    span = StateSpan(0, 100 * HOUR_MS, 101 * HOUR_MS)
    for rested_s, backlog, due in (
        (59, False, False),
        (60, False, True),
        (60, True, False),
        (60 * BACKLOG, True, True),
    ):
        assert (due_floor(span, HOUR_MS, rested_s, 60, backlog) is not None) == due


@given(TIMES, TIMES, TIMES, st.integers(0, 10**9))
def test_a_floor_leaves_what_may_be_amended(cleaned: int, watermark: int, ahead: int, amend_for: int) -> None:
    """It is above what was cleaned, and by the amendments' time below the watermark."""
    floor_ms = due_floor(StateSpan(cleaned, watermark, watermark + ahead), amend_for, 1, 0, False)
    assert floor_ms is None or cleaned < floor_ms == watermark - amend_for

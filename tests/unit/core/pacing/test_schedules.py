"""Schedules: the newest counts, only for planned hand-overs, and what a wait may take of an objective."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.commit_signal.promotion import CandidatePromotion
from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import Candidate, fold_candidates
from cutwater.core.job.job import Objectives
from cutwater.core.pacing.maintenance_windows import MaintenanceWindows
from cutwater.core.pacing.schedules import UNBOUND, YIELD_MS_MAX, WorkBounds, bounds_of, closed_text, yield_s
from cutwater.core.protocol.records import Claim, Promotion, Schedule, Withdrawal
from support.protocol_samples import JOB, OTHER

HOUR = 3_600_000
NOON = 12 * HOUR
CLAIM = Claim(JOB, OTHER, b"", 2, 0, "", NOON)
NIGHT = WorkBounds(MaintenanceWindows.parse(["02:00-05:00"], "UTC"), 5_000, 10_000)


def record(bounds: WorkBounds, at_ms: int = NOON) -> Schedule:
    return bounds.record(JOB, OTHER, "alice", at_ms)


def known(*records: Schedule | Promotion | Withdrawal, claim: Claim = CLAIM) -> Candidate:
    return fold_candidates([claim, *records]).require(OTHER)


def test_the_newest_record_counts_and_is_what_was_asked_for() -> None:
    assert bounds_of(known()) == UNBOUND
    assert bounds_of(known(record(NIGHT))) == NIGHT
    assert bounds_of(known(record(NIGHT), record(UNBOUND, NOON + 1))) == UNBOUND


def test_no_schedule_delays_a_remedy_or_one_that_is_given_up() -> None:
    """As holds do not."""
    assert bounds_of(known(record(NIGHT), claim=replace(CLAIM, rewinds_to=3))) == UNBOUND
    assert bounds_of(known(record(NIGHT), claim=replace(CLAIM, origin="us"))) == UNBOUND
    assert bounds_of(known(record(NIGHT), Withdrawal(JOB, OTHER, "", NOON))) == UNBOUND


def test_it_says_until_when_it_waits() -> None:
    one = known(record(NIGHT))
    assert closed_text(one, NOON) == "it waits until 1970-01-02T02:00:00Z: its windows are 02:00-05:00 UTC"
    assert closed_text(one, 3 * HOUR) == ""
    assert closed_text(known(), NOON) == ""


def test_a_promotion_waits_for_its_window_but_not_behind_the_fence() -> None:
    """The old signaller is fenced then: to wait would stop all commits."""
    now_ms = [NOON]
    made: Any = CandidatePromotion.__new__(CandidatePromotion)
    made._writer, made._now_ms = None, lambda: now_ms[0]
    one = known(record(NIGHT), Promotion(JOB, OTHER, NOON))
    assert "until 1970-01-02T02:00:00Z" in made._held(one)
    made._writer = object()
    assert made._held(one) == ""
    made._writer, now_ms[0] = None, 2 * HOUR
    assert made._held(one) == ""


@given(st.integers(0, YIELD_MS_MAX), st.integers(1, 60_000), st.floats(0, 30))
def test_a_wait_never_takes_more_than_was_asked_or_than_the_objective_leaves(
    yield_ms: int, readable_ms: int, epoch_s: float
) -> None:
    """An event of the wait is read by the second epoch behind it: both waits, and both epochs."""
    wait_s = yield_s(WorkBounds(yield_ms=yield_ms), Objectives(readable_p99_ms=readable_ms), epoch_s)
    assert 0 <= 2 * wait_s <= yield_ms / 1_000
    assert wait_s == 0 or 2 * (wait_s + epoch_s) <= readable_ms / 1_000
    assert yield_s(WorkBounds(yield_ms=yield_ms), Objectives(), epoch_s) == yield_ms / 2_000


def test_numbers_out_of_their_range_are_refused() -> None:
    for bounds in (
        WorkBounds(max_events_per_s=-1),
        WorkBounds(yield_ms=YIELD_MS_MAX + 1),
        WorkBounds(yield_ms=-1),
    ):
        with pytest.raises(UsageError):
            record(bounds)

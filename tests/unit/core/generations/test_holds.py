"""Holds: bounded, replaced by the newest, and never of a remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.commit_signal.promotion import CandidatePromotion
from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import Candidate, Candidates, fold_candidates
from cutwater.core.generations.holds import (
    HOLD_MS_MAX,
    active_hold,
    hold_text,
    make_hold,
    make_release,
    may_be_held,
    to_be_held,
)
from cutwater.core.protocol.records import Claim, Hold, Promotion, Withdrawal
from support.protocol_samples import JOB, OTHER, milestone

HOUR = 3_600_000
NOW = 100 * HOUR
CLAIM = Claim(JOB, OTHER, b"", 2, 0, "", NOW)


def known(*records: Hold | Promotion | Withdrawal, claim: Claim = CLAIM) -> Candidates:
    return fold_candidates([claim, *records])


def held(for_ms: int = HOUR, at_ms: int = NOW) -> Hold:
    return make_hold(JOB, OTHER, for_ms, "alice", "dead letters", at_ms)


@given(st.integers(1, HOLD_MS_MAX), st.integers(-2 * HOLD_MS_MAX, 2 * HOLD_MS_MAX))
def test_a_hold_ends_by_itself(for_ms: int, after_ms: int) -> None:
    """Behind its time, and for a clock that is more than a day before it: none lasts for longer than two days."""
    found = active_hold(known(held(for_ms)).require(OTHER), NOW + after_ms)
    assert (found is not None) == (-HOLD_MS_MAX < after_ms < for_ms)


def test_the_newest_record_counts() -> None:
    longer, shorter = held(5 * HOUR), held(HOUR, NOW + 1)
    assert active_hold(known(longer, shorter).require(OTHER), NOW + 2 * HOUR) is None
    assert active_hold(known(shorter, longer).require(OTHER), NOW + 2 * HOUR) == longer
    released = known(longer, make_release(JOB, OTHER, "bob", "", NOW + 5))
    assert active_hold(released.require(OTHER), NOW + 6) is None


def test_a_hold_changes_nothing_else() -> None:
    """A promotion that is requested stays so, and nothing is given up."""
    one = known(Promotion(JOB, OTHER, NOW), held()).require(OTHER)
    assert (one.promoting, one.open, one.hold) == (True, True, held())
    assert replace(one, hold=None) == known(Promotion(JOB, OTHER, NOW)).require(OTHER)
    assert "until 1970-01-05T05:00:00Z by alice: dead letters" in hold_text(held())


@pytest.mark.parametrize("remedy", [replace(CLAIM, rewinds_to=3), replace(CLAIM, origin="us")])
def test_no_hold_delays_a_rollback_or_a_failover(remedy: Claim) -> None:
    assert not may_be_held(remedy)
    assert active_hold(known(held(), claim=remedy).require(OTHER), NOW) is None
    assert to_be_held(known(claim=remedy), None) is None


def test_a_record_of_another_program_is_bounded_too() -> None:
    endless = replace(held(), until_ms=NOW + 1_000 * HOLD_MS_MAX)
    one = known(endless).require(OTHER)
    assert active_hold(one, NOW + HOLD_MS_MAX - 1) == endless
    assert active_hold(one, NOW + HOLD_MS_MAX) is None


@pytest.mark.parametrize("for_ms", [0, -1, HOLD_MS_MAX + 1])
def test_a_hold_of_another_length_is_refused(for_ms: int) -> None:
    with pytest.raises(UsageError, match="at most 24 h"):
        held(for_ms)


def test_who_waits_is_the_newest_open_candidate() -> None:
    last = milestone(0)
    third = replace(OTHER, number=3)
    both = fold_candidates([CLAIM, replace(CLAIM, generation=third)])
    assert to_be_held(both, last) == third
    given_up = both.after(Withdrawal(JOB, third, "", NOW))
    assert to_be_held(given_up, last) == OTHER
    assert to_be_held(both, replace(last, generation=third)) is None, "it is promoted already"
    assert active_hold(known(held(), Withdrawal(JOB, OTHER, "", NOW)).require(OTHER), NOW) is None


def test_a_signaller_that_has_taken_the_stream_heeds_no_hold() -> None:
    """The old one is fenced then, and nobody else would write. No seed of the simulation so far is held there."""
    candidate = Candidate(CLAIM, hold=make_hold(JOB, OTHER, 2 * HOUR, "alice", "", NOW))
    signaller: Any = object.__new__(CandidatePromotion)
    signaller._now_ms, signaller._writer = lambda: NOW + 1, None
    assert "alice" in signaller._held(candidate)
    signaller._writer = object()
    assert signaller._held(candidate) == ""

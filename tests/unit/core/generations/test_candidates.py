"""Generations that were claimed: what the topic folds to, who may be promoted behind whom, and why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import (
    Candidate,
    Candidates,
    events_behind,
    fold_candidates,
    promotion_delay,
    promotion_obstacle,
)
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Candidacy, Claim, Decision, Milestone, Promotion, Withdrawal
from support.protocol_samples import GENERATION, JOB, milestone, source_cut

LAST = milestone(5)
SECOND, THIRD = Generation(2, "local", "00000002"), Generation(3, "local", "00000003")


def claim(generation: Generation = SECOND, **changes: Any) -> Claim:
    return replace(Claim(JOB, generation, b"", 3, 0, "why", 0), **changes)


def own(epoch: int, generation: Generation = SECOND, **changes: Any) -> Milestone:
    return milestone(epoch, generation=generation, **changes)


def known(*more: Candidacy) -> Candidates:
    return fold_candidates([claim(SECOND), claim(THIRD), *more])


def test_a_claim_that_is_repeated_changes_nothing() -> None:
    """The writer did not hear that it was heard; and what had become of it stays."""
    asked = known(Promotion(JOB, SECOND, 1))
    assert asked.after(claim(SECOND, reason="again")) is asked
    assert fold_candidates([Promotion(JOB, SECOND, 1), own(0)]) == Candidates(), "of what was never claimed"


def test_the_two_newest_milestones_are_known() -> None:
    """An epoch that is told again takes the place of its first telling, and not of the one before."""
    again = own(1, attempt=2)
    found = known(own(0), own(1), again).by_id[SECOND]
    assert (found.newest, found.before) == (again, own(0))
    assert known(own(0)).by_id[SECOND].before is None


def test_of_several_the_last_that_was_asked_for_counts() -> None:
    """And is taken back with its reason and time."""
    both = known(Promotion(JOB, THIRD, 1), Promotion(JOB, SECOND, 2))
    assert both.promoting is both.by_id[THIRD], "the newest claim"
    left = both.after(Withdrawal(JOB, THIRD, "too slow", 7))
    assert left.promoting is left.by_id[SECOND]
    given_up = left.by_id[THIRD]
    assert (given_up.open, given_up.withdrawn, given_up.withdrawn_ms) == (False, "too slow", 7)
    assert (left.by_id[SECOND].open, left.by_id[SECOND].withdrawn_ms) == (True, 0)
    assert not given_up.decision
    assert known(Decision(JOB, SECOND, "eu", "why", 3)).by_id[SECOND].decision


def test_who_is_asked_for_follows_what_is_older() -> None:
    """One that was promoted, or is older than what stands there, follows nothing any more."""
    asked = known(Promotion(JOB, SECOND, 1))
    assert asked.promoting_behind(None) is asked.by_id[SECOND]
    assert asked.promoting_behind(LAST) is asked.by_id[SECOND]
    assert asked.promoting_behind(replace(LAST, generation=SECOND)) is None
    assert asked.promoting_behind(replace(LAST, generation=THIRD)) is None
    assert known().promoting_behind(None) is None
    assert known().promoting_behind(LAST) is None


def test_who_may_still_come() -> None:
    found = known(Withdrawal(JOB, THIRD, "why", 1))
    assert found.coming(None) == [claim(SECOND)]
    assert found.coming(LAST) == [claim(SECOND)]
    assert found.coming(replace(LAST, generation=SECOND)) == []


@pytest.mark.parametrize(
    ("generation", "asked", "contested"),
    [
        (GENERATION, (), False),
        (GENERATION, (SECOND,), True),
        (Generation(2, "other"), (SECOND,), False),
        (Generation(2, "other"), (THIRD,), True),
        (SECOND, (), True),
    ],
)
def test_whose_place_somebody_may_have_for_a_moment(
    generation: Generation, asked: tuple[Generation, ...], contested: bool
) -> None:
    """Later ones that were asked for, and whoever was claimed."""
    assert known(*(Promotion(JOB, one, 1) for one in asked)).contests(generation) is contested


def test_what_was_never_claimed_is_refused_with_what_was() -> None:
    assert known().require(THIRD).claim == claim(THIRD)
    with pytest.raises(UsageError, match=f"claimed are: {SECOND}, {THIRD}"):
        known().require(Generation(4, "local"))
    with pytest.raises(UsageError, match="claimed are: none"):
        Candidates().require(SECOND)


def test_the_generations_before_one() -> None:
    found = fold_candidates([claim(THIRD), claim(SECOND)])
    assert found.earlier_generations(Generation(4, "local"), 5) == [SECOND, THIRD]
    assert found.earlier_generations(Generation(4, "local"), 1) == [THIRD]
    assert found.earlier_generations(THIRD, 5) == [SECOND]


def test_a_number_is_never_used_twice() -> None:
    """Above what was claimed, and above what was promoted."""
    assert known().next_id("eu", bytes.fromhex("aabbccddeeff"), GENERATION) == Generation(4, "eu", "aabbccdd")
    assert Candidates().next_id("eu", b"\x01" * 32, Generation(7, "us")).number == 8


def test_what_time_mends() -> None:
    """A candidate must have come as far as the newest milestone, in events and in time."""
    assert promotion_delay(None, claim(), LAST) == "it has no milestone yet"
    at = own(5)
    assert promotion_delay(at, claim(), LAST) is None
    assert promotion_delay(own(6), claim(), LAST) is None
    short = replace(at, source_cut=Cut.of_topic("flights.events", [590, 545]))
    assert promotion_delay(short, claim(), LAST) == f"it is 10 events behind milestone {LAST.token}"
    late = replace(at, watermark_ms=LAST.watermark_ms - 1)
    assert promotion_delay(late, claim(), LAST) == f"its watermark is 1 ms behind that of {LAST.token}"


@pytest.mark.parametrize("of", [{"rewinds_to": 3}, {"origin": "eu"}])
def test_who_goes_elsewhere_need_not_come_as_far(of: dict[str, Any]) -> None:
    """A rollback, and who goes on from another region's milestone; and where there is none nobody need."""
    assert promotion_delay(own(0), claim(**of), LAST) is None
    assert promotion_delay(own(0), claim(), None) is None
    assert promotion_delay(None, claim(**of), LAST) == "it has no milestone yet"


def test_events_behind_are_counted_by_partition() -> None:
    """What it has read further in another one makes up for nothing."""
    assert events_behind(own(4), LAST) == 190
    assert events_behind(replace(LAST, source_cut=Cut.of_topic("flights.events", [700, 500])), LAST) == 40
    assert events_behind(own(5), LAST) == 0
    assert source_cut(5).covers(source_cut(4))


@pytest.mark.parametrize(
    ("claimed", "withdrawn", "parent", "last", "why"),
    [
        ({}, None, LAST, LAST, None),
        ({}, "", LAST, LAST, "was given up"),
        ({}, "too slow", LAST, LAST, "was given up: too slow"),
        ({}, None, LAST, None, "is gone from the commit stream"),
        (
            {},
            None,
            replace(LAST, sequence=LAST.sequence + 1),
            LAST,
            "is gone from the commit stream, which ends with",
        ),
        ({"rewinds_to": 7}, None, replace(LAST, sequence=7), LAST, "is gone from the commit stream"),
        ({"origin": "eu", "rewinds_to": 3}, None, replace(LAST, sequence=90), LAST, None),
        ({"origin": "eu"}, None, LAST, None, None),
        ({}, None, LAST, replace(LAST, generation=SECOND), "comes too late"),
        ({}, None, LAST, replace(LAST, generation=THIRD), "comes too late"),
        ({"origin": "eu"}, None, LAST, LAST, "was claimed while this region had no milestone"),
        ({"origin": "eu", "rewinds_to": 3}, None, LAST, LAST, None),
        ({}, None, replace(LAST, generation=Generation(1, "other")), LAST, "was started from"),
        ({"rewinds_to": 3}, None, replace(LAST, generation=Generation(1, "other")), LAST, None),
    ],
)
def test_what_time_does_not_mend(
    claimed: dict[str, Any], withdrawn: str | None, parent: Milestone, last: Milestone | None, why: str | None
) -> None:
    """Each with its reason."""
    said = promotion_obstacle(Candidate(claim(**claimed), withdrawn=withdrawn), parent, last)
    assert said is None if why is None else why in (said or "")

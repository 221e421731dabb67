"""Whose rows are loaded before anybody is promoted: plain values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cutwater.core.generations.candidates import Candidates, fold_candidates
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Candidacy, Claim, Milestone, Promotion, Withdrawal
from support.protocol_samples import GENERATION, JOB, milestone

LAST = milestone(5)
SECOND, THIRD, FOURTH = (Generation(number, "local", f"{number:08x}") for number in (2, 3, 4))


def parent_of(claim: Claim) -> Milestone:
    """All but the fourth's are of the promoted generation."""
    return replace(LAST, generation=SECOND) if claim.generation == FOURTH else LAST


def claim(generation: Generation) -> Claim:
    return Claim(JOB, generation, b"", 3, 0, "why", 0)


def known(*more: Candidacy) -> Candidates:
    return fold_candidates([*map(claim, (SECOND, THIRD, FOURTH)), *more])


def own(generation: Generation) -> Milestone:
    return milestone(0, generation=generation)


def test_the_newest_that_may_follow_and_has_come_to_something() -> None:
    """One without a milestone, of another line, or given up, has nothing that anybody will need."""
    assert known().likely_next(LAST, parent_of) is None
    assert chosen(own(SECOND)) == SECOND
    assert chosen(own(SECOND), own(THIRD), own(FOURTH)) == THIRD
    assert chosen(own(SECOND), own(THIRD), Withdrawal(JOB, THIRD, "why", 0)) == SECOND


def test_one_is_kept_until_another_was_asked_for() -> None:
    """What was loaded is not thrown away for a guess; and what cannot be loaded is not tried for ever."""
    every = (own(SECOND), own(THIRD))
    assert chosen(*every, kept=SECOND) == SECOND
    assert chosen(*every, Promotion(JOB, THIRD, 0), kept=SECOND) == THIRD
    assert chosen(*every, Withdrawal(JOB, SECOND, "why", 0), kept=SECOND) == THIRD
    assert chosen(*every, but={THIRD}) == SECOND
    assert chosen(*every, but={SECOND, THIRD}) is None


def test_nobody_follows_what_has_come_later() -> None:
    """The claims of generations that were promoted stand there for ever."""
    later = replace(LAST, generation=THIRD)
    assert known(own(SECOND), own(THIRD)).likely_next(later, lambda _: later) is None
    assert GENERATION.number < SECOND.number


def test_who_may_still_come_needs_its_parent() -> None:
    """Neither what was given up nor what was promoted, or passed by, does."""
    assert [one.generation for one in known().coming(None)] == [SECOND, THIRD, FOURTH]
    given_up = known(Withdrawal(JOB, FOURTH, "why", 0))
    assert [one.generation for one in given_up.coming(replace(LAST, generation=SECOND))] == [THIRD]


def chosen(*more: Candidacy, **options: Any) -> Generation | None:
    found = known(*more).likely_next(LAST, parent_of, **options)
    return found.claim.generation if found else None

"""A region that comes back: from which claims of another one it must keep its hands off, and when it waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import FencedError, UnavailableError
from cutwater.core.failover.rejoin import (
    LocalPosition,
    RemoteTakeover,
    ResumeDecision,
    find_takeover,
    local_position,
    require_not_left,
    unanswered,
)
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Claim, Decision, Milestone
from support.protocol_samples import milestone

US, EU, BACK = Generation(1, "us"), Generation(2, "eu", "5f0c21aa"), Generation(3, "us", "0badcafe")
AGAIN = Generation(4, "eu", "77777777")
LEAST_MS = 90_000


def told(generation: Generation, sequence: int) -> Milestone:
    return replace(milestone(0), generation=generation, sequence=sequence)


def candidate(generation: Generation, origin: str = "", keeps: Generation | None = None) -> Candidate:
    claim = Claim("flights", generation, str(generation).encode(), 2, 0, "", 0, origin=origin)
    decision = Decision("flights", generation, str(keeps), "readers follow it", 0) if keeps else None
    return Candidate(claim, decision=decision)


def known(*of: Candidate) -> Candidates:
    return Candidates({one.claim.generation: one for one in of})


PARENTS = {EU: told(US, 3), BACK: told(EU, 5), AGAIN: told(BACK, 9), Generation(5, "us", "aa"): told(BACK, 9)}


def parent_of(claim: Claim) -> Milestone:
    return PARENTS[claim.generation]


@pytest.mark.parametrize(
    ("standing", "held", "found"),
    [
        ([], 0, None),
        ([candidate(EU, "us")], 0, EU),
        ([candidate(EU, "asia")], 0, None),  # it went on from a third region
        ([candidate(EU, "us")], 2, None),  # the line here has taken it back
        ([candidate(EU, "us"), candidate(AGAIN, "us")], 2, AGAIN),
        ([candidate(EU, "us"), candidate(AGAIN, "us")], 0, AGAIN),
        ([candidate(EU, "us", keeps=US)], 0, None),  # decided: the line here counts
        ([candidate(EU, "us", keeps=EU)], 0, EU),
        ([candidate(EU, "us", keeps=US), candidate(AGAIN, "us")], 0, AGAIN),  # that was another fork
    ],
)
def test_with_what_the_other_region_has_gone_on(
    standing: list[Candidate], held: int, found: Generation | None
) -> None:
    claim = find_takeover(standing, "us", LocalPosition(Token(US, 3), 1, held), parent_of)
    assert (claim.generation if claim else None) == found


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["us", "asia"]), st.booleans()), max_size=6),
    st.integers(0, 9),
)
def test_it_is_the_newest_that_nothing_speaks_against(claims: list[tuple[int, str, bool]], held: int) -> None:
    """Whoever is found counts by itself, and none that counts is newer; where none is found none counts."""
    standing = [
        candidate(Generation(number, "eu", f"{at:08x}"), origin, US if decided else None)
        for at, (number, origin, decided) in enumerate(claims)
    ]
    here = LocalPosition(Token(US, 3), 1, held)
    found = find_takeover(standing, "us", here, parent_of)
    alone = [one.claim for one in standing if find_takeover([one], "us", here, parent_of)]
    assert (found is None) == (not alone)
    if found is not None:
        assert found in alone
        assert found.origin == "us"
        assert found.generation.number == max(one.generation.number for one in alone) > held


def test_what_the_line_here_has_taken_back() -> None:
    """Up to the other region's newest generation that it goes on from; by way of own ones, too."""
    here = known(candidate(BACK, "eu"), candidate(Generation(5, "us", "aa")))
    assert local_position(US, told(US, 7), 1, Candidates(), "eu", parent_of) == LocalPosition(Token(US, 7), 1, 0)
    assert local_position(BACK, told(BACK, 9), 1, here, "eu", parent_of) == LocalPosition(Token(BACK, 9), 1, 2)
    own = Generation(5, "us", "aa")
    assert local_position(own, told(own, 10), 1, here, "eu", parent_of) == LocalPosition(Token(own, 10), 1, 2)
    assert local_position(BACK, told(BACK, 9), 1, here, "asia", parent_of) == LocalPosition(Token(BACK, 9), 1, 0)


@pytest.mark.parametrize(
    ("changes", "last", "held"),
    [
        ({"promoting": True}, BACK, 2),
        ({"promoting": True}, Generation(5, "us", "aa"), 2),
        ({"promoting": True}, US, 0),  # nobody has promoted it yet
        ({}, BACK, 0),
        ({"promoting": True, "withdrawn": "a mistake"}, Generation(5, "us", "aa"), 0),
    ],
)
def test_a_rollback_to_before_it_came_back_gives_nothing_away(
    changes: dict[str, Any], last: Generation, held: int
) -> None:
    """Generations of the other region that were continued here have ended, whatever a later one starts from."""
    rolled = Generation(5, "us", "bb")
    parents = PARENTS | {rolled: told(US, 2)}
    here = known(replace(candidate(BACK, "eu"), **changes), candidate(rolled))
    found = local_position(rolled, told(last, 9), 1, here, "eu", lambda claim: parents[claim.generation])
    assert found.held == held
    assert (find_takeover([candidate(EU, "us")], "us", found, parent_of) is None) == (held > 0)


def test_whoever_goes_on_from_the_other_region_waits_for_no_answer_until_it_is_promoted() -> None:
    """That region may be dead. Only a claim from this generation's own milestones counts: they were lost here."""
    here = known(candidate(BACK, "eu"), candidate(Generation(5, "us", "aa")))
    for last in (told(US, 7), None):
        found = local_position(BACK, last, 0, here, "eu", parent_of)
        assert found == LocalPosition(Token(BACK, 0), 0, 0, BACK)
        assert not found.may_be_left(10**15, LEAST_MS)
        assert find_takeover([candidate(EU, "us")], "us", found, parent_of) is None
        assert find_takeover([candidate(AGAIN, "us")], "us", found, lambda _claim: told(BACK, 8)) is not None
    assert local_position(Generation(5, "us", "aa"), told(BACK, 9), 1, here, "eu", parent_of).begins is None


@pytest.mark.parametrize("least_ms", [0, LEAST_MS, 10**16])
def test_where_nothing_was_heard_an_answer_is_waited_for(least_ms: int) -> None:
    """A cluster that was lost whole and made again: a first milestone would be the second one of its number."""
    found = local_position(US, None, 0, Candidates(), "eu", parent_of)
    assert found == LocalPosition(Token(US, 0), 0, 0)
    assert found.may_be_left(10**15, least_ms)
    error = UnavailableError("eu:9092 is away")
    waits = unanswered(found, "eu", error, True, "")
    assert waits.waits
    assert "before this one lost it (if it is not new here)" in waits.why
    assert f"CUTWATER_GO_ON_BEHIND={US}:0" in waits.why
    assert not unanswered(found, "eu", error, True, f"{US}:0").waits


@given(st.integers(-(10**7), 10**7), st.integers(0, 10**6))
def test_it_waits_where_a_failover_needed_no_force(age_ms: int, least_ms: int) -> None:
    """`require_dead` refuses below that age; and a clock that was put back says nothing."""
    here = LocalPosition(Token(US, 3), 10**9, 0)
    assert here.may_be_left(10**9 + age_ms, least_ms) == (not -least_ms < age_ms < least_ms)


def test_an_operators_word_stands_for_an_answer_that_does_not_come() -> None:
    """Behind that milestone only. A region that was silent for a moment waits for nobody."""
    here, error = LocalPosition(Token(US, 3), 1, 0), UnavailableError("eu:9092 is away")
    waits = unanswered(here, "eu", error, True, f"{US}:2")
    assert waits.waits
    assert f"CUTWATER_GO_ON_BEHIND={US}:3" in waits.why
    over = unanswered(here, "eu", error, True, f"{US}:3")
    assert over == ResumeDecision(
        False, f"region eu does not answer, and CUTWATER_GO_ON_BEHIND={US}:3 says to go on: {error}"
    )
    assert unanswered(here, "eu", error, False, "") == ResumeDecision(False, f"region eu does not answer: {error}")


def test_the_error_says_what_stands_there_and_what_to_do() -> None:
    claim, behind = candidate(EU, "us").claim, Token(US, 3)
    require_not_left(None, "flights", "us")
    with pytest.raises(
        FencedError, match=f"{EU} was started there from {behind}, and is not promoted yet"
    ) as error:
        require_not_left(RemoteTakeover(claim, behind, None), "flights", "us")
    assert f"'cutwater generation abort {EU}'" in str(error.value)
    with pytest.raises(FencedError, match=f"the newest milestone there is {EU}:7") as error:
        require_not_left(RemoteTakeover(claim, behind, Token(EU, 7)), "flights", "us")
    assert "'cutwater switchover --origin eu'" in str(error.value)
    # What was promoted there before that claim says nothing of it.
    with pytest.raises(FencedError, match="not promoted yet"):
        require_not_left(RemoteTakeover(claim, behind, Token(Generation(1, "eu"), 7)), "flights", "us")

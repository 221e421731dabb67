"""Going on in another region: where it begins, where two lines part, earlier tries, and what is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.candidates import Candidate, goes_back_to
from cutwater.core.cuts import Cut, TopicPartition
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.failover import (
    Again,
    begins_at,
    forked_at,
    known_loss,
    require_copying,
    require_current,
    require_dead,
    require_kept,
    require_not_given,
    resumed,
)
from cutwater.core.generations import Generation, Token
from cutwater.core.mirrored import Arrival
from cutwater.core.records import Claim, Decision, Milestone, Release
from protocol_samples import milestone

US, EU, BACK = Generation(1, "us"), Generation(2, "eu", "5f0c21aa"), Generation(3, "us", "0badcafe")
COPY, OWN = "flights.events.from-us", "flights.events"


def told(generation: Generation, sequence: int, **changes: object) -> Milestone:
    return replace(milestone(0), generation=generation, sequence=sequence, **changes)  # type: ignore[arg-type]


def arrival(generation: Generation, sequence: int, source: Cut | None = None) -> Arrival:
    cut = source or Cut.of_topic(COPY, [40, 50])
    return Arrival("flights", generation.region, generation, sequence, b"h" * 32, 3, cut, Cut(), 0, 0, 0)


def claim(generation: Generation, parent: Milestone, origin: str = "us") -> tuple[Claim, Milestone]:
    return Claim("flights", generation, b"", 2, 0, "", 0, origin=origin), parent


def test_it_begins_in_the_copy_and_in_its_own_source() -> None:
    """At its first offset where the other line has not read it, else exactly there; other topics are left out."""
    found = arrival(US, 3, Cut.of({TopicPartition(COPY, 0): 40, TopicPartition("other", 0): 7}))
    never = begins_at(found, told(US, 3), OWN, "eu", {0: 5, 1: 0})
    assert never.as_dict() == {TopicPartition(COPY, 0): 40, TopicPartition(OWN, 0): 5, TopicPartition(OWN, 1): 0}
    read = told(US, 9, origin_cut=Cut.of({TopicPartition("flights.events.from-eu", 1): 77}))
    again = begins_at(found, read, OWN, "eu", {0: 5, 1: 0})
    assert again.offset(TopicPartition(OWN, 1)) == 77
    assert again.offset(TopicPartition(OWN, 0)) == 5


def test_where_two_lines_part() -> None:
    """By the newest generation there that was started from a milestone here; with none they are two jobs."""
    line = [US, EU, Generation(4, "eu", "11111111")]
    assert forked_at(line, {"5f0c21aa": 42}, "flights") == 42
    assert forked_at(line, {"5f0c21aa": 42, "11111111": 50}, "flights") == 50
    with pytest.raises(UsageError, match="two jobs of one name"):
        forked_at([US], {"00000000": 1}, "flights")


def test_what_an_earlier_try_has_claimed() -> None:
    """One from the newest arrival is gone on with; one from an older milestone is no try of this failover."""
    one, parent = claim(EU, told(US, 3))
    assert resumed(None, [one], arrival(US, 3), lambda _: parent, gave_up=False) == Again(one, done=False)
    with pytest.raises(UsageError, match=f"'cutwater generation abort {EU}' first"):
        resumed(None, [one], arrival(US, 1_000), lambda _: parent, gave_up=False)
    assert resumed(None, [], arrival(US, 3), lambda _: parent, gave_up=False) is None


def test_what_has_arrived_since_is_a_fork_or_the_way_back() -> None:
    """Promoted once it is done, until the origin goes on from here; released, nothing older is gone on with."""
    base, parent = claim(EU, told(US, 3))
    assert resumed(base, [], arrival(US, 1_000), lambda _: parent, gave_up=False) == Again(base, done=True)
    assert resumed(base, [], arrival(BACK, 6), lambda _: parent, gave_up=False) is None
    assert resumed(base, [], arrival(BACK, 6), lambda _: parent, gave_up=True) is None
    with pytest.raises(UsageError, match="'cutwater generation start'"):
        resumed(base, [], arrival(US, 3), lambda _: parent, gave_up=True)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_the_known_loss_is_what_was_read_and_not_copied(first: int, second: int, copied: int) -> None:
    """Per partition, never below zero; of partitions that are copied at all."""
    read = Cut.of_topic(OWN, [first, second])
    places = {TopicPartition(OWN, 0): copied}
    found = known_loss(told(US, 3), told(US, 7, source_cut=read), places, heard_ms=5)
    assert (found.milestones, found.offsets, found.as_of_ms) == (4, max(0, first - copied), 5)


def test_a_region_that_was_heard_of_is_not_dead() -> None:
    require_dead("us", heard_ms=1_000, now_ms=91_000, least_ms=90_000)
    with pytest.raises(UsageError, match=r"heard of 89 s ago.*--force"):
        require_dead("us", heard_ms=1_000, now_ms=90_000, least_ms=90_000)


def test_nothing_is_gone_back_behind_where_the_own_line_ended_there() -> None:
    """A failback says so only where this region had committed more than the other went on from."""
    one, _ = claim(BACK, told(EU, 5), "eu")
    assert goes_back_to(replace(one, rewinds_to=3), told(US, 4)) == 3
    assert goes_back_to(replace(one, rewinds_to=3), told(US, 3)) == 0
    assert goes_back_to(replace(one, origin="", rewinds_to=3), told(US, 3)) == 3, "a rollback always does"


def test_what_was_released_to_another_region_is_its_own() -> None:
    require_not_given(Release("flights", US, 3, "eu", 0), "eu")
    with pytest.raises(UsageError, match=r"released to region ap behind g1-us-00000000:3, and this is eu"):
        require_not_given(Release("flights", US, 3, "ap", 0), "eu")


def test_nothing_is_released_behind_a_mirror_that_rests() -> None:
    require_copying("us", paused=False)
    with pytest.raises(UnavailableError, match="Nothing was released"):
        require_copying("us", paused=True)


def test_an_earlier_claim_from_an_older_milestone_is_in_the_way_of_a_switchover() -> None:
    """One from where the origin is, and one that is promoted, are none."""
    made, parent = claim(EU, told(US, 3))
    require_current(Again(made, done=False), parent.token, Token(US, 3))
    require_current(Again(made, done=True), parent.token, Token(US, 57))
    with pytest.raises(UsageError, match=r"from g1-us-00000000:3, and region us has gone on to g1-us-00000000:57"):
        require_current(Again(made, done=False), parent.token, Token(US, 57))


def test_who_is_refused_behind_the_fencing_is_told_of_the_mirror() -> None:
    with pytest.raises(UsageError, match="fenced before that was known: start it again"):
        require_dead("us", 1_000, 2_000, 90_000, fenced=True)
    require_dead("us", 1_000, 200_000, 90_000, fenced=True)


def test_a_line_that_was_decided_against_goes_on_with_nothing() -> None:
    """A decision for the line of this region, and none at all, keep nobody from going on."""
    made, parent = claim(EU, told(US, 3))

    def decided(keeps: Generation) -> Candidate:
        return Candidate(made, decision=Decision("flights", EU, str(keeps), "why", 0))

    require_kept(Candidate(made), parent.token)
    require_kept(decided(EU), parent.token)
    with pytest.raises(UsageError, match="kept g1-us-00000000, and this region's own milestones behind g1-us"):
        require_kept(decided(US), parent.token)

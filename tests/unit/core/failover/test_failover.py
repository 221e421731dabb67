"""Going on in another region: where it begins, where two lines part, earlier tries, and what is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.failover.failover import (
    CommonHistory,
    after_markers,
    copied_up_to,
    find_common_history,
    known_loss,
    read_to_end,
    require_copying,
    require_current,
    require_dead,
    require_events,
    require_free,
    require_joined,
    require_kept,
    require_not_given,
    require_recipient,
    require_same,
    resumed,
    start_cut,
)
from cutwater.core.generations.candidates import Candidate, EarlierClaim, goes_back_to
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.mirror_records import Arrival, Mirrored
from cutwater.core.protocol.records import Claim, Decision, Milestone, Release
from support.protocol_samples import milestone
from support.regions.mirror_samples import golden_mirror_record

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
    never = start_cut(found, told(US, 3), OWN, "eu", {0: 5, 1: 0})
    assert never.as_dict() == {TopicPartition(COPY, 0): 40, TopicPartition(OWN, 0): 5, TopicPartition(OWN, 1): 0}
    read = told(US, 9, origin_cut=Cut.of({TopicPartition("flights.events.from-eu", 1): 77}))
    again = start_cut(found, read, OWN, "eu", {0: 5, 1: 0})
    assert again.offset(TopicPartition(OWN, 1)) == 77
    assert again.offset(TopicPartition(OWN, 0)) == 5


@pytest.mark.parametrize(
    ("cut", "copied", "first", "begins"),
    [(40, 40, 41, 41), (40, 30, 45, 45), (40, 40, 7, 40), (40, 41, 45, 40), (40, None, 45, 40), (0, 0, 0, 0)],
)
def test_it_begins_behind_what_is_gone_where_that_was_no_record(
    cut: int, copied: int | None, first: int, begins: int
) -> None:
    """Retention also deletes the marker of the last copied transaction, in front of which the cut is. Where there
    were records from the cut on, or nothing is known, it stays, and the driver refuses to start.
    """
    here, own = TopicPartition(COPY, 0), TopicPartition(OWN, 0)
    ends = {} if copied is None else {here: copied}
    found = after_markers(Cut.of({here: cut, own: 3}), ends, {here: first})
    assert found == Cut.of({here: begins, own: 3})


@pytest.mark.parametrize(("local", "begins"), [(11, 52), (10, 52), (12, 49)])
def test_behind_the_last_event_that_was_read_may_be_markers(local: int, begins: int) -> None:
    """They were read as far as the copy has come; where it holds events that were not read, these come first."""
    back = "flights.events.from-eu"
    at = golden_mirror_record("mirrored")
    assert isinstance(at, Mirrored)
    ours = [replace(at, topic=OWN, partition=0, local=local, next=52)]
    cut = Cut.of({TopicPartition(back, 0): 49, TopicPartition(back, 1): 7})
    parent = told(US, 9, source_cut=Cut.of({TopicPartition(back, 0): 11}), origin_cut=cut)
    assert read_to_end(parent, ours, back).as_dict() == {
        TopicPartition(back, 0): begins,
        TopicPartition(back, 1): 7,
    }
    assert read_to_end(parent, [], back) == cut


def test_how_far_a_source_is_copied_is_told_in_the_origins_offsets() -> None:
    """By the name that the copy has here; positions of other topics do not count."""
    at = golden_mirror_record("mirrored")
    assert isinstance(at, Mirrored)
    told = [
        replace(at, topic=topic, partition=partition, next=following)
        for topic, partition, following in ((OWN, 0, 40), (OWN, 1, 50), ("other", 0, 7))
    ]
    assert copied_up_to(told, OWN, "us") == Cut.of_topic(COPY, [40, 50])


def test_an_attached_querys_events_must_be_copied() -> None:
    """Of each partition that its line has read, and of no other topic; copies of other regions do not count."""
    read = Cut.of_topic(OWN, [40, 50])
    of_ap = Cut.of({TopicPartition(f"{OWN}.from-ap", 0): 9})
    require_events(arrival(US, 3), told(US, 3, source_cut=read.and_(of_ap)), OWN)
    half = arrival(US, 3, Cut.of_topic(COPY, [40]))
    with pytest.raises(UsageError, match=f"did not copy {OWN}/1: start the mirror .* a later arrival"):
        require_events(half, told(US, 3, source_cut=read), OWN)
    both = read.and_(Cut.of_topic("returns", [3]))
    with pytest.raises(UsageError, match=f"has read returns, but attached.source is {OWN}"):
        require_events(arrival(US, 3), told(US, 3, source_cut=both), OWN)


HERE = {"5f0c21aa": Token(US, 42), "0badcafe": Token(EU, 60)}
"""Milestones of this region, by which EU and BACK name their parents."""


def line(*of: tuple[Generation, int, int]) -> list[Milestone]:
    """Generation, sequence, and what it rewinds to."""
    return [told(generation, sequence, rewinds_to=to) for generation, sequence, to in of]


def test_where_two_lines_part() -> None:
    """By the newest generation there that was started from a milestone here; with none they are two jobs."""
    assert find_common_history(line((US, 1, 0), (EU, 43, 0), (EU, 44, 0)), HERE) == CommonHistory(42, US)
    assert find_common_history(line((US, 1, 0), (EU, 43, 0), (BACK, 61, 0)), HERE) == CommonHistory(60, EU)
    assert require_joined(CommonHistory(42, US), "flights") == CommonHistory(42, US)
    assert find_common_history(line((US, 1, 0)), HERE) is None
    with pytest.raises(UsageError, match="two jobs of the same name"):
        require_joined(None, "flights")


@pytest.mark.parametrize(("to", "at"), [(30, 30), (61, 60)], ids=["below the hand-over", "behind it"])
def test_a_rollback_there_leaves_less_in_common(to: int, at: int) -> None:
    """But that by which the line came back from here is of its own sequences, and goes back to none of these."""
    again = Generation(4, "us", "22222222")
    assert find_common_history(line((US, 42, 0), (BACK, 61, 42), (BACK, 62, 0)), HERE) == CommonHistory(60, EU)
    assert find_common_history(
        line((US, 42, 0), (BACK, 61, 0), (BACK, 70, 0), (again, 71, to), (again, 72, 0)), HERE
    ) == CommonHistory(at, EU)


@pytest.mark.parametrize(
    ("to", "at"),
    [(55, 60), (51, 60), (50, 30), (45, 30), (31, 30), (30, 30), (20, 20)],
    ids=str,
)
def test_a_rollback_is_judged_by_the_numbers_of_its_own_stream(to: int, at: int) -> None:
    """The fork there had the numbers 31 to 50, and 51 continues 60 from here: what follows it undoes nothing here,
    and of the fork nothing is in common, whatever its number.
    """
    again = Generation(4, "us", "22222222")
    stream = line((US, 1, 0), (BACK, 51, 30), (again, 58, to))
    assert find_common_history(stream, HERE) == CommonHistory(at, EU)
    twice = Generation(5, "us", "33333333")
    assert find_common_history([*stream, *line((twice, 70, 62))], HERE) == CommonHistory(at, EU)


def test_a_rollback_behind_the_last_of_two_hand_overs_leaves_the_first() -> None:
    """And one to before both leaves what was there before them."""
    again = Generation(4, "us", "22222222")
    stream = [(US, 1, 0), (EU, 43, 0), (BACK, 51, 47)]
    assert find_common_history(line(*stream, (again, 58, 49)), HERE) == CommonHistory(42, EU)
    assert find_common_history(line(*stream, (again, 58, 40)), HERE) == CommonHistory(40, EU)


def tried(
    base: Claim | None,
    waiting: Sequence[Claim],
    found: Arrival,
    parent: Milestone,
    gave_up: bool = False,
    back: CommonHistory | None = None,
) -> EarlierClaim | None:
    return resumed(base, waiting, found, lambda _: parent, gave_up, lambda: back)


def test_what_an_earlier_try_has_claimed() -> None:
    """One from the newest arrival is gone on with; one from an older milestone is no try of this failover."""
    one, parent = claim(EU, told(US, 3))
    assert tried(None, [one], arrival(US, 3), parent) == EarlierClaim(one, done=False)
    with pytest.raises(UsageError, match=f"'cutwater generation abort {EU}' first"):
        tried(None, [one], arrival(US, 1_000), parent)
    assert tried(None, [], arrival(US, 3), parent) is None


def test_what_has_arrived_since_is_a_fork_or_the_way_back() -> None:
    """Promoted once it is done, until the origin goes on from here; released, nothing older is gone on with."""
    base, parent = claim(EU, told(US, 3))
    assert tried(base, [], arrival(US, 1_000), parent) == EarlierClaim(base, done=True)
    for gave_up in (False, True):
        assert tried(base, [], arrival(BACK, 6), parent, gave_up, back=CommonHistory(5, EU)) is None
    with pytest.raises(UsageError, match="'cutwater generation start'"):
        tried(base, [], arrival(US, 3), parent, gave_up=True)


@pytest.mark.parametrize("before", [None, CommonHistory(2, US)], ids=["never", "before that"])
def test_a_fork_with_a_generation_of_its_own_is_not_the_way_back(before: CommonHistory | None) -> None:
    """What was promoted there in flight was not handed over since this region went on: its number says nothing."""
    base, parent = claim(EU, told(US, 3))
    in_flight = arrival(Generation(2, "us", "33333333"), 4)
    assert tried(base, [], in_flight, parent, back=before) == EarlierClaim(base, done=True)
    with pytest.raises(UsageError, match="'cutwater generation start'"):
        tried(base, [], in_flight, parent, gave_up=True, back=before)


def test_nothing_is_claimed_while_another_generation_is_being_promoted() -> None:
    """It would be promoted by nobody, and the job rest in both regions. That of a try is not in its way."""
    mine, other = claim(EU, told(US, 3))[0], claim(Generation(2, "eu", "44444444"), told(US, 3), "")[0]
    asked = Candidate(other, promoting=True)
    for again in (None, EarlierClaim(mine, done=False)):
        with pytest.raises(UsageError, match=f"'cutwater generation abort {other.generation}' first"):
            require_free(asked, again)
    require_free(asked, EarlierClaim(mine, done=True))
    require_free(Candidate(mine, promoting=True), EarlierClaim(mine, done=False))
    require_free(None, None)


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


@pytest.mark.parametrize("to", ["EU 1", "", "eu-west", "9eu", "us"])
def test_a_job_is_released_to_another_region_by_its_name(to: str) -> None:
    require_recipient("eu1", "us")
    with pytest.raises(UsageError, match=f"--to {to}: "):
        require_recipient(to, "us")


def test_a_release_names_one_region() -> None:
    """Another one is not written over it, nor passed over in silence."""
    made = Release("flights", US, 3, "eu1", 0)
    require_same(made, "eu1")
    with pytest.raises(UsageError, match=r"released to region eu1 after g1-us-00000000:3 already, not to eu"):
        require_same(made, "eu")


def test_what_was_released_to_another_region_is_its_own() -> None:
    require_not_given(Release("flights", US, 3, "eu", 0), "eu")
    with pytest.raises(UsageError, match=r"released to region ap after g1-us-00000000:3, but this is eu"):
        require_not_given(Release("flights", US, 3, "ap", 0), "eu")


def test_nothing_is_released_behind_a_mirror_that_rests() -> None:
    require_copying("us", paused=False)
    with pytest.raises(UnavailableError, match="Nothing was released"):
        require_copying("us", paused=True)


@pytest.mark.parametrize("released", [False, True])
def test_an_earlier_claim_from_an_older_milestone_is_in_the_way_of_a_switchover(released: bool) -> None:
    """One from where the origin is is none. Behind one that is promoted the origin's milestones are a fork."""
    made, parent = claim(EU, told(US, 3))
    for done in (False, True):
        require_current(EarlierClaim(made, done), parent.token, Token(US, 3), released)
    with pytest.raises(UsageError, match=r"from g1-us-00000000:3 .*at g1-us-00000000:57: that is a fork") as fork:
        require_current(EarlierClaim(made, done=True), parent.token, Token(US, 57), released)
    with pytest.raises(UsageError, match=r"from g1-us-00000000:3, and .* at g1-us-00000000:57\.") as old:
        require_current(EarlierClaim(made, done=False), parent.token, Token(US, 57), released)
    assert [("Nothing was released" in str(one.value)) for one in (fork, old)] == [not released] * 2


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
    with pytest.raises(UsageError, match="kept g1-us-00000000, and this region's own milestones after g1-us"):
        require_kept(decided(US), parent.token)

"""Forks as a fold over a commit stream: all that stands behind the parent, up to where its region came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.failover.forks import (
    Fork,
    ForkTracker,
    StreamMilestone,
    contradicting_lines,
    find_fork,
    foreign_generations,
    undecided,
)
from cutwater.core.generations.candidates import PARENT_DIGITS, Candidates
from cutwater.core.protocol.chain import link
from cutwater.core.protocol.generation import ROOT_PARENT, Generation
from cutwater.core.protocol.records import Claim, Decision, Milestone
from support.protocol_samples import JOB, hash_of, milestone

ELSEWHERE = link(b"a milestone of another region").hex()[:PARENT_DIGITS]
COMMIT, START, RETURN = "commit", "start", "return"


@dataclass(frozen=True)
class Stream:
    """A commit stream, and of each of its milestones whether its region had come back with it."""

    told: Sequence[StreamMilestone]
    returned: Sequence[bool]


@st.composite
def streams(draw: st.DrawFn, begins: str = "us") -> Stream:
    """Generations that go on, that are started from any earlier milestone here, or from one of elsewhere."""
    first = Generation(1, "us") if begins == "us" else Generation(2, "us", ELSEWHERE)
    told: list[StreamMilestone] = []
    returned = []
    generation = first
    for step in draw(st.lists(st.sampled_from([COMMIT, COMMIT, COMMIT, START, RETURN]), max_size=25)):
        if told and step != COMMIT:
            parent = draw(st.sampled_from(told)).hash.hex()[:PARENT_DIGITS] if step == START else ELSEWHERE
            generation = Generation(generation.number + 1, "us", parent)
        last = told[-1].milestone if told else None
        one = milestone(
            len(told), last, generation=generation, events=draw(st.integers(0, 99)), committed_ms=1_000 * len(told)
        )
        told.append(StreamMilestone(one, hash_of(one)))
        returned.append(bool(last) and step == RETURN)
    return Stream(told, returned)


def elsewhere(stream: Stream) -> frozenset[Generation]:
    return foreign_generations(
        (one.milestone.generation for one in stream.told), (one.hash for one in stream.told)
    )


@given(st.sampled_from(["us", "elsewhere"]).flatmap(streams), st.data())
def test_everything_behind_the_parent_contradicts_up_to_the_return(stream: Stream, data: st.DataObject) -> None:
    """In runs of one generation: their tokens, how many, when, what they read; whatever the stream began with."""
    if not stream.told:
        return
    at = data.draw(st.integers(0, len(stream.told) - 1))
    ends = [number for number, back in enumerate(stream.returned) if back and number > at]
    fork = [one.milestone for one in stream.told[at + 1 : min(ends, default=len(stream.told))]]
    runs = [list(run) for _, run in groupby(fork, lambda one: one.generation)]
    found = contradicting_lines(stream.told, stream.told[at].hash, elsewhere(stream))
    assert found is not None
    assert [(one.first, one.last, one.milestones) for one in found] == [
        (run[0].token, run[-1].token, len(run)) for run in runs
    ]
    assert sum(one.events for one in found) == sum(one.events for one in fork)
    assert [(one.first_ms, one.last_ms) for one in found] == [
        (run[0].committed_ms, run[-1].committed_ms) for run in runs
    ]
    assert [one.source_cut for one in found] == [run[-1].source_cut for run in runs]


@given(st.sampled_from(["us", "elsewhere"]).flatmap(streams), st.data())
def test_counted_as_it_grows_it_is_the_same(stream: Stream, data: st.DataObject) -> None:
    """Of several parents, of which not each is there, after every milestone."""
    parents = data.draw(st.sets(st.sampled_from([*(one.hash for one in stream.told), bytes(32)])))
    growing = ForkTracker(parents, elsewhere(stream).__contains__)
    for number, one in enumerate(stream.told, 1):
        growing.take(one)
        found = {one: contradicting_lines(stream.told[:number], one, elsewhere(stream)) for one in parents}
        wanted = {at: sum(line.milestones for line in lines) for at, lines in found.items() if lines is not None}
        assert (growing.counts, growing.milestones) == (wanted, sum(wanted.values()))


@given(streams())
def test_a_stream_without_the_parent_says_nothing(stream: Stream) -> None:
    """Not that nothing contradicts: that is not known."""
    assert contradicting_lines(stream.told, bytes(32), elsewhere(stream)) is None


@given(streams())
def test_a_generation_is_of_elsewhere_where_no_milestone_is_its_parent(stream: Stream) -> None:
    """A job's first one is its own, though it has no parent."""
    hashes = {one.hash.hex()[:PARENT_DIGITS] for one in stream.told} | {ROOT_PARENT}
    line = {one.milestone.generation for one in stream.told}
    assert elsewhere(stream) == {one for one in line if one.parent not in hashes}


HERE, THERE = Generation(2, "eu", "0badcafe"), Generation(1, "us")


def claim(generation: Generation = HERE) -> Claim:
    return Claim(JOB, generation, b"", 2, 0, "failover from us", 5, origin="us")


def fork(*milestones: Milestone, generation: Generation = HERE) -> Fork:
    told = [StreamMilestone(one, hash_of(one)) for one in milestones]
    lines = contradicting_lines(told, told[0].hash, ())
    return Fork(claim(generation), milestones[0], True, lines, True, 0, None)


def chain(generation: Generation, length: int) -> list[Milestone]:
    made: list[Milestone] = []
    for epoch in range(length):
        made.append(milestone(epoch, made[-1] if made else None, generation=generation))
    return made


def test_keeping_either_side_decides_the_fork() -> None:
    """The generation here, or one of the fork; one that takes part in none is refused, with those that do."""
    one = fork(*chain(THERE, 3))
    assert (one.contradicts, one.milestones, one.open) == (True, 2, True)
    assert find_fork([one], HERE) is one
    assert find_fork([one], THERE) is one
    with pytest.raises(UsageError, match=f"those that do: {HERE}, {THERE}"):
        find_fork([one], Generation(9, "us"))
    quiet = fork(*chain(THERE, 1))
    assert (quiet.contradicts, quiet.open) == (False, False)
    with pytest.raises(UsageError, match="nothing contradicts"):
        find_fork([quiet], HERE)


def test_the_newest_decision_counts_and_changes_nothing_else() -> None:
    """Of a candidate it is kept beside what is known; of what was never claimed it is passed over."""
    before = Candidates().after(claim())
    first, second = (Decision(JOB, HERE, str(keeps), "why", 6) for keeps in (HERE, THERE))
    after = before.after(first).after(second)
    assert after.by_id[HERE] == replace(before.by_id[HERE], decision=second)
    assert after.by_id[HERE].open
    assert before.after(replace(first, generation=THERE)) == before


def test_only_what_nobody_decided_is_looked_for() -> None:
    """And only of one origin: what was copied of another one stands in another stream."""
    mine, other = claim(), replace(claim(Generation(3, "eu", "0badcafe")), parent=b"another", origin="ap")
    known = Candidates().after(mine).after(other)
    assert undecided(known.by_id.values(), "us") == {link(mine.parent): HERE}
    known = known.after(Decision(JOB, HERE, str(THERE), "why", 6))
    assert undecided(known.by_id.values(), "us") == {}

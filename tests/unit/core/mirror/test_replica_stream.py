"""Copied milestones and their arrivals, joined: in order, each as arrived or as missed, however they come."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import DivergenceError
from cutwater.core.mirror.replica_stream import HELD, ReplicaStream
from cutwater.core.protocol.chain import link
from cutwater.core.protocol.cuts import NOWHERE, Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import Arrival
from cutwater.core.state.backlog import Backlog, Entry, Jump, MissedMilestone, Step
from unit.core.state.test_backlog import G1, NOW, chain

LENGTH = 8


def arrival(entry: Entry) -> Arrival:
    """With cuts of its own: 1,000 times the sequence."""
    one = entry.milestone
    return Arrival(
        job=one.job,
        origin="us",
        generation=one.generation,
        sequence=one.sequence,
        milestone_hash=link(entry.record),
        stream_offset=entry.offset,
        source_cut=Cut(),
        changelog_cut=Cut.of_topic("here", [1_000 * one.sequence]),
        watermark_ms=0,
        committed_ms=0,
        arrived_ms=0,
    )


def sequences(found: list[Entry | MissedMilestone]) -> list[tuple[int, bool]]:
    return [
        (one.entry.milestone.sequence, False)
        if isinstance(one, MissedMilestone)
        else (one.milestone.sequence, True)
        for one in found
    ]


@given(st.sets(st.integers(1, LENGTH)), st.lists(st.booleans(), max_size=3 * LENGTH), st.integers(0, LENGTH))
def test_every_milestone_is_told_once_as_it_arrived(arrived: set[int], turns: list[bool], behind: int) -> None:
    """In order, whichever topic is read first, and also by who reads arrivals again from an earlier one on."""
    entries = chain(LENGTH)
    landing, found = ReplicaStream(), []
    milestones = [one for one in entries if one.milestone.sequence > behind]
    arrivals = [one for one in entries if one.milestone.sequence in arrived]
    for milestones_turn in [*turns, *[True, False] * LENGTH]:
        if milestones_turn and milestones:
            landing.milestone(milestones.pop(0))
        elif not milestones_turn and arrivals:
            one = arrivals.pop(0)
            landing.arrival(10 * one.milestone.sequence, arrival(one))
        found += landing.ready()
    last = max(arrived, default=0)
    assert sequences(found) == [(number, number in arrived) for number in range(behind + 1, last + 1)]
    for one in found:
        entry = one.entry if isinstance(one, MissedMilestone) else one
        before = max((number for number in arrived if number <= entry.milestone.sequence), default=None)
        assert entry.record == entries[entry.milestone.sequence - 1].record
        cut = NOWHERE if before is None else Cut.of_topic("here", [1_000 * before])
        assert (entry.milestone.changelog_cut, entry.arrived) == (cut, before and 10 * before)
    assert landing.waits == (behind < LENGTH and last < LENGTH)


def test_an_arrival_of_another_milestone_is_refused() -> None:
    """Same number, other bytes: one of both topics is not what it was."""
    (entry,) = chain(1)
    for wrong in (
        replace(arrival(entry), milestone_hash=bytes(32)),
        replace(arrival(entry), generation=Generation(2, "us", "01234567")),
    ):
        landing = ReplicaStream()
        landing.milestone(entry)
        landing.arrival(0, wrong)
        with pytest.raises(DivergenceError, match="resync"):
            list(landing.ready())


@given(st.sets(st.integers(1, LENGTH)), st.sets(st.integers(1, LENGTH)))
def test_a_view_steps_only_onto_the_milestone_before(arrived: set[int], looks: set[int]) -> None:
    """Over milestones that are missing it jumps: a step would leave their rows out."""
    entries, landing = chain(LENGTH), ReplicaStream()
    backlog, at, applied = Backlog(G1), 0, []
    for entry in entries:
        landing.milestone(entry)
        if entry.milestone.sequence in arrived:
            landing.arrival(entry.offset, arrival(entry))
        for one in landing.ready():
            backlog.missed(one.entry) if isinstance(one, MissedMilestone) else backlog.add(one)
        if entry.milestone.sequence not in looks and entry.milestone.sequence < LENGTH:
            continue
        backlog.end_of_stream()
        while (plan := backlog.plan(NOW)) is not None:
            number = plan.to.milestone.sequence
            assert number in arrived
            assert isinstance(plan, Jump) if number != at + 1 or not at else isinstance(plan, Step | Jump)
            applied.append(number)
            at = number
            backlog.mark_applied(plan.to)
    assert at == max(arrived, default=0)
    assert applied == sorted(set(applied))


def test_who_waits_for_whom() -> None:
    """A milestone for its arrival, or an arrival for its milestone; with neither nothing waits."""
    (entry,) = chain(1)
    one = ReplicaStream()
    assert (one.waits, one.even) == (False, True)
    one.milestone(entry)
    assert (one.waits, one.even) == (True, True)
    other = ReplicaStream()
    other.arrival(7, arrival(entry))
    assert (other.waits, other.even) == (False, False)


def test_a_milestone_that_has_arrived_leaves_nothing_waiting() -> None:
    (entry,) = chain(1)
    one = ReplicaStream()
    one.milestone(entry)
    one.arrival(7, arrival(entry))
    assert sequences(list(one.ready())) == [(1, True)]
    assert (one.waits, one.even) == (False, True)


def test_each_topic_is_read_ahead_up_to_a_bound() -> None:
    (entry,) = chain(1)
    milestones, arrivals = ReplicaStream(), ReplicaStream()
    for _ in range(HELD):
        assert milestones.wants_milestones
        assert arrivals.wants_arrivals
        milestones.milestone(entry)
        arrivals.arrival(7, arrival(entry))
    assert (milestones.wants_milestones, milestones.wants_arrivals) == (False, True)
    assert (arrivals.wants_milestones, arrivals.wants_arrivals) == (True, False)

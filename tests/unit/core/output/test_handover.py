"""Which milestone the output goes on with behind a hand-over, what differs, and what a difference is called."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.avro import protocol_records
from cutwater.core.errors import DivergenceError
from cutwater.core.output.handover import Handover, RowKinds, Succession
from cutwater.core.protocol.chain import ROOT_HASH, link
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry
from support.protocol_samples import GENERATION, milestone

DAY_MS = 86_400_000


def stream(*lengths: int, rewinds: tuple[int, ...] = ()) -> list[Entry]:
    """Milestones of generations behind one another, so many of each; `rewinds`: of the later ones."""
    found: list[Entry] = []
    for number, length in enumerate(lengths):
        generation = replace(GENERATION, number=number + 1)
        back = rewinds[number - 1] if number and rewinds else 0
        for epoch in range(length):
            before = found[-1] if found else None
            made = replace(
                milestone(epoch, before.milestone if before else None),
                parent_hash=link(before.record) if before else ROOT_HASH,
                generation=generation,
                epoch=epoch,
                rewinds_to=0 if epoch else back,
            )
            found.append(Entry(made, protocol_records.encode(made), 2 * len(found)))
    return found


def read(entries: list[Entry], published: int, target: int = 0) -> Succession:
    """What a publisher knows that has published so many of them, and has read to the end."""
    known = entries[published - 1] if published else None
    succession = Succession(GENERATION, known, target)
    for entry in entries[max(0, published - 1) :]:
        succession.add(entry)
    return succession


def young(milestone: Milestone) -> int:
    return milestone.written_ms


@pytest.mark.parametrize(
    ("end_ms", "gone", "kind"),
    [
        (11, False, "update"),
        (10, False, "correction"),
        (4, False, "correction"),
        (11, True, "tombstone"),
        (5, True, "tombstone"),
        (4, True, None),
    ],
)
def test_what_contradicts_is_marked(end_ms: int, gone: bool, kind: str | None) -> None:
    """Up to what was said, all is a correction; below the horizon nothing is known to be gone."""
    assert RowKinds("update", said_ms=10, horizon_ms=4).kind(end_ms, gone) == kind


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_the_output_goes_on_with_the_first_of_the_promoted(one: int, two: int, data: st.DataObject) -> None:
    """While its state is certainly there; else with the newest milestone. Whatever is published of the old one."""
    entries = stream(one, two)
    succession = read(entries, data.draw(st.integers(0, one)))
    first, newest = entries[one], entries[-1]
    plan = succession.plan(young(first.milestone))
    assert plan is not None
    assert (plan.to, plan.rewinds_to) == (first, 0)
    late = succession.plan(newest.milestone.written_ms + 2 * DAY_MS)
    assert late is not None
    assert late.to == newest


@given(st.integers(1, 3), st.integers(2, 4), st.integers(1, 3), st.data())
def test_a_difference_that_was_begun_goes_on_to_the_same_milestone(
    one: int, two: int, three: int, data: st.DataObject
) -> None:
    """Also when time has passed, or a third generation was promoted meanwhile; not if compaction was faster."""
    entries = stream(one, two, three)
    target = data.draw(st.sampled_from(entries[one:]))
    succession = read(entries, one, target.milestone.sequence)
    late_ms = entries[-1].milestone.written_ms + 2 * DAY_MS
    plan = succession.plan(late_ms)
    assert plan is not None
    assert plan.to == target
    succession.mark_overtaken(target, looked=True)
    plan = succession.plan(late_ms)
    assert plan is None if target == entries[-1] else plan is not None and plan.to == entries[-1]


def test_what_is_begun_in_the_old_generation_is_no_target() -> None:
    """Parts of a milestone that cannot be finished: the difference leads to the new generation all the same."""
    entries = stream(3, 2)
    plan = read(entries, 1, target=2).plan(young(entries[3].milestone))
    assert plan is not None
    assert plan.to == entries[3]


def test_several_rollbacks_on_the_way_name_the_earliest_goal() -> None:
    """Published to 3, then back to 2, then back to 1; a generation behind the target does not count."""
    entries = stream(3, 2, 2, rewinds=(2, 1))
    now_ms = young(entries[5].milestone)
    plan = read(entries, 3).plan(now_ms)
    assert plan is not None
    assert (plan.to, plan.rewinds_to) == (entries[5], 1)
    begun = read(entries, 3, target=4).plan(now_ms)
    assert begun is not None
    assert (begun.to, begun.rewinds_to) == (entries[3], 2)


def test_without_another_generation_there_is_no_hand_over() -> None:
    """A stream of one generation, or none at all, waits."""
    assert read(stream(3), 2).plan(0) is None
    assert Succession(GENERATION, None).plan(0) is None


def test_a_stream_that_was_replaced_or_broken_is_refused() -> None:
    """Another record where the published milestone stood, and a missing one behind it; a pruned stream is not."""
    entries = stream(2, 2)
    other = replace(entries[0].milestone, rows=99)
    with pytest.raises(DivergenceError, match="the topic was replaced"):
        Succession(GENERATION, entries[0]).add(Entry(other, protocol_records.encode(other), 0))
    broken = read(entries, 1)
    with pytest.raises(DivergenceError, match="gap: sequence 7 follows 4"):
        broken.add(Entry(replace(entries[3].milestone, sequence=7), b"", 99))
    forked = Succession(GENERATION, entries[0])
    with pytest.raises(DivergenceError, match="fork: the parent hash"):
        forked.add(Entry(replace(entries[1].milestone, parent_hash=bytes(32)), b"", 99))
    pruned = Succession(GENERATION, entries[0])
    pruned.add(entries[2])
    assert pruned.plan(young(entries[2].milestone)) is not None


def test_the_generation_that_is_left_is_named_by_the_position() -> None:
    """Nothing is published of it: its own milestones are no hand-over, the next one's are."""
    entries = stream(2, 1)
    succession = Succession(Generation(1, GENERATION.region, GENERATION.parent), None)
    succession.add(entries[0])
    assert succession.plan(young(entries[0].milestone)) is None


def test_what_compaction_has_overtaken_is_no_goal_where_somebody_looked() -> None:
    """Looked at, only a later one can be whole; young when its reading began, it may be tried again."""
    entries = stream(2, 2)
    succession = read(entries, 1)
    now_ms = young(entries[2].milestone)
    for looked, goal in ((False, entries[2]), (True, entries[3])):
        succession.mark_overtaken(entries[2], looked)
        plan = succession.plan(now_ms)
        assert plan is not None
        assert plan.to == goal


def test_without_published_parts_no_milestone_is_the_target_yet() -> None:
    """The stream's first one neither, which has the lowest number: when it is old, the newest is taken."""
    entries = stream(0, 3)
    succession = Succession(GENERATION, None)
    for entry in entries:
        succession.add(entry)
    assert [one.milestone.sequence for one in entries] == [1, 2, 3]
    plan = succession.plan(entries[-1].milestone.written_ms + 2 * DAY_MS)
    assert plan == Handover(entries[-1]), "and goes back behind nothing"

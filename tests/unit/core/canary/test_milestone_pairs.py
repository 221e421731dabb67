"""Which milestones of two generations are compared: exactly those that have read the same events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.canary import milestone_pairs
from cutwater.core.canary.milestone_pairs import STEPS_MAX, Pair, Pairing
from cutwater.core.protocol.cuts import Cut
from cutwater.core.state.backlog import Entry
from support.protocol_samples import GENERATION, OTHER, milestone

Cuts = list[tuple[int, int]]


def entry(generation: Any, epoch: int, cut: tuple[int, int], late: int = 0) -> Entry:
    cuts = {"source_cut": Cut.of_topic("e", cut), "late": late}
    return Entry(milestone(epoch, generation=generation, **cuts), b"", epoch)


def line(generation: Any, cuts: Cuts) -> list[Entry]:
    return [entry(generation, epoch, cut) for epoch, cut in enumerate(cuts)]


def drained(pairing: Pairing) -> list[Pair]:
    found = []
    while (pair := pairing.next()) is not None:
        found.append(pair)
    return found


@st.composite
def growing(draw: st.DrawFn) -> Cuts:
    """A generation's cuts: in each partition they only grow, and in some epochs nothing does."""
    steps = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12))
    cuts, one, two = [], 0, 0
    for more, other in steps:
        one, two = one + more, two + other
        cuts.append((one, two))
    return cuts


@given(growing(), growing(), st.randoms(use_true_random=False))
def test_all_equal_cuts_pair_once_in_whatever_order_they_come(live: Cuts, theirs: Cuts, order: Any) -> None:
    """And every milestone that has no partner is counted."""
    pairing, found = Pairing(), []
    waiting = {True: line(GENERATION, live), False: line(OTHER, theirs)}
    while any(waiting.values()):
        side = order.choice([one for one, of in waiting.items() if of])
        (pairing.add_live if side else pairing.add_candidate)(waiting[side].pop(0))
        found += drained(pairing)
    shared = sorted(set(live) & set(theirs))
    assert [one.live.milestone.source_cut for one in found] == [Cut.of_topic("e", cut) for cut in shared]
    for pair in found:
        assert pair.live.milestone.source_cut == pair.candidate.milestone.source_cut
    counted = pairing.counts.passed, pairing.counts.unpaired
    for one, other, count in ((live, theirs, counted[0]), (theirs, live, counted[1])):
        reached = sum(other[-1]) if other and one else -1
        alone = [sum(cut) for cut in one if cut not in shared]
        # Those with as many events as the other's last one may still wait.
        assert sum(read < reached for read in alone) <= count <= sum(read <= reached for read in alone)


@given(growing(), growing())
def test_the_steps_of_the_pairs_are_the_whole_lines(live: Cuts, theirs: Cuts) -> None:
    """In order, without a gap: a state that is moved along them misses no milestone."""
    pairing = Pairing()
    for one in line(GENERATION, live):
        pairing.add_live(one)
    for one in line(OTHER, theirs):
        pairing.add_candidate(one)
    found = drained(pairing)
    for steps in ([one.live for one in found], [one.candidate for one in found]):
        epochs = [entry.milestone.epoch for one in steps for entry in one.entries]
        assert epochs == list(range(len(epochs)))
        assert all(one.complete for one in steps)


def test_a_milestone_that_is_written_again_counts_once() -> None:
    pairing = Pairing()
    for epoch in (0, 1, 1, 2):
        pairing.add_live(entry(GENERATION, epoch, (epoch, 0)))
        pairing.add_candidate(entry(OTHER, epoch, (epoch, 0)))
    assert [one.candidate.milestone.epoch for one in drained(pairing)] == [0, 1, 2]


def test_the_parents_own_late_events_came_before() -> None:
    pairing = Pairing()
    pairing.add_parent(entry(GENERATION, 7, (5, 5), late=9))
    pairing.add_live(entry(GENERATION, 8, (6, 5), late=2))
    pairing.add_candidate(entry(OTHER, 0, (5, 6), late=1))
    pairing.add_candidate(entry(OTHER, 1, (6, 6)))
    pairing.add_live(entry(GENERATION, 9, (6, 6), late=3))
    [pair] = drained(pairing)
    assert (pair.live.late, pair.candidate.late) == (5, 1)


def test_what_waits_is_bounded_and_what_is_given_up_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milestone_pairs, "WAITING_MAX", 2 * STEPS_MAX)
    pairing = Pairing()
    for epoch in range(2 * STEPS_MAX + 3):
        pairing.add_live(entry(GENERATION, epoch, (epoch, 0)))
    assert pairing.counts.passed == 3
    pairing.add_candidate(entry(OTHER, 0, (2 * STEPS_MAX, 0)))
    [pair] = drained(pairing)
    assert not pair.live.complete
    assert len(pair.live.entries) == STEPS_MAX

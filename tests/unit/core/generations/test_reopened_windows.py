"""A generation that counts late events: from which milestone, with which floor; each event counts once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.driver.lateness import ByFloor
from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import Candidate, fold_candidates
from cutwater.core.generations.late_replay import (
    LateEvent,
    Opening,
    countable,
    counted,
    is_opened,
    opening,
    require_amends,
    require_before,
)
from cutwater.core.generations.start_state import StartState
from cutwater.core.protocol.cuts import NOWHERE, Cut, EpochPlan, TopicPartition
from cutwater.core.protocol.records import Claim, Milestone, Promotion, Reopening
from support.protocol_samples import GENERATION, JOB, OTHER, milestone

SIZE, LATENESS, RETENTION, AMENDS = 10, 5, 60, 20
PLACES = [TopicPartition("events", number) for number in range(2)]
CLAIM = Claim(JOB, OTHER, b"", 2, 0, "why", 0)


class Event(NamedTuple):
    epoch: int
    place: TopicPartition
    offset: int
    at: int

    @property
    def end(self) -> int:
        return self.at - self.at % SIZE + SIZE


class Parent(NamedTuple):
    """What a generation has read, and the model of a driver: one milestone an epoch."""

    events: list[Event]
    stream: list[Milestone]
    late: list[LateEvent]
    states: list[Counter[int]]
    """Events by window, at each milestone."""


EPOCHS = st.lists(
    st.tuples(st.lists(st.tuples(st.sampled_from(PLACES), st.integers(0, 300)), max_size=6), st.booleans()),
    min_size=2,
    max_size=12,
)


@st.composite
def parents(draw: st.DrawFn) -> Parent:
    """A floor or Spark's watermark closes the windows; the floor is raised behind some epochs."""
    by_floor = draw(st.booleans())
    made, offsets = Parent([], [], [], []), dict.fromkeys(PLACES, 0)
    watermark = floor = horizon = 0
    for epoch, (events, cleans) in enumerate(draw(EPOCHS)):
        state = Counter(made.states[-1] if made.states else {})
        for place, at in events:
            event = Event(epoch, place, offsets[place], at)
            offsets[place] += 1
            made.events.append(event)
            if event.end <= floor:
                made.late.append(LateEvent(GENERATION, epoch, place, event.offset, event.end))
            else:
                state[event.end] += 1
        watermark = max([watermark, *(at - LATENESS for _, at in events)])
        if not by_floor:
            floor = watermark
        horizon = max(horizon, min(watermark - RETENTION, floor))
        facts = {
            "source_cut": Cut.of(offsets),
            "watermark_ms": watermark,
            "floor_ms": floor,
            "horizon_ms": horizon,
        }
        made.stream.append(milestone(epoch, **facts))
        made.states.append(state)
        if by_floor and cleans:
            floor = max(floor, watermark - AMENDS)
    return made


@given(parents(), st.data())
def test_each_chosen_event_counts_exactly_once(parent: Parent, data: st.DataObject) -> None:
    """The rows of the model's new generation are those of all events, less the ones that are still listed."""
    last, first = parent.stream[-1], parent.stream[0]
    wanted = data.draw(st.lists(st.sampled_from(parent.late), unique=True)) if parent.late else []
    can = countable(wanted, last, first)
    assert len(can.events) + can.gone + can.earlier == len(wanted)
    assert can.earlier == 0, "nothing is late in a first epoch"
    if not can.events:
        return
    before = [one for one in parent.stream if one.epoch < min(event.epoch for event in can.events)]
    start = data.draw(st.sampled_from(before))
    require_before(start, can.events)
    opened = opening(start, last, can.events)
    origin = StartState.of(start, True).reopened(Reopening(JOB, OTHER, *opened[:2], 0))
    closed_ms = ByFloor(origin, origin.floor_ms, LATENESS).range(EpochPlan(last.source_cut, 0), None).closed_ms
    assert origin.held_cut == last.source_cut
    assert start.horizon_ms <= closed_ms <= start.floor_ms, "the seed holds the windows; none closes earlier"

    rows = Counter({end: n for end, n in parent.states[start.epoch].items() if end > start.horizon_ms})
    again = [one for one in parent.events if one.offset >= start.source_cut.offset(one.place)]
    rows.update(one.end for one in again if one.end > closed_ms)
    left = {
        (one.place, one.offset)
        for one in parent.late
        if one.epoch <= start.epoch or one.window_end_ms <= closed_ms
    }
    expected = Counter(one.end for one in parent.events if (one.place, one.offset) not in left)
    above = {end for end in (*rows, *expected) if end > last.horizon_ms}
    assert {end: rows[end] for end in above} == {end: expected[end] for end in above}
    assert not left & {(one.place, one.offset) for one in can.events}
    late_again = {(one.place, one.offset) for one in again if one.end <= closed_ms}
    assert late_again <= {(one.place, one.offset) for one in parent.late}, "nothing else becomes late"
    listed = [one for one in parent.late if one.epoch > start.epoch]
    assert counted(parent.late, start, opened) == len(listed) - len(late_again)


def late(epoch: int = 3, end: int = 50, offset: int = 7) -> LateEvent:
    return LateEvent(GENERATION, epoch, PLACES[1], offset, end)


def test_what_stays_late_is_told() -> None:
    """A window that left the state; what another generation has listed, or an epoch before the first milestone."""
    last, first = milestone(9, horizon_ms=40), milestone(2)
    events = [late(), late(end=40), late(2), late()._replace(by=OTHER)]
    can = countable(events, last, first)
    assert (can.events, can.gone, can.earlier) == ([late()], 1, 2)
    assert [one.split(":")[0] for one in can.left_out(first)] == ["1 stay late", "2 stay late"]
    assert "retention" in can.left_out(first)[0]
    assert str(first.token) in can.left_out(first)[1]
    assert countable([late()], last, first).left_out(first) == []


def test_what_counts_besides_is_told() -> None:
    """Every listed event after the parent milestone whose window is open again."""
    parent, opened = milestone(2), Opening(40, NOWHERE, NOWHERE)
    assert counted([late(), late(9, offset=8), late(end=41)], parent, opened) == 3
    assert counted([late(end=40), late(2), late()._replace(by=OTHER)], parent, opened) == 0


def test_a_parent_that_has_the_event_is_refused() -> None:
    """Its epoch, a later one, or another generation's."""
    require_before(milestone(2), [late(), late(4)])
    for wrong in (milestone(3), milestone(8), milestone(2, generation=OTHER)):
        with pytest.raises(UsageError, match="is not before late event events/1/7, which epoch 3 of g1-local"):
            require_before(wrong, [late(4), late()])


def test_an_earlier_claim_must_have_opened_as_much() -> None:
    """As low a floor, and all the events below its cut; an ordinary claim opens nothing."""
    wanted = opening(
        milestone(2, horizon_ms=5, floor_ms=30), milestone(9, horizon_ms=20), [late(), late(offset=9)]
    )
    assert wanted == Opening(20, milestone(9).source_cut, Cut.of({PLACES[1]: 10}))
    cut = Cut.of({PLACES[1]: 10})
    known = Reopening(JOB, OTHER, 20, cut, 0)
    assert is_opened(known, wanted)
    assert is_opened(None, None)
    assert not is_opened(known, None)
    assert not is_opened(None, wanted)
    assert not is_opened(replace(known, floor_ms=21), wanted)
    assert not is_opened(replace(known, source_cut=Cut.of({PLACES[1]: 9})), wanted)


def test_a_candidate_keeps_what_it_opens() -> None:
    """The first record counts, also if a claim is written again; one without a claim is ignored."""
    first, again = Reopening(JOB, OTHER, 20, NOWHERE, 0), Reopening(JOB, OTHER, 10, NOWHERE, 1)
    found = fold_candidates([CLAIM, first, CLAIM, again, Promotion(JOB, OTHER, 2)]).require(OTHER)
    assert (found.reopening, found.promoting) == (first, True)
    assert fold_candidates([first]).by_id == {}


def test_a_candidate_that_counts_late_events_needs_a_floor() -> None:
    """Until it is promoted: then it has read them all."""
    opened = Candidate(CLAIM, reopening=Reopening(JOB, OTHER, 20, NOWHERE, 0))
    with pytest.raises(UsageError, match=f"{OTHER} counts late events.*set late.amend_for"):
        require_amends(False, opened, milestone(3))
    with pytest.raises(UsageError, match="counts late events"):
        require_amends(False, opened, None)
    require_amends(True, opened, milestone(3))
    require_amends(False, opened, milestone(3, generation=OTHER))
    require_amends(False, Candidate(CLAIM), milestone(3))

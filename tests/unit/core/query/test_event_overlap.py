"""Whose events a milestone's state counts: named by its cuts, through any chain of failovers, and never twice."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from cutwater.core.generations.source_topics import origin_cut_at
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import from_origin
from cutwater.core.protocol.records import Claim, Milestone
from cutwater.core.query.event_overlap import (
    PARTITIONS_TOLD,
    Source,
    counted_sources,
    counted_twice,
    describe_sources,
)
from support.protocol_samples import JOB, milestone

SOURCE = "flights.events"
REGIONS = ("ap", "eu", "us")
Events = frozenset[tuple[str, int]]
"""Region and offset: each source has one partition."""


def copy(region: str) -> TopicPartition:
    return TopicPartition(from_origin(SOURCE, region), 0)


def of(region: str, source_cut: Cut, origin_cut: Cut = Cut()) -> Milestone:  # noqa: B008 - immutable
    return replace(
        milestone(5), generation=Generation(2, region, "0badcafe"), source_cut=source_cut, origin_cut=origin_cut
    )


def test_the_partitions_are_those_of_the_region_that_writes_them() -> None:
    """The own source is this region's, a copy that of the region that it comes from."""
    cut = Cut.of({TopicPartition(SOURCE, 0): 5, TopicPartition(SOURCE, 1): 9, copy("us"): 7})
    found = counted_sources(of("eu", cut, Cut.of({copy("us"): 70})), SOURCE)
    assert found == {Source("eu", SOURCE, 0), Source("eu", SOURCE, 1), Source("us", SOURCE, 0)}


def test_what_was_read_nowhere_behind_its_beginning_has_no_events() -> None:
    """A region that only might read another one's source counts none of it; where the copy begins late it may."""
    nothing = Cut.of({TopicPartition(SOURCE, 0): 5, copy("us"): 0})
    assert counted_sources(of("eu", nothing), SOURCE) == {Source("eu", SOURCE, 0)}
    assert counted_sources(of("eu", nothing, Cut.of({copy("us"): 0})), SOURCE) == {Source("eu", SOURCE, 0)}
    assert Source("us", SOURCE, 0) in counted_sources(of("eu", nothing, Cut.of({copy("us"): 70})), SOURCE)


def test_a_topic_that_is_no_copy_is_the_regions_own() -> None:
    """That of another job file, or of a query of the user's own."""
    cut = Cut.of({TopicPartition("clicks.from-us", 3): 5})
    assert counted_sources(of("eu", cut), SOURCE) == {Source("eu", "clicks.from-us", 3)}


def test_who_counts_what_another_one_counts_is_named_with_it() -> None:
    """Both of the two, and no third."""
    states = {
        "ap": frozenset({Source("ap", SOURCE, 0)}),
        "eu": frozenset({Source("eu", SOURCE, 0), Source("us", SOURCE, 0), Source("us", SOURCE, 1)}),
        "us": frozenset({Source("us", SOURCE, 0), Source("us", SOURCE, 1)}),
    }
    found = counted_twice(states)
    assert sorted(found) == ["eu", "us"]
    assert f"also in us (region us's {SOURCE}/0,1)" in found["eu"]
    assert f"also in eu (region us's {SOURCE}/0,1)" in found["us"]
    assert counted_twice({name: states[name] for name in ("ap", "eu")}) == {}


def test_many_partitions_are_told_in_short() -> None:
    """An error stays a line."""
    text = describe_sources(Source("us", SOURCE, number) for number in range(500))
    assert text.endswith(f"/{','.join(map(str, range(PARTITIONS_TOLD)))},…")


class State(NamedTuple):
    """A region's newest milestone, and the events that are in its state."""

    milestone: Milestone
    events: Events


class World:
    """Regions that read, and fail over from one another: cuts by the code's own functions, events by hand."""

    def __init__(self) -> None:
        self.written = dict.fromkeys(REGIONS, 0)
        self.states: dict[str, State] = {}

    def begin(self, region: str) -> None:
        if region not in self.states:
            self.states[region] = State(of(region, Cut.of({TopicPartition(SOURCE, 0): 0})), frozenset())

    def read(self, region: str) -> None:
        """One event more in every region, and this one reads its sources to their ends."""
        if region not in self.states:
            return
        last, events = self.states[region]
        for name in self.written:
            self.written[name] += 1
        source, origin = last.source_cut.as_dict(), last.origin_cut.as_dict()
        for place in source:
            name = region if place.topic == SOURCE else place.topic.rpartition("-")[2]
            read = source[place] if name == region else origin.get(place, 0)
            events |= {(name, offset) for offset in range(read, self.written[name])}
            source[place] = self.written[name]
            if name != region:
                origin[place] = self.written[name]
        self.states[region] = State(of(region, Cut.of(source), Cut.of(origin)), events)

    def fail_over(self, origin: str, region: str) -> None:
        """As `core.failover.failover.begins_at` and the driver do it: what stands of a third region is not read
        on."""
        if origin not in self.states or origin == region:
            return
        parent, events = self.states[origin]
        own = parent.origin_cut.offset(copy(region))
        begins = Cut.of({copy(origin): 1, TopicPartition(SOURCE, 0): own})
        claim = Claim(JOB, Generation(3, region, "0badcafe"), b"", 1, 0, "", 0, origin=origin, source_cut=begins)
        self.states[region] = State(of(region, begins, origin_cut_at(SOURCE, claim, parent)), events)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.sampled_from(REGIONS)),
        st.tuples(st.just("read"), st.sampled_from(REGIONS)),
        st.tuples(st.just("fail_over"), st.sampled_from(REGIONS), st.sampled_from(REGIONS)),
    ),
    max_size=14,
)


@given(STEPS)
@example([("begin", "ap"), ("read", "ap"), ("fail_over", "ap", "eu"), ("read", "eu"), ("fail_over", "eu", "us")])
def test_no_event_is_in_two_states_that_may_be_merged(steps: list[tuple[str, ...]]) -> None:
    """Whatever was started from what: where no word is said against two states, they share no event."""
    world = World()
    for name, *regions in steps:
        getattr(world, name)(*regions)
    found = {name: counted_sources(state.milestone, SOURCE) for name, state in world.states.items()}
    for name, state in world.states.items():
        assert {region for region, _ in state.events} <= {source.region for source in found[name]}
    for one in found:
        for other in found:
            if one < other and not counted_twice({name: found[name] for name in (one, other)}):
                assert not world.states[one].events & world.states[other].events

"""A list follows the line of a generation: held against writers that carry their whole list along with them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.driver.rejected_events import Choice, EventPosition, Letter, Listed, carried, choose
from cutwater.core.driver.rejected_events_by_lineage import Ancestry
from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from support.protocol_samples import milestone

FIRST = Generation(1, "local")
Entries = frozenset[tuple[EventPosition, Listed]]


@dataclass
class Writer:
    """One generation, with everything that it and those before it have listed."""

    generation: Generation
    read: int = 0
    epochs: int = 0
    attempt: int = 1
    entries: Entries = frozenset()
    newest: Milestone | None = None


@dataclass
class World:
    """One region: a source of endless events, both topics, and the dead-letter topic as compaction leaves it."""

    stream: list[Milestone] = field(default_factory=list)
    candidacies: list[Milestone | tuple[Generation, Milestone]] = field(default_factory=list)
    topic: dict[tuple[Generation, EventPosition], Letter] = field(default_factory=dict)
    writers: dict[Generation, Writer] = field(default_factory=lambda: {FIRST: Writer(FIRST)})
    at: dict[Milestone, Writer] = field(default_factory=dict)
    """How each milestone's writer was then."""
    replayed: dict[EventPosition, EventPosition] = field(default_factory=dict)

    @property
    def promoted(self) -> Generation:
        return self.stream[-1].generation if self.stream else FIRST

    def epoch(self, generation: Generation, rejected: list[bool]) -> None:
        """Read events, of which some cannot be used."""
        writer = self.writers[generation]
        by, places = self.list(generation, rejected)
        told = milestone(
            writer.epochs, generation=generation, attempt=by.attempt, rejected=len(places), sequence=0
        )
        writer.entries |= {(place, by) for place in places}
        writer.read, writer.epochs = writer.read + len(rejected), writer.epochs + 1
        if generation == self.promoted:
            self._write(writer, told)
        else:
            writer.newest = told
            self.candidacies.append(told)

    def killed(self, generation: Generation, rejected: list[bool]) -> None:
        """List what the next attempt may see otherwise, and come no further."""
        self.list(generation, rejected)
        self.writers[generation].attempt += 1

    def list(self, generation: Generation, rejected: list[bool]) -> tuple[Listed, list[EventPosition]]:
        writer = self.writers[generation]
        by = Listed(generation, writer.attempt, writer.epochs)
        places = [EventPosition("t", 0, writer.read + number) for number, one in enumerate(rejected) if one]
        for place in places:
            self.topic[generation, place] = Letter(place, by, "undecodable", None, 1, 0, None, (0, 0))
        return by, places

    def claim(self, parent: Milestone) -> None:
        before = self.at[parent]
        generation = Generation(len(self.writers) + 1, "local", f"{len(self.writers):08x}")
        self.writers[generation] = Writer(generation, before.read, entries=before.entries)
        self.candidacies.append((generation, parent))

    def promote(self, writer: Writer) -> None:
        assert writer.newest
        self._write(writer, writer.newest)

    def _write(self, writer: Writer, told: Milestone) -> None:
        made = replace(told, sequence=len(self.stream) + 1)
        self.stream.append(made)
        self.at[made] = replace(writer)

    def promotable(self) -> list[Writer]:
        number = self.promoted.number
        return [one for one in self.writers.values() if one.newest and one.generation.number > number]

    def replay(self) -> None:
        """Produce again what is shown as not produced again; no event may be so twice."""
        for letter in self.shown().entries:
            if letter.replayed is None:
                assert letter.event not in self.replayed
                self.replayed[letter.event] = EventPosition("t", 1, len(self.replayed))
                key = (letter.by.generation, letter.event)
                self.topic[key] = replace(self.topic[key], replayed=self.replayed[letter.event])

    def ancestry(self, milestones: int | None = None) -> Ancestry:
        """Of so many of the stream's first milestones, and of all candidacies."""
        found = Ancestry(lambda one: one.rejected)
        for one in self.stream[:milestones]:
            found.follow(one)
        for record in self.candidacies:
            if isinstance(record, Milestone):
                found.take(record)
            else:
                found.claim(*record)
        return found

    def shown(self, generation: Generation | None = None, milestones: int | None = None) -> Choice[Letter]:
        told, problems, elsewhere = self.ancestry(milestones).accounts(generation)
        found = choose([(one.by, one) for one in self.topic.values()], told)
        marks = {one.event: one.replayed for one in self.topic.values() if one.replayed}
        return Choice(carried(found.entries, marks), [*problems, *found.problems], elsewhere)


ACTS = ["epoch", "epoch", "epoch", "killed", "claim", "promote", "replay"]
BAD = st.lists(st.booleans(), max_size=4)


def entries(shown: Choice[Letter]) -> list[tuple[EventPosition, Listed]]:
    assert shown.problems == []
    return sorted((one.event, one.by) for one in shown.entries)


@given(st.data())
def test_each_generation_shows_just_what_its_own_line_has_listed(data: st.DataObject) -> None:
    """Claims from any milestone, promotions, roll-backs, replays, killed attempts: each list is its writer's."""
    world = World()
    world.epoch(FIRST, data.draw(BAD))
    for act in data.draw(st.lists(st.sampled_from(ACTS), max_size=30)):
        if act == "claim":
            world.claim(data.draw(st.sampled_from(world.stream)))
        elif act == "promote" and (able := world.promotable()):
            world.promote(data.draw(st.sampled_from(able)))
        elif act == "replay":
            world.replay()
        elif act in ("epoch", "killed"):
            able_to = [one for one in world.writers if one.number >= world.promoted.number]
            run = world.epoch if act == "epoch" else world.killed
            run(data.draw(st.sampled_from(able_to)), data.draw(BAD))
    for generation, writer in world.writers.items():
        shown = world.shown(generation)
        assert entries(shown) == sorted(writer.entries), generation
        assert {one.event: one.replayed for one in shown.entries} == {
            place: world.replayed.get(place) for place, _ in writer.entries
        }
    # Whoever looks reads the stream first: what comes meanwhile changes nothing.
    for number, one in enumerate(world.stream, 1):
        assert entries(world.shown(None, number)) == sorted(world.at[one].entries), one.token


def second() -> tuple[World, Generation]:
    """A first generation of three epochs, and a second one of two from its second milestone, promoted."""
    world = World()
    for _ in range(3):
        world.epoch(FIRST, [True])
    world.claim(world.stream[1])
    generation = list(world.writers)[-1]
    for _ in range(2):
        world.epoch(generation, [True])
    world.promote(world.writers[generation])
    world.epoch(generation, [True])
    return world, generation


def test_what_a_candidate_listed_before_its_promotion_counts_and_what_its_parent_did_later_does_not() -> None:
    world, _ = second()
    found = [(one.by.generation.number, one.by.epoch) for one in world.shown().entries]
    assert found == [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
    before = [(one.by.generation.number, one.by.epoch) for one in world.shown(FIRST).entries]
    assert before == [(1, 0), (1, 1), (1, 2)]


def test_milestones_and_claims_that_are_missing_are_named() -> None:
    """Nothing is left out in silence: an epoch that cannot be seen, a claim, another region's part."""
    world, generation = second()
    whole = world.candidacies
    world.candidacies = [one for one in whole if not (isinstance(one, Milestone) and one.epoch == 0)]
    assert world.shown().problems == [
        f"epoch 0 of {generation}: its milestone was not found; run the command again"
    ]
    world.candidacies = [one for one in whole if isinstance(one, Milestone)]
    assert world.shown().problems == [
        f"the claim of {generation} was not found: entries of earlier generations are unknown"
    ]
    mirrored = replace(world.stream[1], generation=Generation(1, "us"))
    world.candidacies = [(generation, mirrored), *whole[1:]]
    assert world.shown().elsewhere == [
        f"entries of region us up to epoch 1 of {mirrored.generation} are listed there, not here"
    ]


@pytest.mark.parametrize("pruned", range(1, 5))
def test_a_pruned_beginning_of_the_stream_is_not_missed(pruned: int) -> None:
    """Epochs without a milestone are no fault where the stream begins later, in either generation."""
    world, _ = second()
    del world.stream[:pruned]
    shown = world.shown()
    found = [(by.generation.number, by.epoch) for _, by in entries(shown)]
    assert sorted(found) == [*((1, epoch) for epoch in range(pruned, 2)), (2, 0), (2, 1), (2, 2)]
    first = world.stream[0].sequence
    assert shown.elsewhere == [
        f"entries listed before milestone {first} are left out: the commit stream now begins there"
    ]


def test_a_generation_that_nobody_knows_is_refused() -> None:
    world, generation = second()
    with pytest.raises(
        UsageError, match=f"g9-local-00000009 is not a generation of this job; known are: {FIRST}, "
    ):
        world.shown(Generation(9, "local", "00000009"))
    world.claim(world.stream[-1])
    candidate = list(world.writers)[-1]
    assert entries(world.shown(candidate)) == entries(world.shown(generation)), "it has no epoch of its own yet"


def test_before_the_first_milestone_there_is_nothing() -> None:
    assert Ancestry(lambda one: one.rejected).accounts() == ({}, [], [])


def test_a_job_that_comes_back_from_another_region_goes_on_with_what_was_listed_here_before() -> None:
    """Up to where the other region went on; what that listed stands there, what was listed here behind is none."""
    world = World()
    for _ in range(4):
        world.epoch(FIRST, [True])
    away = replace(world.stream[1], generation=Generation(2, "us", "00000002"), epoch=7, sequence=9)
    generation = Generation(3, "local", "00000009")
    found = Ancestry(lambda one: one.rejected)
    for one in world.stream:
        found.follow(one)
    found.claim(generation, away, home=2)
    found.follow(replace(world.stream[0], generation=generation, epoch=0, sequence=10, rewinds_to=2))
    told, problems, elsewhere = found.accounts()
    assert [(by.number, epoch) for by, epoch in told] == [(1, 0), (1, 1), (3, 0)]
    assert (problems, elsewhere) == (
        [],
        [f"entries of region us up to epoch 7 of {away.generation} are listed there, not here"],
    )


def test_a_job_that_another_region_has_begun_is_whole_there_from_its_first_epoch_on() -> None:
    """Nothing of its own is missed; what the other region listed is named."""
    world = World()
    world.epoch(FIRST, [True])
    here = Generation(2, "eu", "00000001")
    found = Ancestry(lambda one: one.rejected)
    found.follow(replace(world.stream[0], generation=here, epoch=1, sequence=2))
    found.claim(here, world.stream[0])
    found.take(replace(world.stream[0], generation=here, epoch=0))
    told, problems, elsewhere = found.accounts()
    assert sorted(told) == [(here, 0), (here, 1)]
    assert (problems, elsewhere) == (
        [],
        [f"entries of region local up to epoch 0 of {FIRST} are listed there, not here"],
    )


@pytest.mark.parametrize(
    ("arrived", "missing"), [([0, 1, 2], None), ([0, 2], 1), ([0, 3, 1], 2), ([2, 0, 1], None), ([2, 1, 0], None)]
)
def test_an_epoch_that_is_missing_in_between_is_named(arrived: list[int], missing: int | None) -> None:
    """In whatever order those around it were read."""
    world = World()
    world.epoch(FIRST, [])
    world.claim(world.stream[0])
    candidate = list(world.writers)[-1]
    found = world.ancestry()
    for epoch in arrived:
        found.take(milestone(epoch, generation=candidate))
    problems = found.accounts(candidate).problems
    assert problems == (
        []
        if missing is None
        else [f"epoch {missing} of {candidate}: its milestone was not found; run the command again"]
    )


def test_without_a_commit_stream_the_parents_epochs_are_missed_from_the_first_on() -> None:
    """A candidate is known by its own topic alone: what its parent listed is not."""
    found = Ancestry(lambda one: one.rejected)
    candidate = Generation(2, "local", "00000001")
    found.claim(candidate, milestone(0))
    found.take(milestone(0, generation=candidate))
    assert found.accounts(candidate).problems == [
        f"epoch 0 of {FIRST}: its milestone was not found; run the command again"
    ]

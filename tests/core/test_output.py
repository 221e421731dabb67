"""The publisher's position: wherever a publisher dies, a restart gives each part once, and every end adds up."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.cuts import Cut
from cutwater.core.output import End, Part, Published, after, ends, nothing
from cutwater.core.records import Milestone
from cutwater.core.restore import Entry, Jump, Step
from protocol_samples import GENERATION, JOB, milestone

PARTITIONS, FORM = 3, "updates avro"
PARTS = st.lists(st.lists(st.integers(0, 4), min_size=PARTITIONS, max_size=PARTITIONS), min_size=1, max_size=4)
MILESTONES = st.lists(PARTS, min_size=1, max_size=5)
"""Of each milestone the rows by partition, part by part."""


def stream(count: int) -> list[Milestone]:
    made: list[Milestone] = []
    for epoch in range(count):
        made.append(milestone(epoch, made[-1] if made else None))
    return made


@dataclass
class Log:
    """The output and the position: what committed transactions have left."""

    position: Published = field(default_factory=lambda: nothing(JOB, GENERATION, FORM))
    parts: list[tuple[int, int]] = field(default_factory=list)
    """(sequence, part) as they were written."""
    ends: list[list[End]] = field(default_factory=list)

    def commit(self, plan: Step | Jump, whole: Milestone | None, part: Part) -> None:
        """What one transaction of `OutputWriter.write` writes."""
        self.ends.append(ends(self.position, whole, plan, part, 99))
        self.parts.append((plan.to.milestone.sequence, self.position.parts))
        self.position = after(self.position, plan, part)


def publish(log: Log, milestones: list[Milestone], plans: list[list[list[int]]], dies_after: int) -> None:
    """A publisher's life: from the position in the log on, until it has written `dies_after` parts."""
    at = log.position
    published = int.from_bytes(at.milestone) if at.milestone else 0
    for number in range(published, len(milestones)):
        whole = milestones[number - 1] if number else None
        plan = Step(Entry(milestones[number], (number + 1).to_bytes(2), 10 * number))
        for index in range(log.position.parts, len(plans[number])):
            if dies_after == 0:
                return
            dies_after -= 1
            rows, last = plans[number][index], index == len(plans[number]) - 1
            log.commit(plan, whole, Part(rows, Cut.of_topic("changelog", [index + 1] * PARTITIONS), last))


@given(MILESTONES, st.lists(st.integers(0, 6), max_size=8))
def test_wherever_it_dies_each_part_is_written_once_and_in_order(
    plans: list[list[list[int]]], lives: list[int]
) -> None:
    """Any crash points and any number of restarts leave the very log of a publisher that never died."""
    milestones = stream(len(plans))
    undisturbed, crashed = Log(), Log()
    publish(undisturbed, milestones, plans, 1_000)
    for life in [*lives, 1_000]:
        publish(crashed, milestones, plans, life)
    assert crashed == undisturbed
    assert crashed.parts == [(at + 1, part) for at, parts in enumerate(plans) for part in range(len(parts))]


@given(MILESTONES)
def test_every_end_counts_the_rows_of_its_milestone_so_far(plans: list[list[list[int]]]) -> None:
    """Per partition the ends add up, only the last part is `last`, and sequences are contiguous."""
    log = Log()
    publish(log, stream(len(plans)), plans, 1_000)
    for number, (_, group) in enumerate(groupby(log.ends, key=lambda one: one[0].sequence)):
        found, sums = list(group), [0] * PARTITIONS
        for index, (written, rows) in enumerate(zip(found, plans[number], strict=True)):
            sums = [one + two for one, two in zip(sums, rows, strict=True)]
            assert [end.rows for end in written] == sums
            assert {(end.part, end.last) for end in written} == {(index, index == len(found) - 1)}
            assert {(end.first_sequence, end.sequence) for end in written} == {(number + 1, number + 1)}


@given(MILESTONES)
def test_a_whole_milestone_leaves_no_trace_of_its_parts(plans: list[list[list[int]]]) -> None:
    """Once the last part is written, target, parts, progress and rows are as at the beginning."""
    log = Log()
    publish(log, stream(len(plans)), plans, 1_000)
    at = log.position
    assert (at.target, at.parts, at.progress, at.rows) == (0, 0, Cut(), ())
    assert (at.milestone, at.stream_offset) == (len(plans).to_bytes(2), 10 * (len(plans) - 1))


@given(st.integers(0, 3), st.integers(1, 5))
def test_several_as_one_name_the_first_and_the_last(published: int, more: int) -> None:
    """A jump's ends say from where to where: nobody takes it for one milestone, or for a gap."""
    milestones = stream(published + more)
    whole = milestones[published - 1] if published else None
    plan = Jump(Entry(milestones[-1], b"record", 7))
    part = Part([1, 0, 2], Cut(), True)
    for end in ends(nothing(JOB, GENERATION, FORM), whole, plan, part, 99):
        assert (end.first_sequence, end.sequence) == (published + 1, published + more)

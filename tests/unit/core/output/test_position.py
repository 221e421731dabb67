"""The publisher's position: wherever a publisher dies, a restart gives each part once, and every end adds up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import DivergenceError, LostRecordsError, UsageError
from cutwater.core.output.handover import Handover
from cutwater.core.output.position import (
    End,
    MilestonePart,
    Published,
    Tail,
    after,
    applied,
    ends,
    nothing,
    require_agreement,
    require_mine,
    tail_of,
)
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry, Jump, Step
from support.protocol_samples import GENERATION, JOB, OTHER, milestone

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

    def commit(self, plan: Step | Jump, whole: Milestone | None, part: MilestonePart) -> None:
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
            log.commit(plan, whole, MilestonePart(rows, Cut.of_topic("changelog", [index + 1] * PARTITIONS), last))


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
    part = MilestonePart([1, 0, 2], Cut(), True)
    for end in ends(nothing(JOB, GENERATION, FORM), whole, plan, part, 99):
        assert (end.first_sequence, end.sequence) == (published + 1, published + more)


def test_only_a_hand_over_says_what_was_gone_back_behind() -> None:
    entry, part = Entry(milestone(4), b"record", 7), MilestonePart([1, 0, 2], Cut(), True)
    position = nothing(JOB, GENERATION, FORM)
    for plan, rewinds_to in ((Step(entry), 0), (Jump(entry), 0), (Handover(entry, 3), 3), (Handover(entry), 0)):
        assert {end.rewinds_to for end in ends(position, None, plan, part, 99)} == {rewinds_to}


@given(MILESTONES, st.integers(0, 20), st.integers(-2, 2), st.integers(0, PARTITIONS - 1))
def test_an_end_is_believed_with_all_its_rows_only(
    plans: list[list[list[int]]], dies_after: int, missing: int, where: int
) -> None:
    """Wherever a publisher stopped its output agrees with its position; a row too few or too many is named."""
    milestones, log = stream(len(plans)), Log()
    publish(log, milestones, plans, dies_after)
    tails = {number: None for number in range(PARTITIONS)}
    if log.ends:
        rows = [rows for parts in plans for rows in parts][len(log.ends) - 1]
        befores = log.ends[-2] if len(log.ends) > 1 else [None] * PARTITIONS
        tails = {at: tail_of(befores[at], log.ends[-1][at], rows[at]) for at in range(PARTITIONS)}
    whole = milestones[int.from_bytes(log.position.milestone) - 1] if log.position.milestone else None
    require_agreement(log.position, whole, tails, "output", "place")
    if log.ends and missing:
        tails[where] = tail_of(befores[where], log.ends[-1][where], rows[where] - missing)
        with pytest.raises(LostRecordsError, match=rf"output/{where} ends with .*: {missing} rows"):
            require_agreement(log.position, whole, tails, "output", "place")


def ended(sequence: int, part: int = 0, last: bool = True, rows: int = 4) -> End:
    return End(JOB, GENERATION, sequence, sequence, part, last, rows, 0, 0, 0)


def whole_at(sequence: int) -> Published:
    return replace(nothing(JOB, GENERATION, FORM), milestone=b"record", stream_offset=sequence)


@pytest.mark.parametrize(
    ("said", "found", "why"),
    [
        ((2, 0), ended(2), ""),
        ((2, 0), ended(1), "output/1 has lost its end, which place still has"),
        ((2, 0), None, "output/1 has lost its end, which place still has"),
        ((2, 0), ended(3), "place has lost its end, which output/1 still has"),
        ((2, 0), ended(3, 0, False), "place has lost its end, which output/1 still has"),
        ((2, 0), ended(2, 1, False), "output/1 has lost its end, which place still has"),
        ((2, 1), ended(3, 0, False), ""),
        ((2, 2), ended(3, 0, False), "output/1 has lost its end, which place still has"),
        ((2, 1), ended(3, 1, False), "place has lost its end, which output/1 still has"),
        ((2, 1), ended(2), "output/1 has lost its end, which place still has"),
        ((2, 1), ended(3, 1), "place has lost its end, which output/1 still has"),
        ((0, 0), None, ""),
        ((0, 0), ended(1), "place has lost its end, which output/1 still has"),
        ((0, 1), ended(1, 0, False), ""),
        ((0, 1), None, "output/1 has lost its end, which place still has"),
    ],
)
def test_output_and_position_say_the_same(said: tuple[int, int], found: End | None, why: str) -> None:
    """Or one of them has lost its end, and which one is named: by milestone, and by part within one."""
    sequence, parts = said
    position = whole_at(sequence)
    if parts:
        position = replace(position, target=sequence + 1, parts=parts)
    published = milestone(sequence - 1, sequence=sequence) if sequence else None
    tails = {0: Tail(ended(sequence), 0), 1: Tail(found, 0) if found else None}
    if not why:
        tails[0] = tails[1]
        require_agreement(position, published, tails, "output", "place")
        return
    with pytest.raises(LostRecordsError, match=why):
        require_agreement(position, published, {1: tails[1]}, "output", "place")


def test_what_each_says_is_named() -> None:
    """Milestones by sequence, parts by number from 1 on, and nothing as that."""
    at = replace(whole_at(2), target=3, parts=2)
    with pytest.raises(LostRecordsError) as said:
        require_agreement(at, milestone(1, sequence=2), {0: None}, "output", "place")
    assert (
        "output/0 ends with nothing, but the publisher's position on place is after part 2 of sequence 3"
        in str(said.value)
    )
    tail = Tail(ended(3, 0, False), 0)
    with pytest.raises(LostRecordsError, match=r"ends with part 1 of sequence 3, .* after sequence 2:"):
        require_agreement(whole_at(2), milestone(1, sequence=2), {0: tail}, "output", "place")


@pytest.mark.parametrize(("missing", "named"), [(1, "1 rows"), (-2, "-2 rows"), (0, "")])
def test_rows_in_front_of_the_end_are_counted(missing: int, named: str) -> None:
    tails = {0: Tail(ended(2), missing)}
    if not named:
        require_agreement(whole_at(2), milestone(1, sequence=2), tails, "output", "place")
        return
    with pytest.raises(LostRecordsError, match=f"{named} before that are missing or too many: output/0"):
        require_agreement(whole_at(2), milestone(1, sequence=2), tails, "output", "place")


def test_a_tail_counts_from_the_end_marker_before() -> None:
    """End markers of parts add up; of the first part, and of one without a part, nothing stands before."""
    assert tail_of(None, ended(2, rows=4), 4).missing == 0
    assert tail_of(ended(1, rows=9), ended(2, rows=4), 3).missing == 1
    assert tail_of(ended(2, 0, False, 3), ended(2, 1, True, 4), 1).missing == 0
    assert tail_of(None, ended(2, 1, True, 4), 1).missing == 3


def test_another_jobs_or_another_forms_output_is_refused() -> None:
    """Of another generation it is gone on with."""
    mine = nothing(JOB, GENERATION, FORM)
    require_mine(replace(mine, generation=OTHER), mine, "output", "place")
    with pytest.raises(DivergenceError, match=f"was written for job other, but this publisher is of {JOB}"):
        require_mine(replace(mine, job="other"), mine, "output", "place")
    with pytest.raises(UsageError, match=r"output holds 'final avro' .* says 'updates avro'.* output and place"):
        require_mine(replace(mine, form="final avro"), mine, "output", "place")


def test_the_same_place_is_up_to_the_part() -> None:
    at = replace(whole_at(2), target=3, parts=2)
    assert at.same_place(replace(at, rows=(9,), closed_ms=7, generation=OTHER))
    for other in ({"milestone": b"other"}, {"target": 4}, {"parts": 1}):
        assert not at.same_place(replace(at, **other))  # type: ignore[arg-type]


def test_what_was_closed_stays_closed() -> None:
    """Also behind a rewind, whose milestone has a lower watermark; parts change nothing of it."""
    plan = Step(Entry(milestone(1, watermark_ms=50), b"record", 8))
    before = replace(nothing(JOB, GENERATION, FORM), closed_ms=70)
    whole = after(before, plan, MilestonePart([1], Cut(), True))
    assert (whole.closed_ms, whole.milestone, whole.stream_offset) == (70, b"record", 8)
    assert after(replace(before, closed_ms=20), plan, MilestonePart([1], Cut(), True)).closed_ms == 50
    assert after(replace(before, closed_ms=20), plan, MilestonePart([1], Cut(), False)).closed_ms == 20


def test_the_published_milestone_is_where_to_go_on() -> None:
    published = milestone(1)
    assert applied(whole_at(2), published) == Entry(published, b"record", 2)
    assert applied(nothing(JOB, GENERATION, FORM), None) is None


def test_before_the_first_milestone_nothing_is_published_and_nothing_begun() -> None:
    at = nothing(JOB, GENERATION, FORM)
    assert (at.milestone, at.stream_offset, at.target, at.parts, at.rows) == (b"", 0, 0, 0, ())


def test_an_end_goes_back_behind_nothing_unless_it_says_so() -> None:
    end = End(JOB, GENERATION, 3, 3, 0, True, 9, 50, 60, 70)
    assert tail_of(None, end, 9) == Tail(replace(end, rewinds_to=0), 0)

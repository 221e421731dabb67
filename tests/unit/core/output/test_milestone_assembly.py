"""Which rows make a milestone: however the partitions arrive, it comes whole or not at all, and in order."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import DivergenceError
from cutwater.core.output.milestone_assembly import Grouping
from cutwater.core.output.position import End
from cutwater.core.protocol.generation import Generation

GENERATION = Generation(1, "local")


class Row(NamedTuple):
    value: bytes


Record = Row | End


def end(first: int, sequence: int, rows: int, part: int = 0, last: bool = True) -> End:
    return End("job", GENERATION, first, sequence, part, last, rows, 0, 0, 0)


class Output(NamedTuple):
    """What a publisher wrote: per partition its records, and the rows of each milestone."""

    partitions: list[list[Record]]
    milestones: list[tuple[int, int, list[bytes]]]
    """(first sequence, sequence, rows), in order."""


@st.composite
def outputs(draw: st.DrawFn) -> Output:
    """Any milestones, some of several published as one, some split into parts, some empty."""
    count = draw(st.integers(1, 4))
    partitions: list[list[Record]] = [[] for _ in range(count)]
    milestones = []
    sequence = 0
    for _ in range(draw(st.integers(1, 5))):
        first, sequence = sequence + 1, sequence + draw(st.integers(1, 3))
        written: list[list[bytes]] = [[] for _ in range(count)]
        parts = draw(st.integers(1, 3))
        for part in range(parts):
            for partition in range(count):
                for _ in range(draw(st.integers(0, 2))):
                    value = f"{sequence}/{partition}/{len(written[partition])}".encode()
                    written[partition].append(value)
                    partitions[partition].append(Row(value))
                rows, last = len(written[partition]), part == parts - 1
                partitions[partition].append(end(first, sequence, rows, part, last))
        milestones.append((first, sequence, [value for values in written for value in values]))
    return Output(partitions, milestones)


def read(
    draw: st.DrawFn, grouping: Grouping, partitions: list[list[Record]]
) -> list[tuple[int, int, list[bytes]]]:
    """Feed the partitions in any interleaving; what comes out, in order."""
    left, found = [list(one) for one in partitions], []
    while open_ones := [number for number, one in enumerate(left) if one]:
        number = draw(st.sampled_from(open_ones))
        record = left[number].pop(0)
        if isinstance(record, Row):
            grouping.row(number, record.value)
        else:
            grouping.end(number, record)
        while whole := grouping.next_complete():
            found.append((whole[0].first_sequence, whole[0].sequence, whole[1]))
    return found


@given(outputs(), st.data())
def test_any_interleaving_gives_every_milestone_whole_and_in_order(output: Output, data: st.DataObject) -> None:
    """Each milestone once, with all its rows and no other, whatever comes first; nothing is held back."""
    grouping = Grouping(len(output.partitions))
    assert read(data.draw, grouping, output.partitions) == output.milestones
    assert grouping.held == 0


@given(outputs(), st.data())
def test_a_milestone_that_a_partition_has_not_ended_does_not_come(output: Output, data: st.DataObject) -> None:
    """With one partition cut off anywhere at its end, what comes is a beginning of the milestones: no half one."""
    number = data.draw(st.integers(0, len(output.partitions) - 1))
    kept = data.draw(st.integers(0, len(output.partitions[number]) - 1))
    short = [list(one) for one in output.partitions]
    short[number] = short[number][:kept]
    ended = [one.sequence for one in short[number] if isinstance(one, End) and one.last]
    found = read(data.draw, Grouping(len(short)), short)
    assert found == [one for one in output.milestones if one[1] in ended]


@given(outputs(), st.data())
def test_where_retention_took_the_beginning_only_whole_milestones_come(
    output: Output, data: st.DataObject
) -> None:
    """Each partition may begin anywhere: what comes are the milestones that every partition still has whole."""
    starts = [data.draw(st.integers(0, len(one))) for one in output.partitions]
    kept = [one[start:] for one, start in zip(output.partitions, starts, strict=True)]
    cut_off = [number for number, start in enumerate(starts) if start]
    found = read(data.draw, Grouping(len(kept), cut_off), kept)
    for milestone in found:
        assert milestone in output.milestones
    whole = [one for one in output.milestones if all(_holds(part, one) for part in _by_partition(kept, one))]
    assert found == whole


@given(outputs(), st.data())
def test_a_reader_that_resumes_gets_what_follows_its_token(output: Output, data: st.DataObject) -> None:
    """Behind the end of any milestone: exactly the later ones."""
    at = data.draw(st.integers(0, len(output.milestones) - 1))
    token = output.milestones[at][1]
    rest = []
    for one in output.partitions:
        ended = next(i for i, rec in enumerate(one) if isinstance(rec, End) and rec.last and rec.sequence == token)
        rest.append(one[ended + 1 :])
    assert read(data.draw, Grouping(len(rest), after=token), rest) == output.milestones[at + 1 :]


@given(outputs(), st.data())
def test_a_row_lost_or_added_is_never_passed_on(output: Output, data: st.DataObject) -> None:
    """Whatever row of a partition that is whole from its beginning on goes missing, or comes twice: an error."""
    places = [
        (n, i) for n, one in enumerate(output.partitions) for i, rec in enumerate(one) if isinstance(rec, Row)
    ]
    if not places:
        return
    number, index = data.draw(st.sampled_from(places))
    wrong = [list(one) for one in output.partitions]
    wrong[number][index : index + 1] = [wrong[number][index]] * data.draw(st.sampled_from([0, 2]))
    with pytest.raises(DivergenceError, match="records were lost or added"):
        read(data.draw, Grouping(len(wrong)), wrong)


@given(outputs(), st.data())
def test_behind_the_first_end_a_cut_off_partition_is_as_strict(output: Output, data: st.DataObject) -> None:
    """Only what retention can have taken is forgiven: a row lost after a whole milestone is an error there too."""
    places = []
    for number, one in enumerate(output.partitions):
        ended = next(index for index, rec in enumerate(one) if isinstance(rec, End) and rec.last)
        places += [(number, index) for index, rec in enumerate(one) if index > ended and isinstance(rec, Row)]
    if not places:
        return
    number, index = data.draw(st.sampled_from(places))
    wrong = [list(one) for one in output.partitions]
    del wrong[number][index]
    with pytest.raises(DivergenceError, match="records were lost or added"):
        read(data.draw, Grouping(len(wrong), range(len(wrong))), wrong)


@given(outputs(), st.data())
def test_a_milestone_lost_is_a_gap(output: Output, data: st.DataObject) -> None:
    """All records of one milestone gone from every partition, between two others: an error, no silent step."""
    if len(output.milestones) < 3:
        return
    lost = data.draw(st.integers(1, len(output.milestones) - 2))
    sequence = output.milestones[lost][1]
    wrong = [[rec for rec in one if _sequence(rec) != sequence] for one in output.partitions]
    with pytest.raises(DivergenceError, match="a gap"):
        read(data.draw, Grouping(len(wrong)), wrong)


def _sequence(record: Record) -> int:
    return record.sequence if isinstance(record, End) else int(record.value.split(b"/")[0])


def _by_partition(
    kept: list[list[Record]], milestone: tuple[int, int, list[bytes]]
) -> list[tuple[int, list[Record]]]:
    return [(number, [rec for rec in one if _sequence(rec) == milestone[1]]) for number, one in enumerate(kept)]


def _holds(part: tuple[int, list[Record]], milestone: tuple[int, int, list[bytes]]) -> bool:
    """Has a partition the end of a milestone, and all of its rows that belong there?"""
    number, records = part
    rows = [one.value for one in records if isinstance(one, Row)]
    wanted = [one for one in milestone[2] if one.split(b"/")[1] == str(number).encode()]
    return rows == wanted and any(isinstance(one, End) and one.last for one in records)


def test_rows_in_front_of_where_reading_began_are_held_no_longer() -> None:
    """What is left out of a milestone that is cut off takes no memory."""
    grouping = Grouping(1, [0])
    grouping.row(0, b"the end of a milestone")
    assert grouping.held == 1
    grouping.end(0, end(1, 1, 5))
    assert grouping.held == 0
    assert not grouping.ahead(0)

"""Which milestones a cut of an output contains, against a count of the records below it."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.output.lineage import Contained, Reach, contained
from cutwater.core.output.position import End
from cutwater.core.protocol.generation import Generation, Token

GENERATION = Generation(1, "local")


class Record(NamedTuple):
    sequence: int
    ends: bool
    """Whether it is the milestone's last marker in its partition."""


def end(sequence: int) -> End:
    return End("up", GENERATION, sequence, sequence, 0, True, 1, 0, 0, 0)


def token(sequence: int) -> Token | None:
    return Token(GENERATION, sequence) if sequence else None


def reach(log: list[Record], cut: int) -> Reach:
    """By the records on both sides of the cut."""
    ended = max((one.sequence for one in log[:cut] if one.ends), default=0)
    inside = cut > 0 and not log[cut - 1].ends
    return Reach(end(ended) if ended else None, end(log[cut - 1].sequence) if inside else None)


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[list[Record], int]]:
    """Partitions, each with rows and a marker of every milestone, and a cut in each."""
    milestones = draw(st.integers(0, 5))
    found = []
    for _ in range(draw(st.integers(1, 4))):
        log: list[Record] = []
        for sequence in range(1, milestones + 1):
            log += [Record(sequence, False)] * draw(st.integers(0, 3)) + [Record(sequence, True)]
        found.append((log, draw(st.integers(0, len(log)))))
    return found


@given(logs())
def test_whole_and_partly_are_by_the_records_below_the_cut(partitions: list[tuple[list[Record], int]]) -> None:
    """Whole: none of its records is above the cut. Partly: one is below it."""
    below = {one.sequence for log, cut in partitions for one in log[:cut]}
    above = {one.sequence for log, cut in partitions for one in log[cut:]}
    found = contained(reach(log, cut) for log, cut in partitions)
    assert found == Contained(token(max(below - above, default=0)), token(max(below, default=0)))


def test_nothing_is_contained_of_nothing() -> None:
    assert contained([]) == Contained(None, None)
    assert contained([Reach(None), Reach(None)]) == Contained(None, None)


def test_a_milestone_that_one_partition_lacks_is_contained_in_part() -> None:
    """Also if it is the first: then none is whole."""
    assert contained([Reach(end(1)), Reach(None)]) == Contained(None, token(1))
    assert contained([Reach(end(2)), Reach(end(1), end(2))]) == Contained(token(1), token(2))
    assert contained([Reach(end(3)), Reach(end(3))]) == Contained(token(3), token(3))

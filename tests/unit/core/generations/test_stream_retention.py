"""What may be cut off the beginning of a commit stream: nothing that somebody begins with, or is told by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.generations.stream_retention import LEAST, ClaimStart, Need, Stream, barriers_floor, floor
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone, Release
from unit.core.state.test_backlog import chain

FIRST = chain(1)[0].milestone
LAST = 1_000


def one(sequence: int, number: int = 1) -> Milestone:
    """Committed at its own number, when the barriers topic was read to ten times that."""
    return replace(
        FIRST,
        generation=Generation(number, "local"),
        sequence=sequence,
        committed_ms=sequence,
        barriers_position=10 * sequence,
    )


def stream(firsts: Sequence[int] = (1,), cutoff_ms: int = 600) -> Stream:
    """Milestones up to LAST; a generation begins at each of `firsts`."""
    made = Stream(cutoff_ms)
    for number, (begin, end) in enumerate(pairwise([*firsts, LAST + 1]), 1):
        for sequence in range(begin, end):
            made.take(one(sequence, number))
    return made


def begun(number: int, back: int, abroad: bool = False, coming: bool = False) -> ClaimStart:
    return ClaimStart(Generation(number, "local"), back, abroad, coming)


def kept_from(made: Stream, *claims: ClaimStart, listed: Sequence[int] = (), needs: Sequence[Need] = ()) -> int:
    every = [*made.needs([Generation(number, "local") for number in listed], claims), *needs]
    return floor(made, every, claims).sequence


def test_the_oldest_of_all_that_is_needed_stays() -> None:
    """Of before the time, of the newest hundred, of a listed generation, a candidate or a reader."""
    assert kept_from(stream()) == 599
    assert kept_from(stream(cutoff_ms=LAST)) == LAST - LEAST + 1
    assert kept_from(stream(cutoff_ms=0)) == 1
    assert kept_from(stream([1, 300])) == 599
    assert kept_from(stream([1, 300]), listed=[1, 2]) == 299
    assert kept_from(stream(), begun(2, 70, coming=True)) == 70
    assert kept_from(stream(), begun(2, 70)) == 599, "it was given up"
    assert kept_from(stream(), needs=[Need(5, "somebody")]) == 5


def test_nothing_goes_of_a_job_that_rests_or_was_released() -> None:
    """Another region may hold a line that begins there, and would be compared with it."""
    made = stream()
    assert made.rests == ""
    made.take(Release("job", FIRST.generation, LAST, "eu", 0))
    assert "released" in made.rests
    assert "is idle or abandoned" in stream(cutoff_ms=LAST + 1).rests
    assert "no milestone" in Stream(0).rests


def test_a_single_milestone_within_the_time_does_not_rest() -> None:
    """Of before the time there is none, so the first is not it."""
    made = Stream(0)
    made.take(one(1))
    assert (made.before, made.rests) == (0, "")


def test_what_a_line_continues_stays_where_its_first_milestone_is_the_first_that_stays() -> None:
    """One later, and the line cannot be told any more anyway."""
    made, claims = stream([1, 300]), [begun(2, 70)]
    assert floor(made, [Need(300, "somebody")], claims).sequence == 70
    assert floor(made, [Need(301, "somebody")], claims).sequence == 301


@given(st.data())
def test_the_line_of_every_generation_that_begins_behind_can_be_told(data: st.DataObject) -> None:
    """Where the first milestone of a generation stays, that which it was started from does."""
    starts = [1, *sorted(data.draw(st.sets(st.integers(2, LAST), max_size=5)))]
    claims = [
        begun(number, data.draw(st.integers(0, first - 1))) for number, first in enumerate(starts, 1) if number > 1
    ]
    made = stream(starts)
    least = floor(made, [Need(data.draw(st.integers(1, LAST)), "somebody")], claims)
    backs = {one.back for one in claims if made.firsts[one.generation].sequence >= least.sequence}
    assert all(back >= least.sequence for back in backs - {0})
    assert least.who == "somebody" or least.sequence in backs


def test_the_barriers_of_all_milestones_that_stay_lie_behind() -> None:
    """The last that goes had read so far. One that began with another region's state begins with any there are."""
    made, removed = stream([1, 700]), one(598)
    first = Need(599, "")
    assert barriers_floor(removed, made, first, [begun(2, 650)]) == 5_980
    assert barriers_floor(None, made, first, []) == 0
    assert barriers_floor(removed, made, first, [begun(2, 0, abroad=True)]) == 0
    assert barriers_floor(removed, made, first, [begun(3, 0, abroad=True, coming=True)]) == 0
    assert barriers_floor(removed, made, first, [begun(3, 0, abroad=True)]) == 5_980, "it was given up"
    assert barriers_floor(removed, made, Need(701, ""), [begun(2, 0, abroad=True)]) == 5_980

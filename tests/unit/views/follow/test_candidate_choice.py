"""What a reader says of a candidate whose rows it loads ahead: when its first load begins, and how it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
import structlog

from cutwater.adapters.avro import protocol_records
from cutwater.core.errors import CutwaterError, DivergenceError
from cutwater.core.generations.candidates import Candidate, fold_candidates
from cutwater.core.pacing.reader_loads import GIVEN_UP, LOADED, LOADING
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Milestone
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.follow.preload import CandidateChoice
from support.protocol_samples import JOB, milestone

SECOND, THIRD = (Generation(number, "local", f"{number:08x}") for number in (2, 3))
BEHIND = milestone(5)


class Reader:
    """Loads nothing, and may fail."""

    def __init__(self) -> None:
        self.failure: CutwaterError | Stopped | None = None
        self.said: list[tuple[Generation, str, int]] = []
        self._choice = CandidateChoice(
            lambda _: None, self._load, structlog.get_logger(), lambda *told: self.said.append(told)
        )

    def look(self, *own: Milestone) -> None:
        """With candidates that have these milestones."""
        claims = [Claim(JOB, one.generation, protocol_records.encode(BEHIND), 3, 0, "why", 0) for one in own]
        self._choice.load_next(fold_candidates([*claims, *own]), BEHIND)

    def _load(self, _candidate: Candidate, _milestone: Milestone) -> None:
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def reader() -> Reader:
    return Reader()


def own(generation: Generation, epoch: int) -> Milestone:
    return replace(milestone(epoch), generation=generation)


def test_the_first_load_is_reported_and_no_later_one(reader: Reader) -> None:
    for epoch in (0, 1, 2):
        reader.look(own(SECOND, epoch))
    assert reader.said == [(SECOND, LOADING, 0), (SECOND, LOADED, 0)]


def test_a_load_that_was_stopped_has_not_ended(reader: Reader) -> None:
    """It goes on with the next look."""
    reader.failure = Stopped()
    reader.look(own(SECOND, 0))
    reader.look(own(SECOND, 1))
    assert reader.said == [(SECOND, LOADING, 0)]
    reader.failure = None
    reader.look(own(SECOND, 2))
    assert reader.said[1:] == [(SECOND, LOADED, 2)]


def test_who_gives_up_says_so(reader: Reader) -> None:
    """And does not begin again."""
    reader.failure = DivergenceError("other rows")
    reader.look(own(SECOND, 0))
    reader.failure = None
    reader.look(own(SECOND, 1))
    assert reader.said == [(SECOND, LOADING, 0), (SECOND, GIVEN_UP, 0)]


def test_each_candidate_is_reported(reader: Reader) -> None:
    reader.look(own(SECOND, 0))
    reader.look(own(THIRD, 4))
    assert reader.said[2:] == [(THIRD, LOADING, 4), (THIRD, LOADED, 4)]

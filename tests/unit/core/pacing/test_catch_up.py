"""How far a candidate is behind, how fast it comes nearer, and when it will be there: plain values."""

from __future__ import annotations

from dataclasses import replace

from cutwater.core.generations.candidates import Candidate, fold_candidates
from cutwater.core.pacing.catch_up import Approach, approach
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Milestone
from support.protocol_samples import JOB, milestone

SECOND = Generation(2, "local", "00000002")
CLAIM = Claim(JOB, SECOND, b"", 2, 0, "", 0)


def at(second: int, read: int, epoch: int = 0, **changes: object) -> Milestone:
    cut = Cut.of_topic("events", [read, read])
    return replace(milestone(epoch), source_cut=cut, committed_ms=second * 1000, **changes)  # type: ignore[arg-type]


def own(second: int, read: int, epoch: int) -> Milestone:
    return at(second, read, epoch, generation=SECOND)


def candidate(*milestones: Milestone) -> Candidate:
    return fold_candidates([CLAIM, *milestones]).require(SECOND)


PARENT, LAST = at(0, 1_000), at(100, 6_000)


def test_by_its_last_two_milestones_and_what_comes_meanwhile() -> None:
    """It reads 400 events/s and 100 come: 6,000 are left, and those are read in 20 s."""
    found = approach(candidate(own(80, 1_000, 0), own(90, 1_000, 1), own(100, 3_000, 2)), PARENT, LAST)
    assert found == Approach(6_000, 400.0, 100.0)
    assert found.left_s == 20
    assert str(found) == "it reads 400 events/s and 100 arrive: about 20 s left"


def test_one_that_is_as_slow_as_what_comes_never_arrives() -> None:
    """It says so instead of a time."""
    found = approach(candidate(own(90, 2_500, 1), own(100, 3_000, 2)), PARENT, LAST)
    assert found is not None
    assert found.left_s is None
    assert str(found).endswith("it does not catch up")


def test_nothing_is_said_without_two_milestones_or_anything_left() -> None:
    """Nor of a milestone that is said twice, of a moment, or of a rollback, which reaches nobody."""
    assert approach(candidate(), PARENT, LAST) is None
    assert approach(candidate(own(90, 2_000, 1)), PARENT, LAST) is None
    assert approach(candidate(own(90, 2_000, 1), own(95, 2_000, 1)), PARENT, LAST) is None
    assert approach(candidate(own(90, 2_000, 1), own(90, 3_000, 2)), PARENT, LAST) is None
    assert approach(candidate(own(90, 2_000, 1), own(95, 6_000, 2)), PARENT, LAST) is None
    both = candidate(own(90, 2_000, 1), own(100, 3_000, 2))
    assert approach(replace(both, claim=replace(CLAIM, rewinds_to=3)), PARENT, LAST) is None
    assert approach(both, LAST, LAST) == Approach(6_000, 200.0, 0.0)

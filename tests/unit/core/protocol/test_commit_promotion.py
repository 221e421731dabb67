"""The first milestone of a promoted generation, and what else a signaller keeps when it begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.core.errors import FencedError, ProtocolError
from cutwater.core.protocol.chain import ROOT_HASH
from cutwater.core.protocol.commit import Fact, Phase, SignalState, advance, promote, resume
from support.protocol_samples import (
    FRESH,
    GENERATION,
    JOB,
    OTHER,
    barrier,
    committed,
    hash_of,
    heartbeat,
    milestone,
    run,
    start,
)


def test_a_candidates_newest_milestone_is_told_again_behind_the_last() -> None:
    """Numbered on from it and chained to it, and all else as it was told before."""
    own, last = milestone(4, generation=OTHER, sequence=3), milestone(7, sequence=8)
    before = replace(FRESH, generation=OTHER, last=own, last_hash=hash_of(own), attempt=2)
    after, first = promote(before, last, 5, 77, hash_of)
    assert (first.sequence, first.parent_hash, first.committed_ms, first.rewinds_to) == (9, hash_of(last), 77, 5)
    assert (
        replace(first, sequence=3, parent_hash=own.parent_hash, committed_ms=own.committed_ms, rewinds_to=0) == own
    )
    assert after == replace(before, last=first, last_hash=hash_of(first))


def test_without_a_milestone_there_is_nothing_to_promote() -> None:
    with pytest.raises(ProtocolError, match="has no milestone to be promoted with"):
        promote(FRESH, milestone(7), 0, 77, hash_of)


def test_a_restart_knows_the_newest_of_its_generation() -> None:
    """Attempt, hash and heartbeat; what stands there of the generation before says nothing of it."""
    first = milestone(0, milestone(7, generation=OTHER, sequence=8), attempt=3, sequence=9)
    beat = heartbeat(0, 123)
    tail = [milestone(7, generation=OTHER, sequence=8), heartbeat(7, 999, generation=OTHER), first, beat]
    state = resume(JOB, GENERATION, tail, hash_of)
    assert state == SignalState(JOB, GENERATION, 3, first, hash_of(first), None, 123)
    assert (state.last_epoch, state.position) == (0, first.barriers_position)


def test_of_a_generation_that_was_not_promoted_nothing_is_known() -> None:
    """Its own milestones are numbered from 0 on, whatever stands on the stream."""
    with pytest.raises(FencedError, match=f"the promoted generation is {OTHER}, not {GENERATION}"):
        resume(JOB, GENERATION, [milestone(0), milestone(1, generation=OTHER)], hash_of)
    assert replace(FRESH, last=milestone(7, generation=OTHER)).last_epoch == -1
    assert FRESH.last_epoch == -1
    assert replace(FRESH, begin=40).position == 40
    assert (FRESH.last_hash, FRESH.prepared, FRESH.heartbeat_ms, FRESH.position) == (ROOT_HASH, None, 0, 0)


def test_a_promoted_generation_goes_on_behind_its_first() -> None:
    """Sequence and hash follow the first one; its epochs go on where the candidate was."""
    own = milestone(4, sequence=3)
    before = replace(FRESH, last=own, last_hash=hash_of(own), attempt=1)
    state, first = promote(before, milestone(7, generation=OTHER, sequence=8), 0, 77, hash_of)
    after, written = run(barrier(5), committed(5), state=state)
    (made,) = written
    assert (made.sequence, made.parent_hash, made.epoch) == (10, hash_of(first), 5)  # type: ignore[union-attr]
    assert after.last == made


@pytest.mark.parametrize("phase", [Phase.OPEN])
def test_what_was_never_told_cannot_be_confirmed(phase: Phase) -> None:
    with pytest.raises(ProtocolError, match="unexpected for an epoch that is open: the commit log holds it"):
        advance(phase, Fact.CONFIRMED)


def test_barriers_that_are_missing_are_told_with_the_newest() -> None:
    """By a prepared one, else by the newest milestone."""
    with pytest.raises(
        ProtocolError, match=r"epoch 4: .*; the newest barrier is of epoch 1, so barriers are missing"
    ):
        run(barrier(0), barrier(1), committed(4))
    with pytest.raises(ProtocolError, match="the newest barrier is of epoch 0"):
        run(barrier(0), committed(0), committed(4))


def test_attempts_only_grow() -> None:
    """A start of before says nothing; a barrier of a later attempt is heard without its start."""
    state, _ = run(barrier(0, attempt=3))
    assert state.attempt == 3
    assert run(barrier(1, attempt=2), state=state) == (state, [])
    assert run(start(2), state=state)[0].attempt == 3
    assert run(start(5), state=state)[0].attempt == 5

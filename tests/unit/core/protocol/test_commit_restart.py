"""Heartbeats and restarts: a signaller that dies anywhere goes on without a gap or a repeat."""

from __future__ import annotations

import pytest

from cutwater.core.errors import FencedError
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.commit import resume
from cutwater.core.protocol.records import Heartbeat, Milestone, Release, Signal
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
    told,
)


def test_heartbeats_speak_of_the_newest_milestone_only() -> None:
    """Not of an older one, and none before the first barrier; of a prepared one it is the confirmation."""
    _, written = run(
        start(1),
        heartbeat(0, 1),
        barrier(0),
        heartbeat(0, 2),
        committed(0),
        heartbeat(0, 3),
        barrier(1),
        heartbeat(1, 4),
        heartbeat(0, 5),
        committed(1),
        heartbeat(0, 6),
        heartbeat(1, 7),
    )
    assert [(one.epoch, one.at_ms) for one in written if isinstance(one, Heartbeat)] == [
        (0, 2),
        (0, 3),
        (1, 4),
        (1, 7),
    ]
    assert [one.epoch for one in written if isinstance(one, Milestone)] == [0, 1]


def test_an_idle_jobs_last_epoch_needs_no_hint() -> None:
    """A heartbeat of the prepared epoch commits it, in one write with the heartbeat; a restart repeats neither."""
    _, written = run(start(1), barrier(0), heartbeat(0, 5))
    assert [type(one) for one in written] == [Milestone, Heartbeat]
    again = resume(JOB, GENERATION, written, hash_of)
    assert run(heartbeat(0, 5), state=again, at=again.position)[1] == []


def test_a_heartbeat_is_never_written_twice() -> None:
    """Not when it is repeated, nor when a restarted signaller reads it again; time never goes back."""
    _, written = run(barrier(0), committed(0), heartbeat(0, 7), heartbeat(0, 7), heartbeat(0, 6))
    assert [one.at_ms for one in written if isinstance(one, Heartbeat)] == [7]
    again = resume(JOB, GENERATION, written, hash_of)
    assert again.position == 3, "the heartbeat, at offset 4, is read again"
    assert run(heartbeat(0, 7), heartbeat(0, 8), state=again, at=4)[1] == [heartbeat(0, 8)]


def test_a_signaller_of_a_generation_that_is_not_promoted_leaves() -> None:
    """The stream's newest milestone is of another generation: going on would make two owners."""
    with pytest.raises(FencedError, match="the promoted generation is g2-local-0badcafe, not g1-local-00000000"):
        resume(JOB, GENERATION, [milestone(0, generation=OTHER)], hash_of)


def test_a_generation_that_was_released_leaves() -> None:
    """Another region goes on from its last milestone: nothing of it may follow there."""
    last = milestone(0)
    released = Release(JOB, GENERATION, last.sequence, "eu", 7)
    with pytest.raises(FencedError, match=rf"was released to region eu after milestone {last.token}, so nothing"):
        resume(JOB, GENERATION, [last, released], hash_of)
    before = Release(JOB, OTHER, 1, "eu", 7)
    assert resume(JOB, GENERATION, [before, last], hash_of).last == last, "another one's"


def test_an_empty_stream_begins_at_the_beginning() -> None:
    """Nothing written yet: position 0, no epoch, no attempt."""
    assert resume(JOB, GENERATION, [], hash_of) == FRESH
    assert (FRESH.position, FRESH.last_epoch, FRESH.attempt) == (0, -1, 0)


LONG: list[Signal] = [
    start(1),
    barrier(0),
    barrier(1),
    committed(1),
    heartbeat(1, 10),
    heartbeat(1, 20),
    barrier(2),
    start(2),
    barrier(2, attempt=2),
    barrier(3, attempt=2),
    start(3),
    committed(3, attempt=3),
    heartbeat(3, 30, attempt=3),
    barrier(4, attempt=3),
    committed(4, attempt=3),
]


@pytest.mark.parametrize("stop", range(len(LONG) + 1))
def test_a_restart_anywhere_gives_the_same_stream(stop: int) -> None:
    """Whatever was read when the signaller died: resumed from the stream's tail, it writes what was missing."""
    _, whole = run(*LONG)
    _, first_part = run(*LONG[:stop])
    state = resume(JOB, GENERATION, first_part[-3:], hash_of)
    unread = next((number for number in range(len(LONG)) if 2 * number >= state.position), len(LONG))
    _, second_part = run(*LONG[unread:], state=state, at=2 * unread)
    assert first_part + second_part == whole
    milestones = [one for one in whole if isinstance(one, Milestone)]
    assert list(find_chain_faults((one, repr(one).encode()) for one in milestones)) == []
    assert told(whole) == [(1, 0, 1), (2, 1, 1), (3, 2, 2), (4, 3, 2), (5, 4, 3)]

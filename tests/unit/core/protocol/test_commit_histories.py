"""The commit protocol on short histories, each of which is one fact about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.core.errors import DivergenceError, ProtocolError
from cutwater.core.protocol.chain import ROOT_HASH
from cutwater.core.protocol.commit import Prepared, step
from cutwater.core.protocol.records import Heartbeat, Milestone, Signal
from support.protocol_samples import (
    JOB,
    NOW,
    OTHER,
    barrier,
    committed,
    hash_of,
    heartbeat,
    run,
    source_cut,
    start,
    told,
)


def test_a_hint_commits_its_epoch_at_once() -> None:
    """Barrier 0, then 'committed 0': milestone 1, and reading goes on behind the hint."""
    state, written = run(start(1), barrier(0), committed(0))
    assert told(written) == [(1, 0, 1)]
    assert state.prepared is None
    assert state.position == 5


def test_the_next_barrier_commits_when_no_hint_came() -> None:
    """Barrier 1 implies 'committed 0'; it is read again after a restart, so the position is its own offset."""
    state, written = run(start(1), barrier(0), barrier(1))
    assert told(written) == [(1, 0, 1)]
    assert state.prepared == Prepared(barrier(1), 4)
    assert state.position == 4


def test_a_barrier_alone_commits_nothing() -> None:
    """Spark may still fail to write `commits/0`: nothing is shown yet."""
    state, written = run(start(1), barrier(0))
    assert written == []
    assert state.last_epoch == -1


def test_a_milestone_says_what_its_barrier_said() -> None:
    """Everything the driver proved goes into the stream unchanged, with the chain and the time added."""
    _, [first] = run(barrier(0), committed(0))
    assert isinstance(first, Milestone)
    assert {name: value for name, value in vars(first).items() if name in vars(barrier(0))} == vars(barrier(0))
    assert (first.sequence, first.parent_hash, first.committed_ms) == (1, ROOT_HASH, NOW)


def test_a_replay_supersedes_and_the_highest_attempt_is_shown() -> None:
    """A driver died between barrier and commit: the milestone has the second attempt's cut."""
    _, written = run(start(1), barrier(0), start(2), barrier(0, attempt=2), committed(0, attempt=2))
    assert told(written) == [(1, 0, 2)]
    assert isinstance(written[0], Milestone)
    assert written[0].changelog_cut == barrier(0, attempt=2).changelog_cut


def test_a_later_attempt_confirms_an_earlier_attempts_barrier() -> None:
    """A driver died between commit and hint: the next one says so by hint, or by its first barrier."""
    _, by_hint = run(start(1), barrier(0), start(2), committed(0, attempt=2))
    _, by_barrier = run(start(1), barrier(0), start(2), barrier(1, attempt=2))
    assert told(by_hint) == told(by_barrier) == [(1, 0, 1)]


def test_records_of_an_overtaken_attempt_change_nothing() -> None:
    """Kafka fences a zombie driver; if a record of it came through, it is not believed."""
    before, _ = run(start(1), barrier(0), start(2))
    for zombie in (barrier(1), committed(0), heartbeat(0, 5)):
        assert step(before, zombie, 50, NOW, hash_of) == (before, [])
    assert step(before, start(1), 50, NOW, hash_of) == (before, [])


def test_nothing_is_called_fresh_while_something_newer_is_under_way() -> None:
    """A heartbeat for the newest milestone that comes behind the next barrier would make old state look young."""
    state, _ = run(barrier(0), committed(0), heartbeat(0, 5))
    assert state.heartbeat_ms == 5
    state, written = run(barrier(0), committed(0), heartbeat(0, 5), barrier(1), heartbeat(0, 9))
    assert state.heartbeat_ms == 5
    assert not any(isinstance(one, Heartbeat) and one.at_ms == 9 for one in written)


def test_another_generations_records_are_ignored() -> None:
    """The topic is shared by all generations of a job: each signaller takes its own."""
    before, _ = run(start(1), barrier(0))
    foreign = (
        start(9, generation=OTHER),
        barrier(7, attempt=9, generation=OTHER),
        committed(3, generation=OTHER),
        heartbeat(0, 5, generation=OTHER),
    )
    assert run(*foreign, state=before) == (before, [])


def test_late_and_repeated_hints_change_nothing() -> None:
    """A hint that comes after the next barrier, or twice, says what is known."""
    _, written = run(start(1), barrier(0), barrier(1), committed(0), committed(1), committed(1), committed(0))
    assert told(written) == [(1, 0, 1), (2, 1, 1)]


def test_a_committed_epoch_told_again_in_the_same_words_is_let_pass() -> None:
    """The same source cut, rows and digest: a repeat, which changes nothing."""
    before, _ = run(barrier(0), committed(0), barrier(1), committed(1))
    for repeat in (barrier(1), barrier(1, attempt=2), barrier(0)):
        after, written = step(before, repeat, 50, NOW, hash_of)
        assert written == []
        assert replace(after, attempt=before.attempt) == before


REFUSED: dict[str, tuple[Signal, type[ProtocolError]]] = {
    "other digest": (barrier(1, attempt=2, digest=1), DivergenceError),
    "other rows": (barrier(1, attempt=2, rows=1), DivergenceError),
    "other events": (barrier(1, attempt=2, source_cut=source_cut(7)), DivergenceError),
    "older epoch, more events": (barrier(0, attempt=2, source_cut=source_cut(7)), DivergenceError),
    "a gap": (barrier(4), ProtocolError),
    "a commit without a barrier": (committed(3), ProtocolError),
    "a commit of the far future": (committed(9), ProtocolError),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("prepared", [False, True], ids=["nothing prepared", "epoch 2 prepared"])
def test_what_the_protocol_forbids_raises_and_changes_nothing(case: str, prepared: bool) -> None:
    """The state before is still whole: the same signaller could take the right record next."""
    signal, error = REFUSED[case]
    before, _ = run(barrier(0), committed(0), barrier(1), committed(1), *([barrier(2)] if prepared else []))
    kept = replace(before)
    with pytest.raises(error, match=f"job {JOB}: "):
        step(before, signal, 50, NOW, hash_of)
    assert before == kept
    hint_or_barrier = committed(2) if prepared else barrier(2)
    step(before, hint_or_barrier, 50, NOW, hash_of)


@pytest.mark.parametrize("first", [barrier(1), committed(0)], ids=["barrier 1", "committed 0"])
def test_a_generation_begins_with_barrier_0(first: Signal) -> None:
    """A stream cannot begin in the middle: epochs before would be missing."""
    with pytest.raises(ProtocolError):
        run(start(1), first)

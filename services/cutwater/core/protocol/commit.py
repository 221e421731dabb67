"""The commit protocol: all decisions when an epoch becomes a milestone.

Theory of operation. For each epoch N of an attempt, the driver writes its rows and then barrier N (prepared).
Spark then writes `commits/N`. commit-signal learns this from a hint, from an idle job's heartbeat, or at the
latest from barrier N+1, which Spark can only produce after `commits/N` exists. Any one of them commits N. A driver
that dies between barrier and commit replays N in a later attempt, whose barrier replaces the earlier one. Records
of an attempt below the newest one are fenced: commit-signal ignores them.

`step` is pure: a state and a record give the next state and the records to write. A violation of the protocol
raises and leaves the state unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from cutwater.core.errors import DivergenceError, FencedError, ProtocolError
from cutwater.core.protocol.chain import FIRST_SEQUENCE, ROOT_HASH
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import (
    Barrier,
    Committed,
    Heartbeat,
    Milestone,
    Release,
    Signal,
    Start,
    StreamRecord,
)


class Phase(Enum):
    OPEN = "open"
    PREPARED = "prepared"
    COMMITTED = "committed"


class Fact(Enum):
    WRITTEN = "its barrier was read"
    CONFIRMED = "the commit log holds it: by hint, by heartbeat, or by the next barrier"


TRANSITIONS: dict[tuple[Phase, Fact], Phase] = {
    (Phase.OPEN, Fact.WRITTEN): Phase.PREPARED,
    # A later barrier replaces an earlier one.
    (Phase.PREPARED, Fact.WRITTEN): Phase.PREPARED,
    (Phase.PREPARED, Fact.CONFIRMED): Phase.COMMITTED,
    (Phase.COMMITTED, Fact.WRITTEN): Phase.COMMITTED,
    (Phase.COMMITTED, Fact.CONFIRMED): Phase.COMMITTED,
}


def advance(phase: Phase, fact: Fact) -> Phase:
    """Return the next phase. Raises ProtocolError for an undefined pair."""
    try:
        return TRANSITIONS[phase, fact]
    except KeyError:
        raise ProtocolError(f"unexpected for an epoch that is {phase.value}: {fact.value}") from None


@dataclass(frozen=True)
class Prepared:
    """The newest barrier that awaits its commit, and its offset on the barriers topic."""

    barrier: Barrier
    offset: int


@dataclass(frozen=True)
class SignalState:
    """The state of commit-signal. It can be rebuilt from the tail of the commit stream alone."""

    job: str
    generation: Generation
    attempt: int = 0
    last: Milestone | None = None
    last_hash: bytes = ROOT_HASH
    prepared: Prepared | None = None
    heartbeat_ms: int = 0
    begin: int = 0
    """Below this offset the barriers topic has no record of this generation."""

    @property
    def position(self) -> int:
        """The offset on the barriers topic to read from after a restart."""
        return self.last.barriers_position if self.last else self.begin

    @property
    def last_epoch(self) -> int:
        """The epoch of the newest milestone of this generation; -1 before the first."""
        return self.last.epoch if self.last and self.last.generation == self.generation else -1


Hash = Callable[[Milestone], bytes]
Step = tuple[SignalState, list[StreamRecord]]


def resume(job: str, generation: Generation, tail: list[StreamRecord], hash_of: Hash) -> SignalState:
    """Return the state after a restart, from the end of the commit stream in log order."""
    state = SignalState(job, generation)
    promoted = next((one.generation for one in reversed(tail) if isinstance(one, Milestone)), generation)
    if promoted != generation:
        raise FencedError(
            f"job {job}: the promoted generation is {promoted}, not {generation}; "
            "this commit-signal must not run. Start it with the promoted generation."
        )
    for record in tail:
        if record.generation != generation:
            continue  # from before its promotion
        if isinstance(record, Heartbeat):
            state = replace(state, heartbeat_ms=record.at_ms)
        elif isinstance(record, Release):
            raise FencedError(
                f"job {job}: {generation} was released to region {record.to} after milestone {record.token}, so "
                "nothing of it may follow. To take the job back, fail over from that region"
            )
        else:
            state = replace(state, last=record, last_hash=hash_of(record), attempt=record.attempt)
    return state


def promote(
    state: SignalState, last: Milestone, rewinds_to: int, now_ms: int, hash_of: Hash
) -> tuple[SignalState, Milestone]:
    """Return the first milestone of a candidate on the commit stream: its newest one, as successor of `last`.

    `last`: the newest milestone, of the origin if a failover starts the stream. `rewinds_to`: the sequence that a
    rollback returns to, else 0. `cutwater.core.generations.candidates` checks first whether promotion is allowed.
    """
    if state.last is None:
        raise ProtocolError(f"job {state.job}: {state.generation} has no milestone to be promoted with")
    first = replace(
        state.last,
        sequence=last.sequence + 1,
        parent_hash=hash_of(last),
        committed_ms=now_ms,
        rewinds_to=rewinds_to,
    )
    return replace(state, last=first, last_hash=hash_of(first)), first


def step(state: SignalState, signal: Signal, offset: int, now_ms: int, hash_of: Hash) -> Step:
    """Process one record of the barriers topic, read at `offset`.

    Raises ProtocolError or DivergenceError if the record violates the protocol.
    """
    if signal.generation != state.generation:
        return state, []  # the topic is shared by all generations of a job
    if isinstance(signal, Start):
        return _start(state, signal), []
    if signal.attempt < state.attempt:
        return state, []  # fenced: a second lock, since Kafka's transactions refuse these writers already
    state = replace(state, attempt=signal.attempt)
    if isinstance(signal, Barrier):
        return _barrier(state, signal, offset, now_ms, hash_of)
    if isinstance(signal, Committed):
        return _confirm(state, signal.epoch, offset + 1, now_ms, hash_of)
    return _heartbeat(state, signal, offset, now_ms, hash_of)


def _start(state: SignalState, start: Start) -> SignalState:
    # Attempts only grow, so an old start that is read again after a restart changes nothing.
    return replace(state, attempt=max(state.attempt, start.attempt))


def _phase(state: SignalState, epoch: int) -> Phase:
    if epoch <= state.last_epoch:
        return Phase.COMMITTED
    if state.prepared and epoch == state.prepared.barrier.epoch:
        return Phase.PREPARED
    return Phase.OPEN


def _learn(state: SignalState, epoch: int, fact: Fact) -> tuple[Phase, Phase]:
    """Return (phase before, phase after). Raises ProtocolError, naming the epoch, for an undefined pair."""
    before = _phase(state, epoch)
    try:
        return before, advance(before, fact)
    except ProtocolError as error:
        newest = state.prepared.barrier.epoch if state.prepared else state.last_epoch
        raise ProtocolError(
            f"job {state.job}: epoch {epoch}: {error}; the newest barrier is of epoch {newest}, so barriers are "
            "missing. Compare the driver's checkpoint with the commit stream, and start a new generation from the "
            "last milestone."
        ) from None


def _barrier(state: SignalState, barrier: Barrier, offset: int, now_ms: int, hash_of: Hash) -> Step:
    written: list[StreamRecord] = []
    if barrier.epoch > 0:
        # Spark runs an epoch only after the commit log holds the previous one. The position stays at this barrier.
        state, written = _confirm(state, barrier.epoch - 1, offset, now_ms, hash_of)
    _, after = _learn(state, barrier.epoch, Fact.WRITTEN)
    if after is Phase.COMMITTED:
        _refuse_another_telling(state, barrier)
        return state, written
    return replace(state, prepared=Prepared(barrier, offset)), written


def _confirm(state: SignalState, epoch: int, position: int, now_ms: int, hash_of: Hash) -> Step:
    """Commit an epoch that the commit log holds, unless it is committed already."""
    before, after = _learn(state, epoch, Fact.CONFIRMED)
    if before is after:
        return state, []
    state, milestone = _commit(state, position, now_ms, hash_of)
    return state, [milestone]


def _refuse_another_telling(state: SignalState, barrier: Barrier) -> None:
    last = state.last
    if last is None:
        return
    known = barrier.epoch == last.epoch and barrier.same_content(last)
    older = barrier.epoch < last.epoch and last.source_cut.covers(barrier.source_cut)
    if not (known or older):
        raise DivergenceError(
            f"job {state.job}: epoch {barrier.epoch} was committed as sequence {last.sequence}, and attempt "
            f"{barrier.attempt} reports it differently (rows {barrier.rows} against {last.rows}, digest "
            f"{barrier.digest} against {last.digest}). The checkpoint does not belong to this stream: "
            "start a new generation from the last milestone."
        )


def _heartbeat(state: SignalState, heartbeat: Heartbeat, offset: int, now_ms: int, hash_of: Hash) -> Step:
    written: list[StreamRecord] = []
    if _phase(state, heartbeat.epoch) is Phase.PREPARED:
        # A driver sends heartbeats only for an epoch in its commit log: an idle job's last epoch needs no hint.
        state, written = _confirm(state, heartbeat.epoch, offset + 1, now_ms, hash_of)
    # A heartbeat counts only for the newest milestone, and only while no newer epoch is prepared.
    current = heartbeat.epoch == state.last_epoch and state.prepared is None
    if current and heartbeat.at_ms > state.heartbeat_ms:
        state = replace(state, heartbeat_ms=heartbeat.at_ms)
        written = [*written, heartbeat]
    return state, written


def _commit(state: SignalState, position: int, now_ms: int, hash_of: Hash) -> tuple[SignalState, Milestone]:
    prepared = state.prepared
    if prepared is None:
        raise ProtocolError(f"job {state.job}: nothing is prepared, so nothing can be committed")
    milestone = Milestone(
        **vars(prepared.barrier),
        sequence=state.last.sequence + 1 if state.last else FIRST_SEQUENCE,
        parent_hash=state.last_hash,
        barriers_position=position,
        committed_ms=now_ms,
    )
    return replace(state, last=milestone, last_hash=hash_of(milestone), prepared=None), milestone

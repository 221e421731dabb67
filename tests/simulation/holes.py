"""Holes: what takes the place of a guard, in the classes that run and for the time of a test only."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from cutwater.commit_signal import signaller as signal_service
from cutwater.commit_signal.signaller import CommitSignal
from cutwater.core.driver.commit_hints import CommitHints
from cutwater.core.driver.tombstone_gc import Collector
from cutwater.core.output.milestone_assembly import Grouping
from cutwater.core.output.position import End, Tail
from cutwater.core.protocol import commit, topics
from cutwater.core.protocol.commit import SignalState
from cutwater.core.protocol.records import Barrier, Committed, Heartbeat, Milestone
from cutwater.core.state.backlog import Step as Stepping
from cutwater.publisher import transaction as output_writer
from cutwater.views.changelog import milestone_rows, proof
from cutwater.views.changelog.proof import writer_of
from cutwater.views.changelog.range_reader import Range
from cutwater.views.follow import applier
from cutwater.views.follow.applier import Applier
from cutwater.views.query.view import View
from cutwater.views.store.store import Store
from cutwater_spark.epoch.row_proof import ProvedRows

Hole = Callable[[], AbstractContextManager[Any]]


def off(owner: Any, name: str, instead: Any = lambda *_args, **_named: None) -> Hole:
    return lambda: patch.object(owner, name, instead)


def position_first(self: Store, *args: Any, **named: Any) -> None:
    entry = args[0]
    self._db.write({b"\x00applied": entry.offset.to_bytes(8, "big") + entry.record})
    _commit(self, *args, **named)


def unflushed(self: Store, *args: Any, **named: Any) -> None:
    _commit(self, *args, **{**named, "bulk": False})


def bound_forgotten(self: Store, *args: Any, **named: Any) -> None:
    _commit(self, *args, **named)
    self._db.write({b"\x00lower": None})


def bound_falls(self: Store, *args: Any, **named: Any) -> None:
    """What a milestone evicts is known until the next one."""
    known = self.lower_ms
    _commit(self, *args, **named)
    if known is not None and self.lower_ms == known:
        self.lower_ms = None
        self._db.write({b"\x00lower": None})


_commit = Store.commit
_below = Range._below
_rows = Applier._rows
_apply = Applier.apply
_done = Range._is_done
_step = commit.step
_heartbeat = commit._heartbeat
_read_state = CommitSignal._read_state
_collect = Collector.collect


def everything(self: Range, partition: int, messages: list[Any]) -> list[Any]:
    """Records above the cut, too, as far as they came along."""
    _below(self, partition, messages)
    return messages


def end_alone(_before: End | None, end: End, _rows: int) -> Tail:
    """The last end marker of the output is believed: the rows in front of it are not counted."""
    return Tail(end, 0)


def ends_alone(self: ProvedRows, _barrier: Barrier | None) -> dict[int, int]:
    """Where the changelog ends, without a look at what may be lost."""
    return self.ends()


@contextmanager
def any_writer() -> Iterator[None]:
    """A step takes every row in its range, whoever wrote it."""
    stepping = [False]

    def apply(self: Applier, plan: Any) -> Any:
        stepping[0] = isinstance(plan, Stepping)
        return _apply(self, plan)

    def rows(self: Applier, messages: Any, milestone: Any, jump: bool = False) -> Iterator[Any]:
        for row in _rows(self, messages, milestone, jump):
            yield row._replace(writer=writer_of(milestone)) if stepping[0] else row

    with patch.object(Applier, "apply", apply), patch.object(Applier, "_rows", rows):
        yield


def ends_early(self: Range, partition: int) -> bool:
    """Any end of a partition counts, below the cut too."""
    if self._log.has_ended(partition, 0):
        self.first_above_ms.setdefault(partition, None)
        return True
    return bool(_done(self, partition))


@contextmanager
def two_transactions() -> Iterator[None]:
    real = output_writer.TransactionalWriter

    class Apart(real):  # type: ignore[misc, valid-type]
        def write_all(self, batches: Any) -> None:
            super().write_all(batches[:-1])
            super().write_all(batches[-1:])

    with patch.object(output_writer, "TransactionalWriter", Apart):
        yield


def own_ids(name: str) -> Hole:
    """Every process has a transactional id of its own, which fences nobody."""
    return own_ids_of(topics, name)


def own_ids_of(owner: Any, name: str) -> Hole:
    def hole() -> AbstractContextManager[Any]:
        numbers = itertools.count()
        return patch.object(owner, name, lambda *_args: f"{name}-{next(numbers)}")

    return hole


@contextmanager
def unfenced_drivers() -> Iterator[None]:
    """Neither Kafka nor the attempt in the record keeps an older driver out."""

    def step(state: SignalState, signal: Any, *args: Any) -> Any:
        return _step(replace(state, attempt=min(state.attempt, signal.attempt)), signal, *args)

    with own_ids("driver_id")(), patch.object(signal_service, "step", step):
        yield


@contextmanager
def nobody_later() -> Iterator[None]:
    """Whose rows stand below a cut is not asked beyond their generation."""
    with patch.object(proof, "breach", lambda *_args: ""), patch.object(proof, "overgrown", lambda *_args: ""):
        yield


def fresh_behind_a_barrier(state: SignalState, beat: Heartbeat, *args: Any) -> Any:
    """The newest milestone is called fresh although a newer epoch is under way."""
    under_way = state.prepared
    if under_way is None or under_way.barrier.epoch == beat.epoch:
        return _heartbeat(state, beat, *args)
    state, written = _heartbeat(replace(state, prepared=None), beat, *args)
    return replace(state, prepared=under_way), written


def of_now(self: CommitHints, kind: Any, barrier: Barrier, _at_ms: int) -> Any:
    """A heartbeat says when it is written."""
    return kind(barrier.job, barrier.generation, self._attempt, barrier.epoch, self._now_ms())


def age_by_any_heartbeat(self: View, milestone: Milestone, now_ms: int) -> int:
    """Whichever epoch was called fresh, what is shown is."""
    beat = self._heartbeat
    return now_ms - max(milestone.committed_ms, beat.at_ms if beat else 0)


def read_once(self: CommitSignal, consumer: Any, parent: Any) -> Any:
    kept = vars(self)
    if "_once" not in kept:
        kept["_once"] = _read_state(self, consumer, parent)
    return kept["_once"]


@contextmanager
def at_the_barrier() -> Iterator[None]:
    """A barrier is taken for a commit."""

    def step(state: SignalState, signal: Any, offset: int, now_ms: int, hash_of: Any) -> Any:
        state, written = _step(state, signal, offset, now_ms, hash_of)
        if isinstance(signal, Barrier):
            said = Committed(signal.job, signal.generation, signal.attempt, signal.epoch, now_ms)
            state, more = _step(state, said, offset, now_ms, hash_of)
            written = [*written, *more]
        return state, written

    with patch.object(signal_service, "step", step):
        yield


def behind_the_last_record(self: SignalState) -> int:
    return self.last.barriers_position + 1 if self.last else 0


def by_the_watermark(self: Collector, me: Any, before: Barrier | None) -> dict[int, int]:
    """Windows are cleared once they are closed, when readers still ask for them."""
    return _collect(self, me, before and replace(before, horizon_ms=before.watermark_ms))


def any_end(self: Grouping) -> Any:
    """One partition's end is enough."""
    for ended in self._ended:
        if ended and ended[0].end.sequence > self._after:
            found = ended.popleft()
            self._after = found.end.sequence
            return found.end, found.rows
    return None


@contextmanager
def both(*holes: Hole) -> Iterator[None]:
    first, *others = holes
    with first():
        if others:
            with both(*others):
                yield
        else:
            yield


def no_containment() -> AbstractContextManager[Any]:
    return both(off(applier, "require_whole"), off(milestone_rows, "require_whole"))


def no_hashes() -> AbstractContextManager[Any]:
    """Neither a view nor the publisher compares count and digest."""
    return both(off(applier, "prove"), off(milestone_rows, "prove"))

"""The guards of the commit protocol: what each keeps away, and a hole in its place that a test may make.

A hole is made in the classes that run, for the time of a test only. The climate is one in which it shows soon.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from unittest.mock import patch

from cutwater.client.grouping import Grouping
from cutwater.commit_signal import service as signal_service
from cutwater.commit_signal.service import CommitSignal
from cutwater.core import commit, takeover, topics
from cutwater.core.commit import SignalState
from cutwater.core.records import Barrier, Committed
from cutwater.core.restore import Step as Stepping
from cutwater.publisher import writer as output_writer
from cutwater.views import applier, updates
from cutwater.views.applier import Applier
from cutwater.views.proving import headers_of
from cutwater.views.ranges import Range
from cutwater.views.store import Store
from cutwater_spark import proving
from cutwater_spark.proving import ProvedRows
from simulation.checker import ABORTED_READ, FALSE_ALARM, GAP, INVERSION, LOST_WRITE, PARTIAL, STUCK, UNNOTICED
from simulation.histories import Climate

Hole = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Guard:
    name: str
    keeps_away: str
    invariant: str
    hole: Hole
    climate: Climate
    anomalies: frozenset[str]
    """What the checker calls it, once the guard is gone."""


def _off(owner: Any, name: str, instead: Any = lambda *_args, **_named: None) -> Hole:
    return lambda: patch.object(owner, name, instead)


class _Position(NamedTuple):
    """The store's position apart from its rows."""


def _position_first(self: Store, *args: Any, **named: Any) -> None:
    entry = args[0]
    self._db.write({b"\x00applied": entry.offset.to_bytes(8, "big") + entry.record})
    _commit(self, *args, **named)


def _unflushed(self: Store, *args: Any, **named: Any) -> None:
    _commit(self, *args, **{**named, "bulk": False})


_commit = Store.commit
_below = Range._below
_rows = Applier._rows
_apply = Applier.apply
_event = Range._event
_step = commit.step
_read_state = CommitSignal._read_state


def _everything(self: Range, messages: list[Any]) -> list[Any]:
    """Records above the cut, too, as far as they came along."""
    reading = set(self._ends)
    _below(self, messages)
    return [one for one in messages if one.error() is None and one.partition() in reading]


@contextmanager
def _any_writer() -> Iterator[None]:
    """A step takes every row in its range, whoever wrote it."""
    stepping = [False]

    def apply(self: Applier, plan: Any) -> Any:
        stepping[0] = isinstance(plan, Stepping)
        return _apply(self, plan)

    def rows(self: Applier, messages: Any, milestone: Any) -> Iterator[Any]:
        for row in _rows(self, messages, milestone):
            yield row._replace(headers=headers_of(milestone)) if stepping[0] else row

    with patch.object(Applier, "apply", apply), patch.object(Applier, "_rows", rows):
        yield


def _ends_early(self: Range, message: Any) -> None:
    """Any end of a partition counts, below the cut too."""
    if message.partition() in self._ends:
        self._finish(message.partition(), None)


@contextmanager
def _two_transactions() -> Iterator[None]:
    real = output_writer.TransactionalWriter

    class Apart(real):  # type: ignore[misc, valid-type]
        def write_all(self, batches: Any) -> None:
            super().write_all(batches[:-1])
            super().write_all(batches[-1:])

    with patch.object(output_writer, "TransactionalWriter", Apart):
        yield


def _own_ids(name: str) -> Hole:
    """Every process has a transactional id of its own, which fences nobody."""

    def hole() -> AbstractContextManager[Any]:
        numbers = itertools.count()
        return patch.object(topics, name, lambda *_args: f"{name}-{next(numbers)}")

    return hole


@contextmanager
def _unfenced_drivers() -> Iterator[None]:
    """Neither Kafka nor the attempt in the record keeps an older driver out."""

    def step(state: SignalState, signal: Any, *args: Any) -> Any:
        return _step(replace(state, attempt=min(state.attempt, signal.attempt)), signal, *args)

    with _own_ids("driver_id")(), patch.object(signal_service, "step", step):
        yield


def _read_once(self: CommitSignal, consumer: Any) -> Any:
    if not hasattr(self, "_once"):
        self._once = _read_state(self, consumer)
    return self._once


@contextmanager
def _at_the_barrier() -> Iterator[None]:
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


def _behind_the_last_record(self: SignalState) -> int:
    return self.last.barriers_position + 1 if self.last else 0


def _any_end(self: Grouping) -> Any:
    """One partition's end is enough."""
    for ended in self._ended:
        if ended and ended[0].end.sequence > self._after:
            found = ended.popleft()
            self._after = found.end.sequence
            return found.end, found.rows
    return None


@contextmanager
def _both(*holes: Hole) -> Iterator[None]:
    first, *others = holes
    with first():
        if others:
            with _both(*others):
                yield
        else:
            yield


def _no_containment() -> AbstractContextManager[Any]:
    return _both(_off(applier, "require_whole"), _off(updates, "require_whole"))


_ZOMBIES = {"zombies": True, "differs": False}
_CRASHING = {"kill": 8.0, "lose-view": 1.0}
_WRONG = frozenset({LOST_WRITE, ABORTED_READ, PARTIAL})

GUARDS = (
    Guard(
        "proof of rows",
        "a zombie's row below the cut of a milestone",
        "I1",
        _off(proving, "foreign_rows", lambda *_args: []),
        Climate(_ZOMBIES, {"late-row": 4.0, "kill": 3.0}),
        _WRONG,
    ),
    Guard(
        "comparison at a start",
        "a checkpoint that was rolled back or lost",
        "I3",
        _off(takeover, "require_match"),
        Climate({"differs": False}, {"roll-back": 2.0}),
        frozenset({FALSE_ALARM, LOST_WRITE, GAP, ABORTED_READ}),
    ),
    Guard(
        "foreign rows at a start",
        "a new attempt over rows that do not belong there",
        "I1",
        _off(ProvedRows, "check_start"),
        Climate(_ZOMBIES, {"late-row": 4.0, "kill": 5.0}),
        frozenset({UNNOTICED}),
    ),
    Guard(
        "foreign rows at a heartbeat",
        "calling an idle job fresh while somebody else writes to it",
        "I1",
        _off(ProvedRows, "check_idle"),
        Climate(_ZOMBIES, {"late-row": 4.0, "leap": 5.0, "events": 2.0}),
        frozenset({UNNOTICED}),
    ),
    Guard(
        "fencing of drivers",
        "barriers of an attempt that has lost the generation",
        "I3",
        _unfenced_drivers,
        Climate({"differs": True, "zombies": False}, {"stall": 4.0, "wake": 10.0}),
        frozenset({*_WRONG, GAP, FALSE_ALARM}),
    ),
    Guard(
        "refusal of another telling",
        "an epoch that is told differently after its milestone",
        "I2",
        _off(commit, "_refuse_another_telling"),
        Climate({"differs": True}, {"stall": 4.0, "wake": 10.0, "roll-back": 0.0}),
        _WRONG,
    ),
    Guard(
        "a milestone only after Spark's commit",
        "milestones of epochs that a crash takes back",
        "I1",
        _at_the_barrier,
        Climate(),
        frozenset({ABORTED_READ}),
    ),
    Guard(
        "position of the oldest barrier still needed",
        "forgetting a prepared epoch in a restart of commit-signal",
        "I4",
        _off(SignalState, "position", property(_behind_the_last_record)),
        Climate({}, {"kill": 6.0}),
        frozenset({FALSE_ALARM, STUCK, LOST_WRITE}),
    ),
    Guard(
        "fencing of signallers",
        "two signallers that write one stream",
        "I3",
        _own_ids("signal_id"),
        Climate({}, {"stall": 4.0, "wake": 10.0}),
        frozenset({INVERSION}),
    ),
    Guard(
        "reading the stream again after fencing",
        "a milestone that the fenced signaller wrote last",
        "I3",
        _off(CommitSignal, "_read_state", _read_once),
        Climate({}, {"stall": 4.0, "wake": 10.0}),
        frozenset({INVERSION, FALSE_ALARM}),
    ),
    Guard(
        "cut bound of the view",
        "rows above the milestone that is shown",
        "I1",
        _off(Range, "_below", _everything),
        Climate({}, _CRASHING),
        frozenset({ABORTED_READ}),
    ),
    Guard(
        "an end below the cut means wait",
        "a restore that ends too early",
        "I1",
        _off(Range, "_event", _ends_early),
        Climate(),
        frozenset({*_WRONG, FALSE_ALARM}),
    ),
    Guard(
        "only the milestone's attempt",
        "rows of another attempt within the range of a step",
        "I1",
        _any_writer,
        Climate({}, {"stall": 4.0, "wake": 10.0}),
        frozenset({*_WRONG, FALSE_ALARM}),
    ),
    Guard(
        "containment",
        "a milestone that compaction has overtaken",
        "I2",
        _no_containment,
        Climate({}, {"leap": 5.0, "compact": 8.0, "lose-view": 2.0, "forget": 2.0}),
        _WRONG,
    ),
    Guard(
        "position in the same batch",
        "a position ahead of its rows",
        "I4",
        _off(Store, "commit", _position_first),
        Climate({}, _CRASHING),
        _WRONG,
    ),
    Guard(
        "mark of a milestone that is being applied",
        "half a milestone after a crash between two chunks",
        "I1",
        _off(Store, "begin"),
        Climate({"chunk_rows": 2}, _CRASHING),
        _WRONG,
    ),
    Guard(
        "flush before the position",
        "rows of a restore that a crash takes away",
        "I4",
        _off(Store, "commit", _unflushed),
        Climate({"chunk_rows": 2}, {"kill": 8.0, "lose-view": 3.0}),
        _WRONG,
    ),
    Guard(
        "position in the publisher's transaction",
        "a milestone that is published again",
        "I4",
        _two_transactions,
        Climate({}, {"kill": 8.0}),
        frozenset({INVERSION, FALSE_ALARM}),
    ),
    Guard(
        "fencing of publishers",
        "two publishers that write one output",
        "I4",
        _own_ids("publisher_id"),
        Climate({}, {"stall": 4.0, "wake": 10.0}),
        frozenset({INVERSION, FALSE_ALARM, PARTIAL}),
    ),
    Guard(
        "wait for all end markers",
        "a milestone of which a partition is still to come",
        "I1",
        _off(Grouping, "whole", _any_end),
        Climate(),
        frozenset({PARTIAL, *_WRONG}),
    ),
)

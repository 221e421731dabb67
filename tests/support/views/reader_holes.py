"""Holes for guards of whoever reads a changelog: what takes a guard's place in one way of reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from cutwater.adapters.fetch.record_batches import chunk, records
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.client import from_changelog as client
from cutwater.core.protocol.records import Milestone
from cutwater.views.bulk import newest_rows
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.bulk.newest_rows import NewestRows
from cutwater.views.bulk.newest_rows_native import NativeNewestRows
from cutwater.views.changelog import proof
from cutwater.views.changelog.milestone_rows import Updates
from cutwater.views.changelog.range_reader import Range
from cutwater.views.follow.applier import Applier
from cutwater.views.query.view import View
from cutwater.views.store.store import Store
from unit.views.bulk.test_newest_rows import Put, raw

Hole = Callable[[], AbstractContextManager[Any]]
FAR = 1 << 60


def off(owner: Any, name: str, instead: Any = lambda *_args, **_named: None) -> Hole:
    return lambda: patch.object(owner, name, instead)


def both(*holes: Hole) -> Hole:
    def entered() -> AbstractContextManager[Any]:
        stack = ExitStack()
        for one in holes:
            stack.enter_context(one())
        return stack

    return entered


_below, _done, _rows, _told_apart = Range._below, Range._is_done, Applier._rows, Updates._told_apart
_take, _take_native, _task, _load, _show = (
    NewestRows.take,
    NativeNewestRows.take,
    BulkLoader._task,
    BulkLoader.load,
    View.show,
)
_commit, _changes = Store.commit, client._Reading._changes


def everything(self: Range, partition: int, messages: list[Any]) -> list[Any]:
    _below(self, partition, messages)
    return messages


def ends_early(self: Range, partition: int) -> bool:
    self._log.keep_for_next(partition, [])
    return True if self._log.has_ended(partition, 0) else _done(self, partition)


def of_any_writer(self: Applier, messages: Any, milestone: Milestone, jump: bool = False) -> Any:
    for row in _rows(self, messages, milestone, jump):
        yield row._replace(writer=proof.writer_of(milestone))


def pieces_of_any_writer(self: Updates, _milestone: Milestone, range_: Range) -> Any:
    for partition, messages in range_.pieces():
        yield self._piece(partition, messages)


def below_any_horizon(self: Applier, messages: Any, milestone: Milestone, jump: bool = False) -> Any:
    return _rows(self, messages, replace(milestone, horizon_ms=FAR), jump)


def as_if_later(self: BulkLoader, milestone: Milestone, *args: Any) -> Any:
    return replace(_task(self, milestone, *args), horizon_ms=FAR)


def up_to_the_end(self: BulkLoader, milestone: Milestone, slices: Any, *args: Any) -> Any:
    ends = Offsets(self._cluster).topic_ends(self._topic, len(slices))
    return _load(self, milestone, [one._replace(end=min(one.end, ends[one.partition])) for one in slices], *args)


def blind(self: NativeNewestRows, partition: int, piece: Any, end: int) -> None:
    """What compiled code refuses it cannot be kept from; so it is told that each row was the epoch's before."""
    puts, at = [], piece.first
    for one in records(piece):
        harmless = dict(one.headers).get("writer") == self._other._own[1]
        header = one.headers if harmless else (("writer", b"g1-local-00000000/1/0"),)
        puts.append(Put(one.key, one.value, tuple(header), one.offset - at))
        at = one.offset + 1
    again = chunk(f"again/{partition}", raw(puts, piece.first), piece.first) if puts else piece
    _take_native(self, partition, again, end)


def _no_horizon_shown(self: View, entry: Any) -> None:
    _show(self, entry._replace(milestone=replace(entry.milestone, horizon_ms=0)))


def _no_horizon_loaded(self: BulkLoader, milestone: Milestone, slices: Any, _floor_ms: int | None = None) -> Any:
    return _load(self, milestone, slices, 0)


def _no_horizon_kept(self: Applier, _milestone: Milestone, rows: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return self._own.storage_rows(rows, self._store.segment_ms, 0, None)


def _no_horizon_stored(self: Store, *args: Any, **named: Any) -> None:
    _commit(self, *args, **{**named, "floor_ms": 0})


def no_horizon_told(self: Any, plan: Any) -> Any:
    milestone = replace(plan.to.milestone, horizon_ms=0)
    return _changes(self, replace(plan, to=plan.to._replace(milestone=milestone)))


def _nobody(*_args: Any) -> str:
    return ""


ANYBODY = both(off(proof, "breach", _nobody), off(proof, "overgrown", _nobody))
ANYBODY_IN_BULK = both(off(newest_rows, "breach", _nobody), off(newest_rows, "overgrown", _nobody))
NO_HORIZON = both(
    off(View, "show", _no_horizon_shown),
    off(BulkLoader, "load", _no_horizon_loaded),
    off(Applier, "_rows_to_keep", _no_horizon_kept),
    off(Store, "commit", _no_horizon_stored),
)


def of_seed(name: str) -> Hole:
    """The hole of that name in tests/spark/test_guards_of_the_seed.py, which imports Spark."""

    def entered() -> AbstractContextManager[Any]:
        import test_guards_of_the_seed

        return test_guards_of_the_seed.HOLES[name]()

    return entered


def past_the_end(self: NewestRows, partition: int, piece: Any, _end: int) -> None:
    _take(self, partition, piece, FAR)


def past_the_end_natively(self: NativeNewestRows, partition: int, piece: Any, _end: int) -> None:
    _take_native(self, partition, piece, FAR)

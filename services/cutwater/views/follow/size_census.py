"""A census of a view: the size of its state by row, while the view is followed and read.

It pins its own rows per time segment, so that it takes no reader's turn and keeps no old file for long, and works
for a share of the time. Rows written meanwhile may or may not be counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from cutwater.adapters.hashing import key_hash
from cutwater.core.errors import MachineError
from cutwater.core.job.shards import ShardMap
from cutwater.core.state.size_census import Sizes, Tally, short_key
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.store.key_layout import (
    WINDOWS_END,
    WINDOWS_START,
    key_of,
    parse,
    parse_segment,
    segment_prefix,
)
from cutwater.views.store.pinned_rows import PinnedRows
from cutwater.views.store.store import Store

SHARE = 0.1
"""The fraction of the time that a census works."""
PIECE_ROWS = 2_000
"""Rows between two pauses, a few milliseconds of work."""
LOOK_S = 0.2


@dataclass(frozen=True)
class CensusResult:
    """The state as counted by a census."""

    sizes: Sizes
    counted_ms: int
    """When the census ended."""
    seconds: float
    """Its duration, including pauses."""
    written_bytes: int
    """`Store.written_bytes` at its start. Later writes may not be counted."""


class Census:
    """Census of one store. A thread calls `run`; any thread uses `want`, `stop` and `counted`."""

    def __init__(
        self,
        store: Store,
        shards: ShardMap,
        every_ms: int,
        now_ms: Callable[[], int],
        log: Any,
        share: float = SHARE,
    ) -> None:
        """`every_ms`: from the end of one census to the start of the next."""
        self._store = store
        self._shards = shards
        self._every_s = every_ms / 1000
        self._now_ms = now_ms
        self._log = log
        self._share = share
        self._stop = threading.Event()
        self._wanted = threading.Event()
        self.counted: CensusResult | None = None
        """The last census; None before the first has ended."""

    def request_count(self) -> None:
        """Request another census as soon as possible, also if one is running."""
        self._wanted.set()

    def stop(self) -> None:
        """End `run` soon."""
        self._stop.set()

    def run(self) -> None:
        """Count every `every_ms`, and when requested, until stopped. Failures are retried later."""
        due_s = 0.0
        while not self._stop.wait(LOOK_S):
            if self._store.applied is None or (time.monotonic() < due_s and not self._wanted.is_set()):
                continue
            try:
                self._wanted.clear()
                self.counted = self.count()
            except Stopped:
                return
            except (
                MachineError
            ) as error:  # the store is being replaced, or the disk fails, which is reported elsewhere
                self._log.warning("the state was not counted", error=str(error))
            due_s = time.monotonic() + self._every_s

    def count(self) -> CensusResult:
        """Count now. Raises Stopped, MachineError."""
        begun_s, written = time.monotonic(), self._store.written_bytes
        tally, start = Tally(), WINDOWS_START
        while start < WINDOWS_END:
            start = self._segment(self._store.pin(), start, tally)
        return CensusResult(tally.sizes(), self._now_ms(), time.monotonic() - begun_s, written)

    def _segment(self, rows: PinnedRows, start: bytes, tally: Tally) -> bytes:
        first = rows.first(start)
        if first is None:
            return WINDOWS_END
        number = parse_segment(first)
        end = segment_prefix(number + 1)
        while True:
            begun_s = time.monotonic()
            piece, goes_on = rows.piece(first, end, PIECE_ROWS)
            for _, run in groupby(piece, key=lambda one: key_of(one[0])):
                found = list(run)
                text = parse(found[0][0]).key
                size = sum(len(storage) + len(value) for storage, value in found)
                tally.add(number, self._shards.shard(key_hash(text)), short_key(text), len(found), size)
            if not goes_on:
                return end
            first = piece[-1][0] + b"\x00"
            if self._stop.wait((time.monotonic() - begun_s) * (1 / self._share - 1)):
                raise Stopped

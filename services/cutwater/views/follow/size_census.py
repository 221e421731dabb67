"""A census of a view: how large its state is and where, counted row by row beside following and reading.

It has rows of its own, pinned anew for each time segment, so that no reader's turn is taken and no old file is
kept for long; and a share of the time, so that neither follower nor readers wait for it. What is written meanwhile
may be counted or not.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from cutwater.adapters.hashing import key_hash
from cutwater.core.errors import MachineError
from cutwater.core.job.shards import ShardMap
from cutwater.core.state.size_census import Sizes, Tally
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.store.key_layout import (
    WINDOWS_END,
    WINDOWS_START,
    key_of,
    parse,
    parse_segment,
    segment_prefix,
)
from cutwater.views.store.pinned_rows import Pinned
from cutwater.views.store.store import Store

SHARE = 0.1
"""Of the time that a census works; it rests for the others'."""
PIECE_ROWS = 2_000
"""Between two rests: a few milliseconds."""
LOOK_S = 0.2
KEY_CHARACTERS = 200
"""Of a key in the count of the largest; a longer one is told by its beginning and a mark."""


@dataclass(frozen=True)
class Counted:
    """The state as a census found it."""

    sizes: Sizes
    counted_ms: int
    """When it was finished."""
    seconds: float
    """How long it took, rests included."""
    written_bytes: int
    """`Store.written_bytes` when it began: what came since may not be in it."""


class Census:
    """Of one store. `run` is a thread's; `want`, `stop` and `counted` are anybody's."""

    def __init__(
        self,
        store: Store,
        shards: ShardMap,
        every_ms: int,
        now_ms: Callable[[], int],
        log: Any,
        share: float = SHARE,
    ) -> None:
        """`every_ms`: from the end of one to the beginning of the next."""
        self._store = store
        self._shards = shards
        self._every_s = every_ms / 1000
        self._now_ms = now_ms
        self._log = log
        self._share = share
        self._stop = threading.Event()
        self._wanted = threading.Event()
        self.counted: Counted | None = None
        """The last one; None before the first is finished."""

    def want(self) -> None:
        """Count again as soon as can be; asked again while it counts, it counts once more."""
        self._wanted.set()

    def stop(self) -> None:
        """End `run` within a moment."""
        self._stop.set()

    def run(self) -> None:
        """Count, now and then, until stopped. Raises nothing: what cannot be read now is counted later."""
        due_s = 0.0
        while not self._stop.wait(LOOK_S):
            if self._store.applied is None or (time.monotonic() < due_s and not self._wanted.is_set()):
                continue
            try:
                self._wanted.clear()
                self.counted = self.count()
            except Stopped:
                return
            except MachineError as error:  # it is being replaced, or the disk fails: others say so
                self._log.warning("the state was not counted", error=str(error))
            due_s = time.monotonic() + self._every_s

    def count(self) -> Counted:
        """Count now. Raises Stopped, MachineError."""
        begun_s, written = time.monotonic(), self._store.written_bytes
        tally, start = Tally(), WINDOWS_START
        while start < WINDOWS_END:
            start = self._segment(self._store.pin(), start, tally)
        return Counted(tally.sizes(), self._now_ms(), time.monotonic() - begun_s, written)

    def _segment(self, rows: Pinned, start: bytes, tally: Tally) -> bytes:
        """The first segment at or behind `start`; returns where to go on."""
        first = rows.first(start)
        if first is None:
            return WINDOWS_END
        number = parse_segment(first)
        end = segment_prefix(number + 1)
        while True:
            begun_s = time.monotonic()
            piece = rows.piece(first, end, PIECE_ROWS)
            for _, run in groupby(piece, key=lambda one: key_of(one[0])):
                found = list(run)
                text = parse(found[0][0]).key
                size = sum(len(storage) + len(value) for storage, value in found)
                tally.add(number, self._shards.shard(key_hash(text)), _name(text), len(found), size)
            if len(piece) < PIECE_ROWS:
                return end
            first = piece[-1][0] + b"\x00"
            if self._stop.wait((time.monotonic() - begun_s) * (1 / self._share - 1)):
                raise Stopped


def _name(key: str) -> str:
    """A key in bounded memory; another one for another key."""
    if len(key) <= KEY_CHARACTERS:
        return key
    return f"{key[:KEY_CHARACTERS]}… ({hashlib.sha256(key.encode()).hexdigest()[:16]})"

"""The newest row per key, gathered by the optional module: plain rows there, all others by the reference.

A piece of the log is taken whole by the one or the other, so both refuse the same piece in the same words. What
the reference took is handed on at once: the newest row of a key is the one that came last, whoever took it.
"""

from __future__ import annotations

from cutwater.adapters.fetch.native_rows import new_rows
from cutwater.adapters.fetch.record_batches import Chunk, sections
from cutwater.core.protocol.row_digest import fold
from cutwater.core.state.bulk_load import Task
from cutwater.views.bulk.newest_rows import Gathered, Into
from cutwater.views.changelog.key_codec import Windows

_FAR = (1 << 63) - 1
_UNTOLD = 4
"""So many times what is held at most is read between two files."""


class NativeGathered:
    """Implements `Gathering`."""

    def __init__(self, task: Task) -> None:
        key_header, value_header = bytes.fromhex(task.key_header), bytes.fromhex(task.value_header)
        own = task.own.encode()
        self._plain = new_rows(key_header, value_header, own, task.rows_max, task.bytes_max)
        self._windows = Windows(key_header, task.topic, task.segment_ms, task.floor_ms)
        self._other = Gathered(task)
        self._bytes_untold = _UNTOLD * task.bytes_max
        self._written = 0

    @property
    def rows(self) -> int:
        return self._plain.rows + self._other.rows

    @property
    def digest(self) -> int:
        return fold((self._plain.digest,), self._other.digest)

    @property
    def records(self) -> int:
        return self._plain.records + self._other.records

    @property
    def bytes(self) -> int:
        return self._plain.size + self._other.bytes

    def take(self, partition: int, piece: Chunk, end: int) -> None:
        found = sections(piece)
        until = end if piece.following > end else _FAR  # as the reference: a batch's own word is believed
        if found is not None and self._plain.take(found, piece.first, until, self._windows):
            return
        self._other.take(partition, piece, end)
        for key, value in self._other.sorted_rows():
            self._plain.put(key, value)

    def full(self) -> bool:
        # Files, empty ones as well, are how a restore comes on: rows that are not kept, or come again, count too.
        return self._plain.full() or self.bytes - self._written >= self._bytes_untold

    def write(self, to: Into) -> int:
        self._written = self.bytes
        return self._plain.write(to)

"""The newest row per key with the optional native module, which takes plain rows, and `newest_rows` for all
others.

Each piece of the log is taken by one of the two, so both refuse it with the same text. Rows from `newest_rows` are
passed on at once, since a key's last row counts.
"""

from __future__ import annotations

from cutwater.adapters.fetch.native_rows import new_rows
from cutwater.adapters.fetch.record_batches import Chunk, sections
from cutwater.core.protocol.changelog_rows import fold
from cutwater.core.state.bulk_load import Task
from cutwater.views.bulk.newest_rows import Into, NewestRows
from cutwater.views.changelog.key_codec import Windows

_FAR = (1 << 63) - 1
_UNTOLD = 4
"""Between two files at most this times the bytes held are read."""


class NativeNewestRows:
    """Implements `NewestRowsPort`."""

    def __init__(self, task: Task) -> None:
        key_header, value_header = bytes.fromhex(task.key_header), bytes.fromhex(task.value_header)
        own = task.own.encode()
        self._plain = new_rows(key_header, value_header, own, task.rows_max, task.bytes_max)
        self._windows = Windows(key_header, task.topic, task.segment_ms, task.floor_ms)
        self._other = NewestRows(task)
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
        until = end if piece.following > end else _FAR  # as in `newest_rows`: a batch's own bounds are believed
        if found is not None and self._plain.take(found, piece.first, until, self._windows):
            return
        self._other.take(partition, piece, end)
        for key, value in self._other.sorted_rows():
            self._plain.put(key, value)

    def full(self) -> bool:
        # Progress is reported by file, even by an empty one, so rows that are skipped or replaced count too.
        return self._plain.full() or self.bytes - self._written >= self._bytes_untold

    def write(self, to: Into) -> int:
        self._written = self.bytes
        return self._plain.write(to)

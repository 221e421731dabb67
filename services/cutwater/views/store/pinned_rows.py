"""The rows of a store as they were at one moment, for any number of readers.

An iterator of RocksDB sees the moment it was made at, whatever is written later; that is what keeps the moment
here. (rocksdict 0.3.29 has snapshots, but their iterators do not respect them: they see later writes.) Readers
share the one iterator in turn, a piece at a time, so that a long scan does not hold up a short read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from cutwater.core.errors import MachineError
from cutwater.views.store.table import Cursor

PIECE_ROWS = 500


class Pinned:
    """Rows at one moment. Keeps the files of that moment alive until the last reader lets go of it."""

    def __init__(self, cursor: Cursor, folder: Path) -> None:
        self._cursor = cursor
        self._folder = folder
        self._turn = threading.Lock()

    def rows(self, start: bytes, stop: bytes, piece_rows: int = PIECE_ROWS) -> Iterator[tuple[bytes, bytes]]:
        """Storage keys in [start, stop) with their values, in order. Raises MachineError when the disk fails."""
        while piece := self.piece(start, stop, piece_rows):
            yield from piece
            if len(piece) < piece_rows:
                return
            start = piece[-1][0] + b"\x00"

    def first(self, start: bytes) -> bytes | None:
        """The first storage key at or after `start`."""
        with self._turn:
            return self._cursor.key() if self._seek(start) else None

    def piece(self, start: bytes, stop: bytes, most: int) -> list[tuple[bytes, bytes]]:
        """The first of them at once, at most so many."""
        found: list[tuple[bytes, bytes]] = []
        cursor = self._cursor  # looked up once: there may be millions of rows
        with self._turn:
            cursor.seek(start)
            while cursor.valid() and len(found) < most and (key := cursor.key()) < stop:
                found.append((key, cursor.value()))
                cursor.next()
            self._valid()
        return found

    def _seek(self, start: bytes) -> bool:
        self._cursor.seek(start)
        return self._valid()

    def _valid(self) -> bool:
        if self._cursor.valid():
            return True
        try:
            self._cursor.status()  # an iterator that failed looks like one that ended, unless it is asked
        except Exception as error:  # rocksdict raises the bare class
            raise MachineError(
                f"{self._folder}: reading failed: {error}. Check the disk; delete the folder to rebuild the view."
            ) from error
        return False

"""The rows of a store at one moment, for any number of readers.

A RocksDB iterator keeps the moment of its creation; iterators of rocksdict 0.3.29's snapshots see later writes.
Readers share one iterator and take turns piece by piece, so that a long scan does not block a short read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from cutwater.core.errors import MachineError
from cutwater.views.store.table import Cursor

PIECE_ROWS = 500


class PinnedRows:
    """Rows at one moment. Keeps that moment's files until the last reader releases it."""

    def __init__(self, cursor: Cursor, folder: Path) -> None:
        self._cursor = cursor
        self._folder = folder
        self._turn = threading.Lock()

    def rows(self, start: bytes, stop: bytes, piece_rows: int = PIECE_ROWS) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys in [start, stop) with their values, in order. Raises MachineError if the disk fails."""
        while piece := self.piece(start, stop, piece_rows):
            yield from piece
            if len(piece) < piece_rows:
                return
            start = piece[-1][0] + b"\x00"

    def first(self, start: bytes) -> bytes | None:
        """Return the first storage key at or after `start`."""
        with self._turn:
            return self._cursor.key() if self._seek(start) else None

    def piece(self, start: bytes, stop: bytes, most: int) -> list[tuple[bytes, bytes]]:
        """Return at most `most` of the rows in [start, stop)."""
        found: list[tuple[bytes, bytes]] = []
        cursor = self._cursor  # a local variable: there may be millions of rows
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
            self._cursor.status()  # without this, a failed iterator looks like one at its end
        except Exception as error:  # rocksdict raises the bare class
            raise MachineError(
                f"{self._folder}: reading failed: {error}. Check the disk. Delete the folder to rebuild the view."
            ) from error
        return False

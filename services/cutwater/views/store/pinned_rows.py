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
PIECE_BYTES = 4 << 20
"""Of values, plus one: a piece of large rows is shorter."""


class PinnedRows:
    """Rows at one moment. Keeps that moment's files until the last reader releases it."""

    def __init__(self, cursor: Cursor, folder: Path) -> None:
        self._cursor = cursor
        self._folder = folder
        self._turn = threading.Lock()

    def rows(self, start: bytes, stop: bytes, piece_rows: int = PIECE_ROWS) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys in [start, stop) with their values, in order. Raises MachineError if the disk fails."""
        goes_on = True
        while goes_on:
            piece, goes_on = self.piece(start, stop, piece_rows)
            yield from piece
            if goes_on:
                start = piece[-1][0] + b"\x00"

    def first(self, start: bytes) -> bytes | None:
        """Return the first storage key at or after `start`."""
        with self._turn:
            return self._cursor.key() if self._seek(start) else None

    def piece(self, start: bytes, stop: bytes, most: int) -> tuple[list[tuple[bytes, bytes]], bool]:
        """Return at most `most` of the rows in [start, stop), and whether there may be more of them."""
        found: list[tuple[bytes, bytes]] = []
        room = PIECE_BYTES
        cursor = self._cursor  # a local variable: there may be millions of rows
        with self._turn:
            cursor.seek(start)
            while cursor.valid() and len(found) < most and room > 0 and (key := cursor.key()) < stop:
                value = cursor.value()
                found.append((key, value))
                room -= len(value)
                cursor.next()
            self._valid()
        return found, len(found) == most or room <= 0

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

"""Reads an answer ahead into a file, so that its sender does not wait while earlier answers are read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from cutwater.core.errors import UnavailableError

WAIT_S_MAX = 1_000.0
"""The wait for an answer's end: longer than a rehydrator allows an export to take."""
_CLOSE_S = 1.0
_PIECE_BYTES = 1 << 20


class ReadAhead:
    """The bytes of one answer, in order. After `begin` a thread reads some of them ahead."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._thread: threading.Thread | None = None
        self._stop = False
        self._error: Exception | None = None
        self._size = 0

    def begin(self, folder: Path, bytes_max: int) -> None:
        """Read ahead into an unnamed file in this folder: at most `bytes_max` plus one chunk. A second call does
        nothing. Raises OSError."""
        if self._thread is None:
            self._file: IO[bytes] = TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - open until `close`
            self._thread = threading.Thread(target=self._read, args=(bytes_max,), name="ahead", daemon=True)
            self._thread.start()

    def _read(self, bytes_max: int) -> None:
        try:
            while self._size < bytes_max and not self._stop and (chunk := next(self._chunks, None)) is not None:
                at = 0
                while at < len(chunk):
                    at += self._file.write(memoryview(chunk)[at:])  # a write to a full disk may be short
                self._size += len(chunk)
        except Exception as error:  # raised to the reader after the bytes before it
            self._error = error

    def __iter__(self) -> Iterator[bytes]:
        """Yield all bytes. Raise errors of the reading thread, and UnavailableError after `WAIT_S_MAX`."""
        ahead = True
        while True:
            if ahead and self._thread is not None:
                yield from self._file_pieces(self._thread)
                ahead = False
            chunk = next(self._chunks, None)
            if chunk is None:
                return
            yield chunk

    def _file_pieces(self, thread: threading.Thread) -> Iterator[bytes]:
        thread.join(WAIT_S_MAX)
        if thread.is_alive():
            raise UnavailableError(f"an export did not end within {WAIT_S_MAX:g} s")
        self._file.seek(0)
        while piece := self._file.read(min(_PIECE_BYTES, self._size)):
            self._size -= len(piece)
            yield piece
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Remove the file, and wait briefly for the thread."""
        self._stop = True
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
            self._file.close()

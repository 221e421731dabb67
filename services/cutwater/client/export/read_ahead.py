"""An answer that is read ahead into a file: who sends it does not wait until those before it are read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from cutwater.core.errors import UnavailableError

WAIT_S_MAX = 1_000.0
"""For an answer's end: longer than a rehydrator lets an export take."""
_CLOSE_S = 1.0
_PIECE_BYTES = 1 << 20


class Ahead:
    """The bytes of one answer, in order. Some of them a thread may read, once it is told to begin."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._thread: threading.Thread | None = None
        self._stop = False
        self._error: Exception | None = None
        self._size = 0

    def begin(self, folder: Path, bytes_max: int) -> None:
        """Read on from now, so many bytes at most and a chunk more, into a file without a name in this folder.

        Where it has begun already, nothing. Raises OSError.
        """
        if self._thread is None:
            self._file: IO[bytes] = TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - open until `close`
            self._thread = threading.Thread(target=self._read, args=(bytes_max,), name="ahead", daemon=True)
            self._thread.start()

    def _read(self, bytes_max: int) -> None:
        try:
            while self._size < bytes_max and not self._stop and (chunk := next(self._chunks, None)) is not None:
                at = 0
                while at < len(chunk):
                    at += self._file.write(memoryview(chunk)[at:])  # one on a full disk may be short
                self._size += len(chunk)
        except Exception as error:  # whoever reads the bytes gets it in its place behind them
            self._error = error

    def __iter__(self) -> Iterator[bytes]:
        """Raises what reading raises, OSError of the disk, and UnavailableError where there is no end."""
        ahead = True
        while True:
            if ahead and self._thread is not None:
                yield from self._kept(self._thread)
                ahead = False
            chunk = next(self._chunks, None)
            if chunk is None:
                return
            yield chunk

    def _kept(self, thread: threading.Thread) -> Iterator[bytes]:
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
        """The file goes. A thread that waits for its answer ends with it."""
        self._stop = True
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
            self._file.close()

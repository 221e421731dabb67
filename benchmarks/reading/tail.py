"""The job that goes on while the view is read: an epoch of rows every half second."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.rehydrate.log import Log

EPOCH_S = 0.5


class Tail:
    """Writes epochs from a thread; `rows_per_s` rows a second, in epochs of `epoch_s` seconds."""

    def __init__(self, log: Log, rows_per_s: int, epoch_s: float = EPOCH_S) -> None:
        self._log = log
        self._epoch_s = epoch_s
        self._rows = max(1, int(rows_per_s * epoch_s))
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self.epochs = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Raises what ended it."""
        self._stop.clear()
        thread = threading.Thread(target=self._guarded, name="tail", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(30)
        if self._error:
            raise self._error

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self._error = error

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            self._log.add_epoch(self._rows)
            self.epochs += 1
            due += self._epoch_s

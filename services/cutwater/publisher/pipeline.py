"""Writes one transaction while the next one is read, proved and encoded. Only one, to limit memory."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor


class Pipeline:
    """Runs jobs one after the other in its own thread; at most one is in progress."""

    def __init__(self, thread: Executor | None = None) -> None:
        """`thread`: the executor, which must run one job at a time; by default a thread of its own."""
        self._thread = thread or ThreadPoolExecutor(max_workers=1, thread_name_prefix="output")
        self._running: Future[None] | None = None

    def submit(self, job: Callable[[], None]) -> None:
        """Start a job once the previous one has ended. If that raised, raise its error and start nothing."""
        self.settle()
        self._running = self._thread.submit(job)

    def check(self) -> None:
        """Raise the error of a job that has ended; does not wait."""
        if self._running is not None and self._running.done():
            self.settle()

    def settle(self) -> None:
        """Wait for the current job; raise its error, once."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self) -> None:
        """Wait for the current job and end the thread. Raises nothing: call `settle` before."""
        self._thread.shutdown(wait=True)

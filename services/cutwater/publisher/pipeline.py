"""One transaction is written while the next one is read, proved and encoded. One, so that memory has a bound."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor


class Pipeline:
    """Runs jobs one after the other in a thread of its own; at most one is under way."""

    def __init__(self, thread: Executor | None = None) -> None:
        """`thread`: what runs the jobs, one after the other; a thread of its own by default."""
        self._thread = thread or ThreadPoolExecutor(max_workers=1, thread_name_prefix="output")
        self._running: Future[None] | None = None

    def submit(self, job: Callable[[], None]) -> None:
        """Start a job once the one before has ended. Raises what that one raised; then nothing is started."""
        self.settle()
        self._running = self._thread.submit(job)

    def check(self) -> None:
        """Raise what a job that has ended raised; does not wait."""
        if self._running is not None and self._running.done():
            self.settle()

    def settle(self) -> None:
        """Wait for the job under way; raises what it raised, once."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self) -> None:
        """Wait for the job under way, and end the thread. Raises nothing: `settle` before it does."""
        self._thread.shutdown(wait=True)

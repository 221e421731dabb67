"""Limits of the global view: concurrent queries, bytes of regions' answers, threads, and time.

A query beyond a limit is refused at once: several large ones that wait for memory would block each other. All of
it runs on the event loop's thread, except the jobs given to `work`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

from cutwater.core.errors import UnavailableError
from cutwater.rehydrator.metrics.metrics import Metrics

QUESTIONS_MAX = 64
"""Each waits for the slowest region, and holds a connection to every region."""
HELD_BYTES_MAX = 256 << 20
"""Of all regions' answers together, from before they are read until the merged rows are rendered."""
MERGERS = 2
"""Threads that parse answers and merge them: more would take the processor from other readers."""
ASK_S = 15.0
"""Time for a region's answer over all its URLs, beyond the wait that the query allows."""
ANSWER_S = 30.0
"""Time for all regions and the merge, beyond the wait that the query allows."""

Found = TypeVar("Found")


class Crowded(UnavailableError):
    """A limit of this rehydrator is reached: not an error of a region or of the query."""


class MemoryReservation:
    """The bytes that one query holds, until it has ended and no thread works on them."""

    def __init__(self, take: Callable[[int], None], release: Callable[[int], None]) -> None:
        self._take, self._release = take, release
        self._bytes = self._working = 0
        self._left = False

    def take(self, count: int) -> None:
        """Reserve `count` more bytes. Raises Crowded if they do not fit."""
        self._take(count)
        self._bytes += count

    def leave(self) -> None:
        """End the query. Threads cannot be stopped: their bytes stay counted until they end."""
        self._left = True
        self._empty()

    def job_started(self) -> None:
        """Count a thread that works on it."""
        self._working += 1

    def job_finished(self) -> None:
        """Count a thread that has ended."""
        self._working -= 1
        self._empty()

    def _empty(self) -> None:
        if self._left and not self._working:
            self._release(self._bytes)


class Admission:
    """The limits of one rehydrator."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._asked = self._held = 0
        self._pool = ThreadPoolExecutor(MERGERS, "global")

    @asynccontextmanager
    async def admitted(self, wait_s: float) -> AsyncIterator[MemoryReservation]:
        """Admit a query that may wait for `wait_s` itself. Raises Crowded if a limit is reached."""
        self._metrics.global_questions.inc()
        if self._asked >= QUESTIONS_MAX:
            raise self._crowded("questions", f"{QUESTIONS_MAX} global queries are already running")
        with self._reserve() as room:
            try:
                async with asyncio.timeout(wait_s + ANSWER_S):
                    yield room
            except TimeoutError:
                raise self._crowded("time", f"the regions' rows were not merged within {ANSWER_S:g} s") from None

    @contextmanager
    def _reserve(self) -> Iterator[MemoryReservation]:
        room = MemoryReservation(self._take, self._given_back)
        self._asked += 1
        try:
            with self._metrics.global_under_way.track_inprogress():
                yield room
        finally:
            self._asked -= 1
            room.leave()

    def _take(self, count: int) -> None:
        if self._held + count > HELD_BYTES_MAX:
            raise self._crowded("bytes", f"no room for {count:,} more bytes of regions' answers")
        self._held += count
        self._metrics.region_bytes.inc(count)

    def _given_back(self, count: int) -> None:
        self._held -= count
        self._metrics.region_bytes.dec(count)

    def _crowded(self, bound: str, why: str) -> Crowded:
        self._metrics.refused(bound)
        return Crowded(f"this rehydrator is busy: {why}. Try again in a moment, or request fewer rows")

    async def work(self, room: MemoryReservation, job: Callable[..., Found], *given: Any) -> Found:
        """Run a job in a thread of the pool, so that it does not block the event loop."""
        loop = asyncio.get_running_loop()
        room.job_started()
        done = self._pool.submit(job, *given)

        def ended(_: Future[Found]) -> None:
            with suppress(RuntimeError):  # the process ends, and its loop is closed
                loop.call_soon_threadsafe(room.job_finished)

        done.add_done_callback(ended)
        return await asyncio.wrap_future(done)

"""How much of the global view is under way at a time: questions, bytes of regions' answers, threads, and how long.

A question that would pass a bound is refused at once and as a whole: waiting for room, many large ones would only
keep each other from ending. All of it is for the event loop's thread, but for what is given to `work`.
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
"""Each waits for the slowest region, and holds a connection to every one."""
HELD_BYTES_MAX = 256 << 20
"""Of all regions' answers together, from before they are read until the rows are merged and rendered."""
MERGERS = 2
"""Threads that take answers apart and merge them: more would only take the processor from other readers."""
ASK_S = 15.0
"""How long, beyond the wait that a question asks for, a region may take, by whatever URL."""
ANSWER_S = 30.0
"""The same of all regions together, and of the merge."""

Found = TypeVar("Found")


class Crowded(UnavailableError):
    """A bound of this rehydrator is reached: no fault of a region, nor of the question."""


class Room:
    """What one question holds: until it is over, and no thread works on what came for it."""

    def __init__(self, take: Callable[[int], None], release: Callable[[int], None]) -> None:
        self._take, self._release = take, release
        self._bytes = self._working = 0
        self._left = False

    def take(self, count: int) -> None:
        """So many bytes more; raises Crowded where there is no room for them."""
        self._take(count)
        self._bytes += count

    def leave(self) -> None:
        """The question is over. A thread cannot be told so: what it works on stays counted until it has ended."""
        self._left = True
        self._empty()

    def begun(self) -> None:
        """A thread works on it."""
        self._working += 1

    def ended(self) -> None:
        """One does no more."""
        self._working -= 1
        self._empty()

    def _empty(self) -> None:
        if self._left and not self._working:
            self._release(self._bytes)


class Admission:
    """The bounds of one rehydrator."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._asked = self._held = 0
        self._pool = ThreadPoolExecutor(MERGERS, "global")

    @asynccontextmanager
    async def admitted(self, wait_s: float) -> AsyncIterator[Room]:
        """Around a question, which itself may wait so long. Raises Crowded where a bound is reached."""
        self._metrics.global_questions.inc()
        if self._asked >= QUESTIONS_MAX:
            raise self._crowded("questions", f"{QUESTIONS_MAX} global questions are under way already")
        with self._counted() as room:
            try:
                async with asyncio.timeout(wait_s + ANSWER_S):
                    yield room
            except TimeoutError:
                raise self._crowded("time", f"the regions' rows were not merged within {ANSWER_S:g} s") from None

    @contextmanager
    def _counted(self) -> Iterator[Room]:
        room = Room(self._take, self._given_back)
        self._asked += 1
        try:
            with self._metrics.global_under_way.track_inprogress():
                yield room
        finally:
            self._asked -= 1
            room.leave()

    def _take(self, count: int) -> None:
        if self._held + count > HELD_BYTES_MAX:
            raise self._crowded("bytes", f"no room for {count:,} bytes more of regions' answers")
        self._held += count
        self._metrics.region_bytes.inc(count)

    def _given_back(self, count: int) -> None:
        self._held -= count
        self._metrics.region_bytes.dec(count)

    def _crowded(self, bound: str, why: str) -> Crowded:
        self._metrics.refused(bound)
        return Crowded(f"this rehydrator is busy: {why}. Ask again in a moment, or for fewer rows at a time")

    async def work(self, room: Room, job: Callable[..., Found], *given: Any) -> Found:
        """Done in a thread: what the event loop must not stand still for. Waits for its turn."""
        loop = asyncio.get_running_loop()
        room.begun()
        done = self._pool.submit(job, *given)

        def ended(_: Future[Found]) -> None:
            with suppress(RuntimeError):  # the process ends, and its loop is closed
                loop.call_soon_threadsafe(room.ended)

        done.add_done_callback(ended)
        return await asyncio.wrap_future(done)

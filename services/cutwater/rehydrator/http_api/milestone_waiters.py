"""Requests that wait for a milestone: the thread that shows one wakes them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LOOK_S = 1.0
"""A waiting request also checks this often, because not every change wakes it."""

Turn = asyncio.Future[None]


class Waiters:
    """The waiting requests of one view. Any thread may call `wake`; `turn` belongs to an event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[asyncio.AbstractEventLoop, set[Turn]] = {}

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Yield a future that the next `wake` completes. Check once more inside: earlier wakes do not count."""
        loop = asyncio.get_running_loop()
        one: Turn = loop.create_future()
        with self._lock:
            self._turns.setdefault(loop, set()).add(one)
        try:
            yield one
        finally:
            with self._lock:
                waiting = self._turns.get(loop, set())
                waiting.discard(one)
                if not waiting:
                    self._turns.pop(loop, None)

    def wake(self) -> None:
        """Wake all waiting requests."""
        with self._lock:
            woken, self._turns = self._turns, {}
        for loop, turns in woken.items():
            with suppress(RuntimeError):  # its event loop is closed
                loop.call_soon_threadsafe(_end, turns)


def _end(turns: set[Turn]) -> None:
    for one in turns:
        if not one.done():
            one.set_result(None)

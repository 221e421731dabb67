"""Requests that wait for a milestone: woken when one is shown, by the thread that shows it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LOOK_S = 1.0
"""After so long one looks by itself: for what nobody tells."""

Turn = asyncio.Future[None]


class Waiters:
    """Of one view. `wake` is for any thread, `turn` for an event loop's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[asyncio.AbstractEventLoop, set[Turn]] = {}

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Done at the next `wake`. Look once more within: what was shown before is not told again."""
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
        """There may be something new to see."""
        with self._lock:
            woken, self._turns = self._turns, {}
        for loop, turns in woken.items():
            with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(_end, turns)


def _end(turns: set[Turn]) -> None:
    for one in turns:
        if not one.done():
            one.set_result(None)

"""A candidate beside the promoted generation's driver: between two epochs it rests, until it is wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cutwater.core.util.duty_cycle import Pace

LOOK_S = 2.0
"""So often it looks whether it is wanted, while it rests."""


class CatchingUp:
    """`epoch` is held around each. A stop ends a rest, and so does who wants it promoted: for good.

    What it had read when it began to rest is old when it is committed, and a promotion waits for a milestone that
    is not behind the promoted generation's: who rests never is there.
    """

    def __init__(
        self, share: float, wanted: Callable[[], bool], stop: threading.Event, rests: Callable[[float], None]
    ) -> None:
        """`rests` is told, in seconds, what it is about to rest. With a share of 1 nobody is asked."""
        self._pace = Pace(share)
        self._over = share >= 1
        self._wanted = wanted
        self._stop = stop
        self._rests = rests

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """Rest as long as the epochs before make necessary, then work."""
        self._rest()
        since_s = time.monotonic()
        yield
        self._pace.worked(since_s, time.monotonic())

    def _rest(self) -> None:
        while not self._over and not self._stop.is_set() and self._pace.rest_s(time.monotonic()):
            self._over = self._wanted()
            # Asking took time, too.
            if not self._over and (seconds := min(self._pace.rest_s(time.monotonic()), LOOK_S)):
                self._rests(seconds)
                self._stop.wait(seconds)

"""A candidate beside the promoted generation's driver: between two epochs it rests, until it is promoted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cutwater.core.pacing import Pace


class CatchingUp:
    """`epoch` is held around each. A stop ends a rest; a promotion is seen when the next rest begins."""

    def __init__(
        self, share: float, promoted: Callable[[], bool], stop: threading.Event, rests: Callable[[float], None]
    ) -> None:
        """`rests` is told how long, in seconds, before each rest. With a share of 1 nobody is asked."""
        self._pace = Pace(share)
        self._over = share >= 1
        self._promoted = promoted
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
        if self._over or not self._pace.rest_s(time.monotonic()):
            return
        self._over = self._promoted()
        if not self._over:
            # Asking took time, too.
            seconds = self._pace.rest_s(time.monotonic())
            self._rests(seconds)
            self._stop.wait(seconds)

"""The throttle of a candidate: it rests between epochs until its promotion is requested."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cutwater.core.util.rate_limit import DutyCycle

LOOK_S = 2.0
"""The interval of checks for a promotion request during a rest."""


class CandidateThrottle:
    """Wraps each epoch in `epoch`. A stop ends a rest; a promotion request ends all rests.

    An epoch that is read before a rest is old when it is committed. A promotion waits for a milestone that is not
    behind the promoted generation's, and a candidate that rests never has one.
    """

    def __init__(
        self, share: float, wanted: Callable[[], bool], stop: threading.Event, rests: Callable[[float], None]
    ) -> None:
        """`rests`: called with the seconds of each rest. `wanted`: not called with a share of 1."""
        self._pace = DutyCycle(share)
        self._over = share >= 1
        self._wanted = wanted
        self._stop = stop
        self._rests = rests

    @contextmanager
    def epoch(self) -> Iterator[None]:
        self._rest()
        since_s = time.monotonic()
        yield
        self._pace.record_work(since_s, time.monotonic())

    def _rest(self) -> None:
        while not self._over and not self._stop.is_set() and self._pace.rest_s(time.monotonic()):
            self._over = self._wanted()
            if not self._over and (seconds := min(self._pace.rest_s(time.monotonic()), LOOK_S)):
                self._rests(seconds)
                self._stop.wait(seconds)

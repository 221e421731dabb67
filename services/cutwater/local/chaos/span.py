"""What each fault is told: which processes, and until when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import psutil

Find = Callable[[], Sequence[psutil.Process]]
"""Returns the present processes of a service."""


class Span:
    """The time of a fault: until `until_s` of the monotonic clock, or until `ended` is set."""

    def __init__(self, until_s: float, ended: threading.Event) -> None:
        self._until_s, self._ended = until_s, ended

    @property
    def is_over(self) -> bool:
        return self._ended.is_set() or time.monotonic() >= self._until_s

    @property
    def rest_s(self) -> float:
        """Seconds to the end."""
        return max(0.0, self._until_s - time.monotonic())

    def rest(self, seconds: float = float("inf")) -> None:
        """Wait so long, at most to the end."""
        self._ended.wait(max(0.0, min(seconds, self._until_s - time.monotonic())))

"""Answers that cost a read of the brokers: made when a page asks, kept for a while, never made twice at once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from cutwater.core.errors import UnavailableError

WAIT_S = 30.0
KEPT_MAX = 64


class _Answer(NamedTuple):
    value: Any
    made_s: float


class OnDemand:
    """The newest answers by name, at most `most`."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic, most: int = KEPT_MAX) -> None:
        self._clock_s, self._most = clock_s, most
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}
        self._kept: OrderedDict[str, _Answer] = OrderedDict()

    def get(self, name: str, for_s: float, make: Callable[[], Any]) -> Any:
        """Return the answer of that name, made at most `for_s` ago. An error is kept by nobody.

        Raises UnavailableError if another request makes it for too long.
        """
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        if not making.acquire(timeout=WAIT_S):
            raise UnavailableError("the same page is being read for another request: try again in a moment")
        try:
            kept = self.peek(name)
            if kept is not None and self._clock_s() - kept.made_s < for_s:
                return kept.value
            value = make()
            self._keep(name, value)
            return value
        except BaseException:
            with self._lock:
                self._making.pop(name, None)  # names come from requests: only kept answers keep their lock
            raise
        finally:
            making.release()

    def peek(self, name: str) -> Any:
        """Return what is kept of that name, however old, with its time; None if nothing is."""
        with self._lock:
            return self._kept.get(name)

    def forget(self) -> None:
        """Keep no answer: something was changed."""
        with self._lock:
            self._kept.clear()

    def _keep(self, name: str, value: Any) -> None:
        with self._lock:
            self._kept[name] = _Answer(value, self._clock_s())
            self._kept.move_to_end(name)
            while len(self._kept) > self._most:
                oldest, _ = self._kept.popitem(last=False)
                self._making.pop(oldest, None)

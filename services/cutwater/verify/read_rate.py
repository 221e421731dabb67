"""Reading at a bounded rate: what is read is counted, and paid for by waiting before more is asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from confluent_kafka import Message

from cutwater.core.util.rate_limit import Throttle
from cutwater.views.changelog.range_reader import Range, Stopped

_WAIT_S = 0.05


class Pace:
    """Counts the bytes of keys and values. What the client fetches ahead meanwhile (16 MB) has its own bound."""

    def __init__(
        self,
        bytes_per_s: int = 0,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """`bytes_per_s`: 0 for no bound. `clock_s` never goes back. `stopping` ends a wait."""
        self.stopping = stopping
        self.size = 0
        self._throttle = Throttle(bytes_per_s)
        self._clock_s, self._sleep = clock_s, sleep

    def records(self, range_: Range) -> Iterator[Message]:
        """All of a range, no faster than allowed. Raises `Stopped`, and as the range does."""
        for _, messages in range_.pieces():
            self._take(sum(_size(one) for one in messages))
            yield from messages

    def _take(self, size: int) -> None:
        while not self._throttle.free(self._clock_s()):
            if self.stopping():
                raise Stopped
            self._sleep(_WAIT_S)
        self._throttle.took(size, self._clock_s())
        self.size += size


def _size(message: Message) -> int:
    return len(message.key() or b"") + len(message.value() or b"")

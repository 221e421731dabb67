"""Reading at a limited rate: after each read, wait until the bytes read are within the limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from confluent_kafka import Message

from cutwater.core.util.rate_limit import Throttle
from cutwater.views.changelog.range_reader import Range, Stopped

_WAIT_S = 0.05


class ReadRateLimit:
    """Limits the rate of bytes of keys and values. The client's read-ahead has its own limit of 16 MB."""

    def __init__(
        self,
        bytes_per_s: int = 0,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """`bytes_per_s`: the limit, 0 for none. `clock_s`: a monotonic clock. `stopping`: ends a wait if true."""
        self.stopping = stopping
        self.size = 0
        self._throttle = Throttle(bytes_per_s)
        self._clock_s, self._sleep = clock_s, sleep

    def records(self, range_: Range) -> Iterator[Message]:
        """Yield the records of a range at the limited rate. Raises `Stopped`, and as the range."""
        for _, messages in range_.pieces():
            self._take(sum(_size(one) for one in messages))
            yield from messages

    def _take(self, size: int) -> None:
        while not self._throttle.free(self._clock_s()):
            if self.stopping():
                raise Stopped
            self._sleep(_WAIT_S)
        self._throttle.record_bytes(size, self._clock_s())
        self.size += size


def _size(message: Message) -> int:
    return len(message.key() or b"") + len(message.value() or b"")

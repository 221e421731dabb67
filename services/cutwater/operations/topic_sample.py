"""A bounded sample of the newest records of a topic."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Message

from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range
from cutwater.adapters.kafka.client_config import Cluster

BYTES_MAX = 64 * 1024 * 1024
SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Sample:
    """One record of the topic."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    header_bytes: int

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        return len(self.key or b"") + len(self.value or b"") + self.header_bytes


def sample(
    cluster: Cluster, topic: str, records_max: int, report: Callable[[int], None] = lambda _: None
) -> list[Sample]:
    """Return the newest records of each partition in equal parts, in the partition's order. Ends early after 64
    MB or 60 s. Where compaction, or a transaction that was aborted, has left no record among the newest offsets,
    older ones are looked at. Raises UsageError if the topic does not exist."""
    count = partition_count(cluster, topic)
    consumer = make_consumer(cluster)
    found: list[Sample] = []
    size, deadline = 0, time.monotonic() + SECONDS_MAX
    try:
        for one in _newest(consumer, topic, count, records_max, deadline):
            found.append(one)
            size += one.size
            report(len(found))
            if size > BYTES_MAX or len(found) >= records_max:
                break
    finally:
        consumer.close()
    return found


def _newest(
    consumer: Consumer, topic: str, partitions: int, records_max: int, deadline: float
) -> Iterator[Sample]:
    ends = {number: bounds(consumer, topic, number) for number in range(partitions)}
    filled = {number: at for number, at in ends.items() if at[0] < at[1]}
    share = max(1, records_max // max(1, len(filled)))
    for number, (low, high) in filled.items():
        first, is_empty = max(low, high - share), True
        for message in read_range(consumer, topic, number, first, high):
            is_empty = False
            yield _sample(message)
            if time.monotonic() > deadline:
                return
        if is_empty:
            yield from _before(consumer, (topic, number), (low, first), share, deadline)


def _before(
    consumer: Consumer, place: tuple[str, int], between: tuple[int, int], share: int, deadline: float
) -> Iterable[Sample]:
    """Return the last records between two offsets, of pieces in doubling steps backwards, until one has any. Of
    the piece that is being read at the deadline, return the last ones until then."""
    (low, end), step = between, 2 * share
    while end > low and time.monotonic() < deadline:
        kept, size = deque[Sample](maxlen=share), 0
        first = max(low, end - step)
        for message in read_range(consumer, *place, first, end):
            size -= kept[0].size if len(kept) == share else 0
            kept.append(_sample(message))
            size += kept[-1].size
            while size > BYTES_MAX:
                size -= kept.popleft().size
            if time.monotonic() > deadline:
                break
        if kept:
            return kept
        end, step = first, 2 * step
    return ()


def _sample(message: Message) -> Sample:
    kind, at_ms = message.timestamp()
    return Sample(
        message.partition(),
        message.offset(),
        None if kind == TIMESTAMP_NOT_AVAILABLE else int(at_ms),
        message.key(),
        message.value(),
        sum(len(name) + len(value or b"") for name, value in message.headers() or ()),
    )

"""Read-only access to the protocol's topics, for commands and tools: no positions kept, nothing written."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client import TIMEOUT_S, bounds, make_consumer, partition_count, read_range, read_tail
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.long_lived_consumer import LongLivedConsumer
from cutwater.core.errors import UnavailableError
from cutwater.core.output.position import Published
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Barrier, Heartbeat, Milestone, Release, Start
from cutwater.core.protocol.stream_audit import Barriers

T = TypeVar("T")
PART, PART_MAX = 256, 16_384
"""Records of the last part of a topic, and of the largest, where the newest one of a kind is looked for."""


def milestones(cluster: Cluster, job: str, limit: int | None = None) -> list[tuple[Milestone, bytes]]:
    """Return the newest `limit` milestones (all by default) with their bytes, oldest first."""
    topic = topics.milestones(job)
    partition_count(cluster, topic)
    if limit is None:
        return list(milestones_in(cluster, topic))
    consumer = make_consumer(cluster)
    try:
        tail = read_tail(consumer, topic, 0, lambda found: len(_only_milestones(found)) >= limit)
    finally:
        consumer.close()
    return _only_milestones(tail)[-limit:]


def milestones_in(cluster: Cluster, topic: str, end: int | None = None) -> Iterator[tuple[Milestone, bytes]]:
    """Return the milestones of a commit stream or a copy below `end`, with their bytes, in order."""
    for value in values(cluster, topic, 0, end):
        record = protocol_records.decode(value)
        if isinstance(record, Milestone):
            yield record, value


def values(cluster: Cluster, topic: str, first: int, end: int | None = None) -> Generator[bytes, None, None]:
    """Return the records of a one-partition topic between two offsets, up to its present end."""
    consumer = make_consumer(cluster)
    try:
        low, high = bounds(consumer, topic, 0)
        first, end = max(low, first), high if end is None else min(high, end)
        for message in read_range(consumer, topic, 0, first, end) if first < end else ():
            yield bytes(message.value())
    finally:
        consumer.close()


def barriers(cluster: Cluster, job: str) -> Barriers:
    """Return the kept starts and barriers, compacted while they are read."""
    topic, found = topics.barriers(job), Barriers()
    partition_count(cluster, topic)
    consumer = make_consumer(cluster)
    try:
        low, high = bounds(consumer, topic, 0)
        for message in read_range(consumer, topic, 0, low) if low < high else ():
            record = protocol_records.decode(bytes(message.value()))
            if isinstance(record, Start | Barrier):
                found.add(record, message.offset())
    finally:
        consumer.close()
    return found


def newest(cluster: Cluster, topic: str, wanted: Callable[[protocol_records.Record], T | None]) -> T | None:
    """Return the first value besides None that `wanted` returns, newest record first, in a one-partition topic.

    Records are read in parts, the last part first: a value that is not there does not bring the topic into memory.
    """
    consumer, step = make_consumer(cluster), PART
    try:
        low, high = bounds(consumer, topic, 0)
        while low < high:
            first = max(low, high - step)
            told = (
                protocol_records.decode(bytes(one.value())) for one in read_range(consumer, topic, 0, first, high)
            )
            if found := [value for value in map(wanted, told) if value is not None]:
                return found[-1]
            high, step = first, min(2 * step, PART_MAX)
        return None
    finally:
        consumer.close()


RATE_MS = 10_000
"""The rate of events is taken over at least this time."""


def arrivals_per_s(cluster: Cluster, job: str) -> float:
    """Return the events per second of the newest milestones; 0 if they tell none."""
    topic = topics.milestones(job)
    last = newest(cluster, topic, lambda one: one if isinstance(one, Milestone) else None)
    if last is None:
        return 0.0

    def earlier(one: protocol_records.Record) -> Milestone | None:
        return one if isinstance(one, Milestone) and one.committed_ms <= last.committed_ms - RATE_MS else None

    first = newest(cluster, topic, earlier)
    if first is None:
        return 0.0
    return last.source_cut.records_since(first.source_cut) * 1_000 / (last.committed_ms - first.committed_ms)


def last_record(cluster: Cluster, topic: str) -> Milestone | Release | None:
    """Return the last record of a commit stream, heartbeats aside."""
    found = newest(cluster, topic, lambda one: [one] if isinstance(one, (Milestone, Release)) else None)
    return found[0] if found else None


def release(cluster: Cluster, topic: str) -> Release | None:
    """Return the release that ends a commit stream, if there is one: another region continues from there."""
    found = last_record(cluster, topic)
    return found if isinstance(found, Release) else None


def last_heard_ms(cluster: Cluster, topic: str) -> int:
    """Return when the newest milestone or heartbeat of a commit stream or a copy was written; 0 for none."""

    def told_ms(record: protocol_records.Record) -> int | None:
        if isinstance(record, Heartbeat):
            return record.at_ms
        return record.committed_ms if isinstance(record, Milestone) else None

    return newest(cluster, topic, told_ms) or 0


def newest_start_ms(cluster: Cluster, job: str) -> int | None:
    """Return when a driver last took over the job, by its own clock; None before the first."""
    return newest(cluster, topics.barriers(job), lambda one: one.at_ms if isinstance(one, Start) else None)


def newest_milestone(cluster: Cluster, job: str, generation: Generation) -> Milestone | None:
    """Return a generation's newest milestone; None if it was never promoted.

    Numbers rise on a commit stream, so the search ends at a milestone with a lower one: a long stream is not read
    for a candidate that was given up.
    """

    def reached(one: protocol_records.Record) -> list[Milestone] | None:
        if not isinstance(one, Milestone) or one.generation.number > generation.number:
            return None
        return [one] if one.generation == generation else []

    found = newest(cluster, topics.milestones(job), reached)
    return found[0] if found else None


def _only_milestones(values: list[bytes]) -> list[tuple[Milestone, bytes]]:
    decoded = ((protocol_records.decode(value), value) for value in values)
    return [(record, value) for record, value in decoded if isinstance(record, Milestone)]


def published(cluster: Cluster, job: str) -> Token | None:
    milestone = published_milestone(cluster, job)
    return milestone.token if milestone else None


def published_milestone(cluster: Cluster, job: str) -> Milestone | None:
    """Return the newest milestone in the output, by the publisher's position; None before the first."""
    topic = topics.published(job)
    partition_count(cluster, topic)
    position = newest(cluster, topic, lambda one: one if isinstance(one, Published) else None)
    if position is None or not position.milestone:
        return None
    milestone = protocol_records.decode(position.milestone)
    return milestone if isinstance(milestone, Milestone) else None


def source_end(cluster: Cluster, topic: str) -> Cut:
    consumer = make_consumer(cluster)
    try:
        count = partition_count(cluster, topic)
        return Cut.of_topic(topic, (bounds(consumer, topic, number)[1] for number in range(count)))
    finally:
        consumer.close()


class Tail:
    """Follows a one-partition topic from its start; `poll` returns new records without blocking for long."""

    def __init__(self, cluster: Cluster, topic: str, **client: Any) -> None:
        self._topic, self._read = topic, LongLivedConsumer(cluster, topic, **client)
        low, _ = bounds(self._read.consumer, topic, 0)
        self._read.begin({0: low})

    def poll(self, wait_s: float = 0.05) -> Iterator[protocol_records.Record]:
        """Return new records, waiting up to `wait_s` for the first."""
        for message in self._read.read(wait_s):
            yield protocol_records.decode(bytes(message.value()))

    def to_end(self) -> Iterator[protocol_records.Record]:
        """Return everything up to the topic's present end. Raises UnavailableError after a time limit."""
        _, end = bounds(self._read.consumer, self._topic, 0)
        deadline = time.monotonic() + TIMEOUT_S
        while self._read.next(0) < end:
            if time.monotonic() > deadline:
                raise UnavailableError(f"{self._topic}: not read to its end within {TIMEOUT_S:.0f} s")
            yield from self.poll()

    def close(self) -> None:
        self._read.close()

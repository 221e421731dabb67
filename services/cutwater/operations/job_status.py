"""A job's status, read from its topics for the watch and for `cutwater status`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from confluent_kafka import Consumer, Message

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range, search_backwards
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.core.errors import CutwaterError
from cutwater.core.job.job import Job
from cutwater.core.monitoring.alert_rules import Limits
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.monitoring.job_status_fold import (
    take_alert,
    take_published,
    take_signal,
    take_stream,
    take_unreadable,
)
from cutwater.core.output.position import Published
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Committed, Heartbeat, Milestone, Release, Start

TAIL = 4_096
"""Offsets read first at the end of a topic, a few minutes of a busy job."""
ASK_S = 3.0
"""Short, since the watch reads nothing else while it waits; it can do without the ends."""


class Read(NamedTuple):
    """One record."""

    topic: str
    offset: int
    at_ms: int
    """Its timestamp."""
    value: bytes


def followed(job: Job) -> list[str]:
    """Return the topics with a job's status, one partition each."""
    names = [topics.milestones(job.name), topics.barriers(job.name), topics.alerts(job.name)]
    return names + ([topics.published(job.name)] if publishes(job) else [])


def publishes(job: Job) -> bool:
    return job.output.mode != "none"


def limits_of(job: Job, settings: Settings) -> Limits:
    """Return the limits of settings and job file."""
    return Limits(
        silent_ms=settings.watch_silent_ms,
        driver_silent_ms=max(settings.watch_driver_silent_ms, 2 * settings.heartbeat_ms),
        stuck_ms=settings.watch_stuck_ms,
        window_ms=settings.watch_window_ms,
        dead_letters=settings.watch_dead_letters,
        late=settings.watch_late,
        late_share=settings.watch_late_share,
        lateness_ms=job.lateness_ms,
        full_within_ms=round(settings.watch_full_within_h * 3_600_000),
        recovery_ms=round(settings.watch_recovery_s * 1_000),
        publishes=publishes(job),
    )


def apply_record(state: JobStatus, read: Read) -> JobStatus:
    """Return the state after one record. Unreadable records are counted."""
    topic, offset = read.topic, read.offset
    try:
        record = protocol_records.decode(read.value)
        if topic == topics.published(state.job) and isinstance(record, Published):
            return take_published(state, topic, offset, _sequence(record), read.at_ms)
    except CutwaterError:
        return take_unreadable(state, topic, offset)
    if topic == topics.barriers(state.job) and isinstance(record, Start | Barrier | Committed | Heartbeat):
        return take_signal(state, topic, offset, record)
    if topic == topics.milestones(state.job) and isinstance(record, Milestone | Heartbeat | Release):
        return take_stream(state, topic, offset, record)
    if topic == topics.alerts(state.job) and isinstance(record, Alert):
        return take_alert(state, topic, offset, record)
    return take_unreadable(state, topic, offset)


def alert_of(read: Read) -> Alert | None:
    """Return the alert in a record; None if it holds none."""
    try:
        record = protocol_records.decode(read.value)
    except CutwaterError:
        return None
    return record if isinstance(record, Alert) else None


def apply_records(state: JobStatus, reads: Iterable[Read]) -> JobStatus:
    """Apply `take` to each record."""
    for one in reads:
        state = apply_record(state, one)
    return state


def recover(cluster: Cluster, job: Job, generation: Generation, bucket_ms: int) -> JobStatus:
    """Return the status of a job from the ends of its topics, and from all alerts. Raises UsageError for a
    missing topic, UnavailableError if no broker answers."""
    state = JobStatus(job.name, generation, bucket_ms)
    consumer = make_consumer(cluster)
    try:
        for topic in followed(job):
            partition_count(cluster, topic)
            state = apply_records(state, _tail(consumer, topic, generation))
    finally:
        consumer.close()
    return state


def read_new(cluster: Cluster, job: Job, state: JobStatus) -> list[Read]:
    """Return the records above those that the state has read. Raises as any read does."""
    consumer = make_consumer(cluster)
    try:
        return read_new_with(consumer, job, state)
    finally:
        consumer.close()


def read_new_with(consumer: Consumer, job: Job, state: JobStatus) -> list[Read]:
    """Return the same with a consumer of the caller's, which needs a new one after an error."""
    found: list[Read] = []
    for topic in followed(job):
        low, high = bounds(consumer, topic, 0)
        first = max(low, state.reads.get(topic, 0))
        found += map(_read, read_range(consumer, topic, 0, first)) if first < high else ()
    return found


class OpenTransaction(NamedTuple):
    """The first open transaction in a partition."""

    topic: str
    partition: int
    offset: int
    """Of its first record."""
    records: int
    """Offsets from there on, including committed records, which cannot be read either."""


class SourceEnds:
    """Reader of the ends of a job's source, all partitions at once."""

    def __init__(self, cluster: Cluster, topic: str, patience_s: float = ASK_S) -> None:
        """`topic`: may be empty; then only the partitions of a barrier's cut are queried."""
        self._cluster, self._topic = cluster, topic
        self._ends = Offsets(cluster, patience_s)

    def ask(self, state: JobStatus) -> Cut:
        """Return the present ends for `read_committed`. Raises UnavailableError or UsageError."""
        return Cut.of(self._ends.committed_ends(list(self._places(state))))

    def open_transactions(self, state: JobStatus) -> list[OpenTransaction]:
        """Return the open transactions that hide later records. Raises as `ask` does."""
        places = list(self._places(state))
        written, seen = self._ends.written_ends(places), self._ends.committed_ends(places)
        return [
            OpenTransaction(*place, seen[place], written[place] - seen[place])
            for place in sorted(places)
            if written[place] > seen[place]
        ]

    def _places(self, state: JobStatus) -> Iterator[TopicPartition]:
        if state.processed and state.processed.source_cut:
            yield from (place for place, _ in state.processed.source_cut)
        elif self._topic:
            count = partition_count(self._cluster, self._topic)
            yield from (TopicPartition(self._topic, number) for number in range(count))


def _tail(consumer: Consumer, topic: str, generation: Generation) -> list[Read]:
    """Return the end of a topic back to a record of the generation; all alerts."""
    low, high = bounds(consumer, topic, 0)
    if low == high:
        return []
    found: list[Read] = []

    def enough(messages: Iterator[Message]) -> bool | None:
        found[:] = map(_read, messages)
        return any(_tells(one, generation) for one in found) or None

    step = high - low if topic.endswith(".alerts") else TAIL
    search_backwards(consumer, topic, 0, enough, step)
    return found


def _tells(read: Read, generation: Generation) -> bool:
    try:
        record = protocol_records.decode(read.value)
    except CutwaterError:
        return False
    return isinstance(record, Barrier | Milestone | Published) and record.generation == generation


def _read(message: Message) -> Read:
    return Read(message.topic(), message.offset(), message.timestamp()[1], bytes(message.value() or b""))


def _sequence(position: Published) -> int:
    milestone = protocol_records.decode(position.milestone) if position.milestone else None
    return milestone.sequence if isinstance(milestone, Milestone) else 0

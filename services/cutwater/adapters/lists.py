"""The dead-letter and late topics, read whole: the newest record of each key, without the events' bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import Message

from cutwater.adapters.avro import protocol_codec
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.kafka import bounds, make_consumer, partition_count, read_range
from cutwater.adapters.streams import milestones
from cutwater.adapters.wire import millis
from cutwater.core import topics
from cutwater.core.errors import UsageError
from cutwater.core.generations import Generation
from cutwater.core.listing import Choice, LatePair, Letter, Listed, Place, Told, choose
from cutwater.core.records import Milestone

ENTRIES_MAX = 2_000_000
"""More entries than this do not fit into the memory of one command."""

T = TypeVar("T")
Record = Mapping[str, Any]
Parse = Callable[[Message, Record, Record, Listed], T]


def dead_letters(cluster: Cluster, job: str) -> Choice[Letter]:
    """The dead letters that the job's milestones account for."""
    return _read(cluster, job, topics.dead_letters(job), "dead_letter", lambda one: one.rejected, _letter)


def late_pairs(cluster: Cluster, job: str, candidacy: Sequence[Milestone] = ()) -> Choice[LatePair]:
    """The late (event, window) pairs that the job's milestones account for, and those of a candidacy."""
    return _read(cluster, job, topics.late(job), "late", lambda one: one.late, _late_pair, candidacy)


def _read(
    cluster: Cluster,
    job: str,
    topic: str,
    name: str,
    count: Callable[[Milestone], int],
    parse: Parse[T],
    more: Sequence[Milestone] = (),
) -> Choice[T]:
    # First the milestones: what they account for was listed before them.
    found = [*more, *(one for one, _ in milestones(cluster, job))]
    told = {(one.generation, one.epoch): Told(one.attempt, count(one)) for one in found if count(one)}
    newest: dict[bytes, tuple[Listed, T]] = {}
    if told:
        keys, values = protocol_codec(f"{name}_key"), protocol_codec(name)
        for message in _records(cluster, topic):
            value = values.decode(message.value())
            by = Listed(Generation.parse(value["generation"]), value["attempt"], value["epoch"])
            newest[message.key()] = (by, parse(message, keys.decode(message.key()), value, by))
            if len(newest) > ENTRIES_MAX:
                raise UsageError(f"{topic} holds more than {ENTRIES_MAX:,} entries: read it with a consumer")
    return choose(newest.values(), told)


def _records(cluster: Cluster, topic: str) -> Iterator[Message]:
    consumer = make_consumer(cluster)
    try:
        for partition in range(partition_count(cluster, topic)):
            low, high = bounds(consumer, topic, partition)
            if low < high:
                yield from read_range(consumer, topic, partition, low)
    finally:
        consumer.close()


def place_of(record: Record) -> Place:
    return Place(record["topic"], record["partition"], record["offset"])


def _letter(message: Message, key: Record, value: Record, by: Listed) -> Letter:
    event = value["event_value"]
    return Letter(
        event=place_of(key),
        by=by,
        reason=value["reason"],
        key=value["event_key"],
        value_bytes=None if event is None else len(event),
        written_ms=value["event_written_ms"],
        replayed=place_of(value["replayed"]) if value["replayed"] else None,
        at=(message.partition(), message.offset()),
    )


def _late_pair(_message: Message, key: Record, value: Record, by: Listed) -> LatePair:
    return LatePair(
        event=place_of(key),
        by=by,
        key=key["key"],
        window_start_ms=millis(key["window_start"]),
        window_end_ms=millis(key["window_end"]),
        event_time_ms=millis(value["event_time_ms"]),
        watermark_ms=millis(value["watermark_ms"]),
    )

"""The dead-letter and late topics, read completely: the newest record of each key, without the events' bytes.

The result covers one lineage: that of the promoted generation by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from confluent_kafka import Message

from cutwater.adapters.avro.codec import protocol_codec
from cutwater.adapters.avro.protocol_records import millis
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import candidacies, parent_of
from cutwater.adapters.topics.commit_stream import milestones_in
from cutwater.core.driver.rejected_events import (
    FIELD_HEADER,
    HEAD_BYTES,
    RULE_HEADER,
    Choice,
    EventPosition,
    LatePair,
    Letter,
    Listed,
    carried,
    choose,
)
from cutwater.core.driver.rejected_events_by_lineage import Accounts, Ancestry
from cutwater.core.errors import UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Milestone

ENTRIES_MAX = 2_000_000
"""More entries than this do not fit into the memory of one command."""

T = TypeVar("T")
Record = Mapping[str, Any]
Parse = Callable[[Message, Record, Record, Listed], T]


def dead_letters(cluster: Cluster, job: str, generation: Generation | None = None) -> Choice[Letter]:
    """Return dead letters of a generation's lineage, by default the promoted one. Raises UsageError if unknown."""
    topic = topics.dead_letters(job)
    entries, accounts = _read(cluster, job, generation, topic, "dead_letter", lambda one: one.rejected, _letter)
    marks = {one.event: one.replayed for _, one in entries if one.replayed}
    found = _count_by_reason(entries, accounts, _has_deleted_records(cluster, topic))
    return replace(found, entries=carried(found.entries, marks))


def late_pairs(cluster: Cluster, job: str, generation: Generation | None = None) -> Choice[LatePair]:
    """Return the late events of the milestones in a generation's lineage, as `dead_letters`."""
    topic = topics.late(job)
    found = _read(cluster, job, generation, topic, "late", lambda one: one.late, _late_pair)
    return _count_by_reason(*found, _has_deleted_records(cluster, topic))


def _count_by_reason(entries: list[tuple[Listed, T]], accounts: Accounts, forgetful: bool) -> Choice[T]:
    found = choose(entries, accounts.told, forgetful)
    return Choice(found.entries, [*accounts.problems, *found.problems], [*accounts.elsewhere, *found.elsewhere])


def _has_deleted_records(cluster: Cluster, topic: str) -> bool:
    # Checked after the read: records that retention deletes meanwhile are not reported as missing.
    consumer = make_consumer(cluster)
    try:
        return any(bounds(consumer, topic, one)[0] > 0 for one in range(partition_count(cluster, topic)))
    finally:
        consumer.close()


def _read(
    cluster: Cluster,
    job: str,
    generation: Generation | None,
    topic: str,
    name: str,
    count: Callable[[Milestone], int],
    parse: Parse[T],
) -> tuple[list[tuple[Listed, T]], Accounts]:
    # First the milestones: their entries were written before them.
    accounts = _ancestry(cluster, job, count).accounts(generation)
    newest: dict[bytes, tuple[Listed, T]] = {}
    if accounts.told:
        keys, values = protocol_codec(f"{name}_key"), protocol_codec(name)
        for message in _records(cluster, topic):
            value = values.decode(message.value())
            by = Listed(Generation.parse(value["generation"]), value["attempt"], value["epoch"])
            newest[message.key()] = (by, parse(message, keys.decode(message.key()), value, by))
            if len(newest) > ENTRIES_MAX:
                raise UsageError(f"{topic} holds more than {ENTRIES_MAX:,} entries: read it with a consumer")
    return list(newest.values()), accounts


def _ancestry(cluster: Cluster, job: str, count: Callable[[Milestone], int]) -> Ancestry:
    found, stream = Ancestry(count), topics.milestones(job)
    partition_count(cluster, stream)
    for milestone, _ in milestones_in(cluster, stream):  # one by one: a stream is too long to keep
        found.follow(milestone)
    for record in candidacies(cluster, job):
        if isinstance(record, Claim):
            found.claim(record.generation, parent_of(record), record.rewinds_to if record.origin else 0)
        elif isinstance(record, Milestone):
            found.take(record)
    return found


def _records(cluster: Cluster, topic: str) -> Iterator[Message]:
    consumer = make_consumer(cluster)
    try:
        for partition in range(partition_count(cluster, topic)):
            low, high = bounds(consumer, topic, partition)
            if low < high:
                yield from read_range(consumer, topic, partition, low)
    finally:
        consumer.close()


def place_of(record: Record) -> EventPosition:
    return EventPosition(record["topic"], record["partition"], record["offset"])


def _letter(message: Message, key: Record, value: Record, by: Listed) -> Letter:
    event = value["event_value"]
    flaw = {name: bytes(one or b"").decode("utf-8", "replace") for name, one in message.headers() or ()}
    return Letter(
        event=place_of(key),
        by=by,
        reason=value["reason"],
        key=value["event_key"],
        value_bytes=None if event is None else len(event),
        written_ms=value["event_written_ms"],
        replayed=place_of(value["replayed"]) if value["replayed"] else None,
        at=(message.partition(), message.offset()),
        field=flaw.get(FIELD_HEADER),
        rule=flaw.get(RULE_HEADER),
        head=None if event is None else bytes(event[:HEAD_BYTES]),
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

"""What stands on a topic, to compare a copy with: by a plain consumer, nothing that any contender uses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.mirror_records import SOURCE_OFFSET, SOURCE_TIMESTAMP

OURS = (SOURCE_OFFSET, SOURCE_TIMESTAMP)
"""Headers that a copy has on top."""
PIECE, ANSWER_S = 5_000, 20.0


class Contents(NamedTuple):
    """The committed records of one partition."""

    records: int
    size: int
    """Bytes of keys, values and headers; without what a copy has on top."""
    digest: str
    """SHA-256 of keys, values and headers in the log's order: one record twice, or lost, or moved, changes it."""
    last: bytes | None = None
    """The newest record's value."""


def contents(cluster: Cluster, topic: str, partitions: int) -> list[Contents]:
    """Of each partition. Raises UnavailableError when the broker does not answer."""
    settings = {"group.id": "b4", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({**cluster.librdkafka(), **settings, "fetch.queue.backoff.ms": 5})
    try:
        consumer.list_topics(topic, timeout=ANSWER_S)
        return [contents_of(_records(consumer, topic, partition)) for partition in range(partitions)]
    finally:
        consumer.close()


def contents_of(messages: Iterator[Message]) -> Contents:
    count, size, digest, last = 0, 0, hashlib.sha256(), None
    for message in messages:
        headers = [one for one in message.headers() or () if one[0] not in OURS]
        last = message.value()
        for part in (message.key(), last, *(text for name, value in headers for text in (name.encode(), value))):
            digest.update(b"%d:" % (-1 if part is None else len(part)))
            digest.update(part or b"")
            size += len(part or b"")
        digest.update(b"%d;" % len(headers))
        count += 1
    return Contents(count, size, digest.hexdigest(), last)


def difference(topic: str, found: Sequence[Contents], wanted: Sequence[Contents]) -> str | None:
    """What is wrong with a copy; None where it is exact."""
    for partition, (copy, original) in enumerate(zip(found, wanted, strict=True)):
        if copy.records != original.records:
            return f"{topic}/{partition}: {copy.records:,} records instead of {original.records:,}"
        if copy != original:
            return f"{topic}/{partition}: {copy.records:,} records as in the origin, and another digest"
    return None


def _records(consumer: Consumer, topic: str, partition: int) -> Iterator[Message]:
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    while True:
        messages = consumer.consume(PIECE, timeout=0.5) or [consumer.poll(ANSWER_S)]
        for message in messages:
            if message is None:
                raise UnavailableError(f"{topic}/{partition}: nothing comes for {ANSWER_S:g} s")
            if message.error() is None:
                yield message
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise UnavailableError(f"{topic}/{partition}: {message.error().str()}")

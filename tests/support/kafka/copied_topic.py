"""One topic copied to another cluster as a mirror does it, but with other offsets; and its places in both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from confluent_kafka import Message, Producer

from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.mirror_records import SOURCE_OFFSET, SOURCE_TIMESTAMP
from support.naming import unique

Headers = list[tuple[str, bytes | None]]


class Record(NamedTuple):
    """What is written."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int = 0
    """0: now."""


def read(cluster: Cluster, topic: str) -> list[Message]:
    """Every committed record of a topic, partition by partition."""
    consumer, found = make_consumer(cluster), list[Message]()
    for partition in range(partition_count(cluster, topic)):
        low, high = bounds(consumer, topic, partition)
        found += read_range(consumer, topic, partition, low) if low < high else ()
    consumer.close()
    return found


def write(cluster: Cluster, topic: str, records: Sequence[Record], size: int, aborted: bool = False) -> None:
    """Write them in transactions of so many records, each of which leaves a gap in the offsets."""
    producer = Producer({**cluster.librdkafka(), "transactional.id": unique("written")})
    producer.init_transactions(30)
    for first in range(0, len(records), size):
        producer.begin_transaction()
        for one in records[first : first + size]:
            producer.produce(
                topic, one.value, one.key, one.partition, timestamp=one.timestamp_ms, headers=one.headers
            )
        assert producer.flush(30) == 0
        (producer.abort_transaction if aborted else producer.commit_transaction)(30)


def copies(messages: Iterable[Message]) -> list[Record]:
    """What a mirror writes of records: with their own headers first."""
    return [
        Record(
            one.partition(),
            one.key(),
            one.value(),
            [
                *(one.headers() or []),
                (SOURCE_OFFSET, b"%d" % one.offset()),
                (SOURCE_TIMESTAMP, b"%d" % one.timestamp()[1]),
            ],
            one.timestamp()[1],
        )
        for one in messages
    ]


class Copy:
    """A topic that is a copy, as it stands now: which offset there each of its records has."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.topic = topic
        self.there: dict[TopicPartition, dict[int, int]] = {}
        """By place here and offset here."""
        for message in read(cluster, topic):
            found = [value for name, value in message.headers() or [] if name == SOURCE_OFFSET]
            if found:
                place = TopicPartition(topic, message.partition())
                self.there.setdefault(place, {})[message.offset()] = int(found[-1])

    def local(self, cut: Cut) -> Cut:
        """Where a cut of the origin lies here: at the first record that is not below it."""
        found = {}
        for origin, offset in cut:
            place = TopicPartition(self.topic, origin.partition)
            there = self.there[place]
            found[place] = min((here for here, one in there.items() if one >= offset), default=max(there) + 1)
        return Cut.of(found)

    def origin_cut(self, first: Cut, cut: Cut) -> Cut:
        """Behind the newest record that is below a cut here; `first`, the origin's, where none was read since."""
        begun = {at.partition: offset for at, offset in first}
        return Cut.of(
            {
                place: max(
                    [
                        begun[place.partition],
                        *(one + 1 for here, one in there.items() if here < cut.offset(place)),
                    ]
                )
                for place, there in self.there.items()
            }
        )

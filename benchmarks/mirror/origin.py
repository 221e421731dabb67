"""What the origin holds: events, a changelog and its milestones. Written once, and copied by all."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from confluent_kafka import Producer

from benchmarks.mirror.copies import Contents, contents
from benchmarks.publishing.changelog import Changelog
from benchmarks.publishing.contender import GENERATION
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics

VALUE_BYTES, TEXT_BYTES = 300, 120
"""Of an event; and of how many of them each event has its own, by chance: lz4 takes about half away."""
ROWS_SHARE, MILESTONE_ROWS = 5, 20_000
"""One row of the changelog for so many events, and how many make a milestone."""
FLUSH_S = 60.0


@dataclass(frozen=True)
class Topic:
    """One topic of the origin and what stands on it."""

    name: str
    partitions: tuple[Contents, ...]

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions)

    @property
    def size(self) -> int:
        return sum(one.size for one in self.partitions)


class Origin:
    """Fills a cluster's topics."""

    def __init__(self, cluster: Cluster, events: int, seed: int) -> None:
        began = time.monotonic()
        self.cluster = cluster
        changelog = Changelog(cluster, max(MILESTONE_ROWS, events // ROWS_SHARE), MILESTONE_ROWS)
        self.job: Job = changelog.job
        partitions = self.job.shards.partitions
        ensure_topics(cluster, [topics.events(self.job.topic, partitions)])
        produce(cluster, self.job.topic, partitions, events, seed)
        names = {self.job.topic: partitions, topics.changelog(self.job.name, GENERATION): partitions}
        names[topics.milestones(self.job.name)] = 1
        self.topics = [Topic(name, tuple(contents(cluster, name, many))) for name, many in names.items()]
        self.seconds = time.monotonic() - began

    @property
    def records(self) -> int:
        return sum(one.records for one in self.topics)

    @property
    def size(self) -> int:
        """Bytes of keys, values and headers, not compressed."""
        return sum(one.size for one in self.topics)


def produce(cluster: Cluster, topic: str, partitions: int, events: int, seed: int) -> None:
    """Events with a key of 16 bytes and one header, in batches and with the compression that producers have."""
    settings = {"enable.idempotence": True, "compression.type": "lz4", "batch.size": 131_072, "linger.ms": 20}
    producer = Producer({**cluster.librdkafka(), **settings, "queue.buffering.max.messages": 500_000})
    chance = random.Random(seed)
    for number in range(events):
        value = event(number, chance)
        key, partition = b"key-%012d" % (number % 10_000), number % partitions
        while True:
            try:
                producer.produce(topic, value, key, partition, headers=[("trace", b"%016x" % number)])
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(FLUSH_S)


def event(number: int, chance: random.Random) -> bytes:
    """Text that every event has, its number, and a part by chance. No two are alike."""
    told = b'{"number": %012d, "kind": "measurement", "unit": "celsius", "quality": "good", "text": "' % number
    told += chance.randbytes(TEXT_BYTES // 2).hex().encode()
    return told.ljust(VALUE_BYTES - 2, b".") + b'"}'

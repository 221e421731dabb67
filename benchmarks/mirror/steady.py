"""A steady stream of milestones behind a link, and how long each takes to the other region.

Of a milestone two moments count, both seen by a consumer of committed records in the target: it is *held* once its
own record and all that lies below its cuts can be read there, and it has *arrived* once an arrival says so, with
the cuts there. MirrorMaker 2 says nothing of the kind: of it only the first is known.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from benchmarks.mirror.origin import event
from benchmarks.publishing.changelog import Changelog
from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.mirror_records import Arrival
from cutwater.core.protocol.records import Milestone

PERIOD_S = 0.2
EVENTS, ROWS = 200, 80
"""Of each milestone."""
TAIL_S = 20.0


@dataclass
class Written:
    """One milestone of the stream."""

    sequence: int
    at_s: float
    """When it could be read in the origin; seconds since 1970."""
    below: dict[tuple[str, int], int]
    """How many records of each of the origin's partitions lie below its cuts."""


class Stream(Changelog):
    """Events, rows and milestones, written one milestone at a time."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, ROWS, ROWS)
        self.partitions = self.job.shards.partitions
        ensure_topics(cluster, [topics.events(self.job.topic, self.partitions)])
        settings = {"enable.idempotence": True, "compression.type": "lz4", "linger.ms": 5}
        self._producer = Producer({**cluster.librdkafka(), **settings})
        self._writer = TransactionalWriter(cluster, topics.signal_id(self.job.name))
        self._writer.initialise()
        last = protocol_records.decode(self._records[-1])
        assert isinstance(last, Milestone)
        self._last, self._events, self._chance = last, 0, random.Random(7)
        self.written: list[Written] = []

    @property
    def names(self) -> dict[str, int]:
        """Topics, and how many partitions each has."""
        milestones = topics.milestones(self.job.name)
        return {self.job.topic: self.partitions, self._topic: self.partitions, milestones: 1}

    def write(self) -> None:
        """One more milestone. Producers of events and rows use no transactions: their offsets count records."""
        for number in range(self._events, self._events + EVENTS):
            value = event(number, self._chance)
            self._producer.produce(self.job.topic, value, b"key-%d" % number, number % self.partitions)
        self._events += EVENTS
        epoch = self._last.epoch + 1
        rows = self._rows(self._producer, epoch, range(ROWS * epoch, ROWS * (epoch + 1)))
        ends = self._ends.topic_ends(self.job.topic, self.partitions)
        source_cut = Cut.of_topic(self.job.topic, [ends[number] for number in sorted(ends)])
        self._last = replace(self._milestone(self._last, rows), source_cut=source_cut)
        self._records[-1] = protocol_records.encode(self._last)
        self._writer.write(topics.milestones(self.job.name), [self._records[-1]])
        cuts = [*source_cut, *self._last.changelog_cut]
        below = {(place.topic, place.partition): end for place, end in cuts}
        below[topics.milestones(self.job.name), 0] = len(self._records)
        self.written.append(Written(self._last.sequence, time.time(), below))


@dataclass
class Seen:
    """What consumers in the target have seen, and when."""

    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Records, by the origin's topic and partition."""
    held: dict[int, float] = field(default_factory=dict)
    """By sequence; seconds since 1970."""
    arrived: dict[int, float] = field(default_factory=dict)


class Observer:
    """Follows all copies in the target from a thread of its own, inside a `with` block."""

    def __init__(self, own: Cluster, stream: Stream, targets: Mapping[str, str], arrivals: str | None) -> None:
        """`targets`: where each topic of the origin is copied to; `arrivals`: the topic of these, if any."""
        self._own, self._stream, self._targets, self._arrivals = own, stream, targets, arrivals
        self.seen = Seen()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._due = 0

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def done(self, sequence: int) -> bool:
        """Has everything come up to this milestone, and is it said where it is said at all?"""
        told = self.seen.arrived if self._arrivals else self.seen.held
        return sequence in told

    def _run(self) -> None:
        sources = {name: source for source, name in self._targets.items()}
        wanted = {*sources, *([self._arrivals] if self._arrivals else [])}
        settings = {"group.id": "b4", "isolation.level": "read_committed", "fetch.wait.max.ms": 10}
        consumer = Consumer({**self._own.librdkafka(), **settings})
        assigned: set[str] = set()
        while not self._stop.is_set():
            if assigned != wanted and (here := set(consumer.list_topics(timeout=20).topics) & wanted) - assigned:
                consumer.incremental_assign(
                    [
                        TopicPartition(name, partition, OFFSET_BEGINNING)
                        for name in here - assigned
                        for partition in range(self._stream.names.get(sources.get(name, ""), 1))
                    ]
                )
                assigned |= here
            for message in consumer.consume(1_000, timeout=0.005):
                if message.error() is None and message.topic() == self._arrivals:
                    self._arrival(protocol_records.decode(message.value()))
                elif message.error() is None:
                    self.seen.counts[sources[message.topic()], message.partition()] += 1
            self._look()
        consumer.close()

    def _arrival(self, one: object) -> None:
        if isinstance(one, Arrival):
            self.seen.arrived.setdefault(one.sequence, time.time())

    def _look(self) -> None:
        """Milestones are held in their order."""
        while self._due < len(self._stream.written):
            one = self._stream.written[self._due]
            if any(self.seen.counts[place] < count for place, count in one.below.items()):
                return
            self.seen.held[one.sequence] = time.time()
            self._due += 1


def lags_ms(written: list[Written], at_s: Mapping[int, float], from_s: float) -> list[float]:
    """Of each milestone from then on, until its own moment or a later one's; where there is none, nothing."""
    found, best = [], float("inf")
    for one in reversed(written):
        best = min(best, at_s.get(one.sequence, best))
        if one.at_s >= from_s and best < float("inf"):
            found.append(1_000 * (best - one.at_s))
    return found[::-1]


def play(stream: Stream, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Write milestones at a steady rate. One that comes late does not move those behind it."""
    began = time.monotonic()
    for number in range(int(seconds / PERIOD_S)):
        sleep(max(0.0, began + number * PERIOD_S - time.monotonic()))
        stream.write()

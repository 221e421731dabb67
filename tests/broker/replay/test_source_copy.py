"""A source's records copied from one broker to another: which ones, what of them, and how fast."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.record_deletion import delete_below
from cutwater.core.errors import CutwaterError
from cutwater.core.past.replay_range import SourceRange
from cutwater.core.past.replayed_rows import SourceOffsets
from cutwater.core.protocol.topics import TopicSpec
from cutwater.replay.sandbox import source_topic
from cutwater.replay.source_copy import CopyRequest, copy_source
from support.naming import unique

PARTITIONS = 2
FAR_MS = 250_000_000_000_000
"""A time in the year 9892, as a producer writes that takes microseconds for milliseconds."""
ANY_TIME = (("message.timestamp.after.max.ms", str(2**63 - 1)),)


class Copying:
    """A topic with gaps at one broker, and an empty one at the other."""

    def __init__(self, source: Cluster, target: Cluster, folder: Path) -> None:
        self.source, self.target, self.folder = source, target, folder
        self.topic = unique("events")
        admin.create_topics(source, [TopicSpec(self.topic, PARTITIONS, ANY_TIME)])
        admin.create_topics(target, [source_topic(self.topic, PARTITIONS)])

    def produce(self, count: int, seed: int, size: int = 20) -> None:
        """Records in transactions, every third of which is aborted."""
        draw = random.Random(seed)
        producer = Producer({**self.source.librdkafka(), "transactional.id": self.topic})
        producer.init_transactions(20)
        for number in range(0, count, 20):
            producer.begin_transaction()
            for _ in range(20):
                producer.produce(
                    self.topic,
                    draw.choice([None, b"", draw.randbytes(size)]),
                    draw.choice([None, b"", b"k"]),
                    draw.randrange(PARTITIONS),
                    headers=draw.choice([[], [("a", b"1"), ("a", None)]]),
                    timestamp=draw.choice([1, 1_700_000_000_000, FAR_MS]),
                )
            producer.flush(20)
            (producer.abort_transaction if number % 60 == 40 else producer.commit_transaction)(20)

    def ends(self, cluster: Cluster) -> list[int]:
        with closing(make_consumer(cluster)) as consumer:
            return [bounds(consumer, self.topic, number)[1] for number in range(PARTITIONS)]

    def records(self, cluster: Cluster, partition: int, first: int, end: int) -> list[tuple[int, Any]]:
        with closing(make_consumer(cluster)) as consumer:
            low, _ = bounds(consumer, self.topic, partition)
            found = read_range(consumer, self.topic, partition, max(first, low), end) if first < end else iter(())
            return [
                (one.offset(), (one.key(), one.value(), one.headers() or [], one.timestamp())) for one in found
            ]

    def copy(self, ranges: list[SourceRange], left_out: Mapping[int, set[int]], rate: int = 0) -> Any:
        offsets = SourceOffsets()
        wanted = CopyRequest(self.source, self.target, self.topic, ranges, left_out, rate, self.folder, offsets)
        passed: list[int] = []
        copied = copy_source(wanted, lambda done, _size: passed.append(done))
        assert passed == sorted(passed)
        return copied, offsets, passed


@pytest.fixture
def copying(origin: Cluster, broker: Any, tmp_path: Path) -> Copying:
    return Copying(origin, broker.cluster, tmp_path)


@pytest.mark.parametrize("seed", [1, 2])
def test_every_record_between_the_cuts_arrives_as_it_was(copying: Copying, seed: int) -> None:
    """In order, with its times and headers; committed ones only, without those that are left out. Its number in
    the copy leads to its offset in the source."""
    copying.produce(400, seed)
    draw, ends = random.Random(seed), copying.ends(copying.source)
    ranges = [
        SourceRange(number, draw.randrange(end // 2), end - draw.randrange(3)) for number, end in enumerate(ends)
    ]
    left_out = {number: {draw.randrange(end) for _ in range(9)} for number, end in enumerate(ends)}
    copied, offsets, passed = copying.copy(ranges, left_out)
    for one in ranges:
        wanted = [
            (offset, record)
            for offset, record in copying.records(copying.source, one.partition, one.first, one.end)
            if offset not in left_out[one.partition] and offset < one.end
        ]
        end = copying.ends(copying.target)[one.partition]
        found = copying.records(copying.target, one.partition, 0, end)
        assert [record for _, record in found] == [record for _, record in wanted]
        assert [number for number, _ in found] == list(range(len(wanted)))
        assert [offsets.source(one.partition, number) for number, _ in found] == [offset for offset, _ in wanted]
        assert copied.records[one.partition] == len(wanted)
    assert passed[-1] == sum(one.offsets for one in ranges)


def test_the_rate_is_a_bound(copying: Copying) -> None:
    copying.produce(600, seed=3, size=4_000)
    began = time.monotonic()
    ranges = [SourceRange(number, 0, end) for number, end in enumerate(copying.ends(copying.source))]
    copied, _, _ = copying.copy(ranges, {}, rate=200_000)
    assert copied.bytes > 400_000
    assert time.monotonic() - began > copied.bytes / 200_000 - 0.5


def test_events_that_are_deleted_meanwhile_end_it(copying: Copying) -> None:
    copying.produce(60, seed=4)
    delete_below(copying.source, copying.topic, {0: 10})
    with pytest.raises(CutwaterError, match="outside the log"):
        copying.copy([SourceRange(0, 0, 20)], {})


def test_nobody_else_may_write_to_the_copy(copying: Copying) -> None:
    """Then numbers would not be offsets."""
    copying.produce(60, seed=5)
    stranger = Producer(copying.target.librdkafka())
    stranger.produce(copying.topic, b"x", partition=1)
    assert stranger.flush(20) == 0
    with pytest.raises(CutwaterError, match="records, and"):
        copying.copy([SourceRange(1, 0, copying.ends(copying.source)[1])], {})

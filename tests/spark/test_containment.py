"""When the first record above a cut was written: what compaction may have taken below the cut, by a real log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.topics import TopicSpec
from cutwater.operations.generations.parent_changelog import first_above_ms
from support.harness import wait_until

pytestmark = pytest.mark.spark


def test_the_first_record_above_a_cut_tells_its_time(broker: Any, unique: Callable[[str], str]) -> None:
    """None where nothing follows; the log's own time of the first record that does."""
    topic = unique("contained")
    ensure_topics(broker.cluster, [TopicSpec(topic, 3, (("message.timestamp.type", "LogAppendTime"),))])
    producer = Producer(broker.cluster.librdkafka())
    begun = time.time_ns() // 1_000_000
    for partition, count in ((0, 2), (1, 5)):
        for number in range(count):
            producer.produce(topic, key=b"k", value=str(number).encode(), partition=partition, timestamp=7)
    assert producer.flush(20) == 0
    found = first_above_ms(broker.cluster, Cut.of_topic(topic, [2, 3, 0]))
    assert (found[0], found[2]) == (None, None)
    assert found[1] is not None
    assert abs(found[1] - begun) < 600_000, "not what the producer says"


def test_the_marker_behind_a_copy_is_no_record_that_was_taken(broker: Any, unique: Callable[[str], str]) -> None:
    """A mirror writes in transactions: what follows the copy's end is theirs, and nothing was ever there."""
    topic = unique("copied")
    ensure_topics(broker.cluster, [TopicSpec(topic, 1, ())])
    writer = TransactionalWriter(broker.cluster, unique("mirror"))
    writer.initialise()
    writer.write(topic, [b"1", b"2"])
    # The coordinator writes the marker when it has answered.
    wait_until(lambda: Offsets(broker.cluster).topic_ends(topic, 1)[0] == 3, "the marker")
    cut = Cut.of_topic(topic, [2])
    assert first_above_ms(broker.cluster, cut) == {0: 0}, "by itself it looks like a record that is gone"
    assert first_above_ms(broker.cluster, cut, {TopicPartition(topic, 0): 2}) == {0: None}

"""A sample of a topic whose newest offsets hold no record that a reader sees."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.core.errors import UsageError
from cutwater.core.protocol.topics import TopicSpec
from cutwater.operations import topic_sample as module
from cutwater.operations.format_detection import detect_format
from cutwater.operations.topic_sample import sample

pytestmark = pytest.mark.slow


def test_records_before_an_aborted_transaction_are_sampled(broker: Any, unique: Callable[[str], str]) -> None:
    topic = unique("sampled")
    ensure_topics(broker.cluster, [TopicSpec(topic, 3, ())])
    plain = Producer(broker.cluster.librdkafka())
    for partition, records in ((0, 15), (1, 30)):
        for number in range(records):
            plain.produce(topic, b'{"n":%d}' % number, partition=partition)
    assert plain.flush(20) == 0
    producer = Producer({**broker.cluster.librdkafka(), "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    for _ in range(100):
        producer.produce(topic, b"never seen", partition=0)
    assert producer.flush(20) == 0
    producer.abort_transaction(20)
    found = [(one.partition, one.offset) for one in sample(broker.cluster, topic, 20)]
    assert found == [*((0, offset) for offset in range(5, 15)), *((1, offset) for offset in range(20, 30))]


def test_a_long_piece_before_a_gap_ends_at_the_deadline(
    broker: Any, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind 1,000 hidden records a piece has 640; the clock allows some 50, whose last ones are returned."""
    topic = unique("slow")
    ensure_topics(broker.cluster, [TopicSpec(topic, 1, ())])
    plain = Producer(broker.cluster.librdkafka())
    for number in range(2_000):
        plain.produce(topic, b'{"n":%d}' % number)
    assert plain.flush(20) == 0
    producer = Producer({**broker.cluster.librdkafka(), "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    for _ in range(1_000):
        producer.produce(topic, b"never seen")
    assert producer.flush(20) == 0
    producer.abort_transaction(20)
    seconds = itertools.count()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    found = [one.offset for one in sample(broker.cluster, topic, 20)]
    assert found == [*range(found[0], found[0] + 20)]
    assert 1_700 < found[-1] < 1_850


def test_tombstones_alone_are_told_from_an_empty_topic(broker: Any, unique: Callable[[str], str]) -> None:
    topic = unique("tombstones")
    ensure_topics(broker.cluster, [TopicSpec(topic, 1, ())])
    with pytest.raises(UsageError, match="holds no records"):
        detect_format(sample(broker.cluster, topic, 2), topic, None, ())
    plain = Producer(broker.cluster.librdkafka())
    for value in (b"{}", None, None):
        plain.produce(topic, value, b"key")
    assert plain.flush(20) == 0
    with pytest.raises(UsageError, match=r"none of the newest 2 records .* --records"):
        detect_format(sample(broker.cluster, topic, 2), topic, None, ())
    assert detect_format(sample(broker.cluster, topic, 3), topic, None, ()).unreadable == 2

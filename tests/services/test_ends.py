"""Where partitions end, asked of a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from cutwater.adapters.admin import ensure_topics
from cutwater.adapters.ends import Ends
from cutwater.core.topics import TopicSpec
from harness import wait_until


def test_what_an_open_transaction_wrote_counts(broker: Any, unique: Callable[[str], str]) -> None:
    """The proof of rows looks for whoever wrote: a transaction that is open, or was aborted, is no exception."""
    topic, ends = unique("ends"), Ends(broker.cluster)
    ensure_topics(broker.cluster, [TopicSpec(topic, 3, ())])
    assert ends.of(topic, 3) == {0: 0, 1: 0, 2: 0}
    producer = Producer({**broker.cluster.librdkafka(), "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    producer.flush(20)
    assert ends.of(topic, 3) == {0: 0, 1: 1, 2: 0}
    producer.abort_transaction(20)
    wait_until(lambda: ends.of(topic, 3) == {0: 0, 1: 2, 2: 0}, "the marker, which is a record too")

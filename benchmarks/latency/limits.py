"""What the broker itself takes, to hold the contenders' latencies against. On one partition, in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from confluent_kafka import KafkaError, Producer, TopicPartition

from benchmarks.latency.delays import summary
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import bounds, make_consumer, raise_read_error
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol import topics

ROUNDS, COLD = 500, 50
"""The first ones, in which connections open, do not count."""
_PATIENCE_S = 20.0


def ping_ms(cluster: Cluster, topic: str = "limits.ping") -> dict[str, float]:
    """From produce to consume, one record at a time, nothing waiting for company: percentiles."""
    ensure_topics(cluster, [topics.events(topic, 1)])
    producer = Producer({**cluster.librdkafka(), "acks": "all", "linger.ms": 0, "log_level": 3})
    consumer = make_consumer(cluster, **{"isolation.level": "read_uncommitted"})
    consumer.assign([TopicPartition(topic, 0, bounds(consumer, topic, 0)[1])])

    def ping() -> None:
        producer.produce(topic, value=b"ping", partition=0)
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            producer.poll(0)
            message = consumer.poll(0.05)
            if message is None:
                continue
            if message.error() is None:
                return
            if message.error().code() != KafkaError._PARTITION_EOF:
                raise_read_error(message.error(), topic, 0)
        raise UnavailableError(f"{topic}: a record did not come back within {_PATIENCE_S:.0f} s")

    try:
        return _timed(ping)
    finally:
        consumer.close()


def transaction_ms(cluster: Cluster, topic: str = "limits.transaction") -> dict[str, float]:
    """A transaction that holds one record without bytes, begun to committed: percentiles.

    Not an empty one: without a partition in it, a commit does not ask the broker at all.
    """
    ensure_topics(cluster, [topics.events(topic, 1)])
    writer = TransactionalWriter(cluster, topic)
    writer.initialise()
    return _timed(lambda: writer.write(topic, [b""]))


def _timed(action: Callable[[], None]) -> dict[str, float]:
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        action()
        took.append((time.perf_counter() - began) * 1000)
    return summary(np.array(took[COLD:]))

"""Topics of single records: written outside of a transaction within a time limit, and read from their end."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from cutwater.adapters.kafka.client import make_consumer, partition_count, read_tail
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.connect import create_client
from cutwater.core.errors import UnavailableError


def write_record(
    cluster: Cluster, topic: str, value: bytes | None, within_s: float, key: bytes | None = None
) -> None:
    """Write to partition 0. Raises UsageError if the topic does not exist, UnavailableError if the brokers do not
    acknowledge it in time, or refuse it."""
    partition_count(cluster, topic)  # a producer would make some brokers create the topic by themselves
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    bound: dict[str, Any] = {"acks": "all", "linger.ms": 0, "message.timeout.ms": int(within_s * 1000)}
    producer: Producer = create_client(cluster, Producer, bound)
    producer.produce(topic, value=value, key=key, partition=0, on_delivery=delivered)
    left = producer.flush(within_s + 1)
    if failures or left:
        why = failures[0].str() if failures else f"not acknowledged within {within_s:g} s"
        raise UnavailableError(f"writing to {topic}: {why}")


def newest_values(cluster: Cluster, topic: str, records: int) -> list[bytes]:
    """Return at most so many values of partition 0, in log order. Raises UsageError if there is no such topic."""
    partition_count(cluster, topic)
    consumer = make_consumer(cluster)
    try:
        values = read_tail(consumer, topic, 0, lambda found: len(found) >= records)
    finally:
        consumer.close()
    return values[-records:]

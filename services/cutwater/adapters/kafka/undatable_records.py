"""Records with timestamps that Spark cannot hold: its Kafka source fails there, whatever columns a query uses."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from cutwater.adapters.kafka.client import bounds, first_since, make_consumer, partition_count
from cutwater.adapters.kafka.client_config import Cluster

_SPARK_MS_MAX = (2**63 - 1) // 1_000
"""Spark holds microseconds in 64 bits: up to the year 294,247."""


def undatable(cluster: Cluster, topics: Iterable[str]) -> list[str]:
    """Return the first such record of each partition, as `events/0 at offset 12`, by the brokers' timestamp index.

    Raises UnavailableError if no broker answers, UsageError for a missing topic.
    """
    with closing(make_consumer(cluster)) as consumer:
        return [
            f"{topic}/{partition} at offset {offset}"
            for topic in topics
            for partition in range(partition_count(cluster, topic))
            if (offset := first_since(consumer, topic, partition, _SPARK_MS_MAX + 1))
            < bounds(consumer, topic, partition)[1]
        ]

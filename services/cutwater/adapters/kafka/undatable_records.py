"""Records whose timestamps Spark cannot hold: its Kafka source ends there, whichever columns a query takes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from cutwater.adapters.kafka.client import bounds, first_since, make_consumer, partition_count
from cutwater.adapters.kafka.client_config import Cluster

_SPARK_MS_MAX = (2**63 - 1) // 1_000
"""Spark has microseconds in 64 bits: the year 294,247."""


def undatable(cluster: Cluster, topics: Iterable[str]) -> list[str]:
    """The first such record of each partition, as `events/0 at offset 12`. Brokers have an index of timestamps.

    Raises UnavailableError when nobody answers, UsageError for a topic that is not there.
    """
    with closing(make_consumer(cluster)) as consumer:
        return [
            f"{topic}/{partition} at offset {offset}"
            for topic in topics
            for partition in range(partition_count(cluster, topic))
            if (offset := first_since(consumer, topic, partition, _SPARK_MS_MAX + 1))
            < bounds(consumer, topic, partition)[1]
        ]

"""Where partitions end: one request for all of them. A consumer's way takes two for each, one after another."""

from __future__ import annotations

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from cutwater.adapters.cluster import Cluster
from cutwater.adapters.kafka import TIMEOUT_S, patiently
from cutwater.adapters.reaching import made


class Ends:
    """Asks for ends, over connections of its own that stay. Any thread may ask."""

    def __init__(self, cluster: Cluster) -> None:
        self._admin: AdminClient = made(cluster, AdminClient, {})

    def of(self, topic: str, partitions: int) -> dict[int, int]:
        """The next offset of each partition: what has been written, in open transactions too.

        Raises UnavailableError when the brokers do not answer, or nobody leads a partition, as of a topic that is
        gone; UsageError when they say so.
        """
        return patiently(
            f"reading the ends of {topic}",
            lambda: self._ask(topic, partitions),
            lambda: self._admin.list_topics(topic, timeout=TIMEOUT_S),
        )

    def _ask(self, topic: str, partitions: int) -> dict[int, int]:
        asked = self._admin.list_offsets(
            {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=TIMEOUT_S,
        )
        return {place.partition: int(future.result(2 * TIMEOUT_S).offset) for place, future in asked.items()}

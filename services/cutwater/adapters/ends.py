"""Where partitions end: one request for all of them. A consumer's way takes two for each, one after another."""

from __future__ import annotations

import time

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from cutwater.adapters.cluster import Cluster
from cutwater.adapters.kafka import PASSING, TIMEOUT_S, explain
from cutwater.adapters.reaching import made

_PAUSE_S = 0.1


class Ends:
    """Asks for ends, over connections of its own that stay. Any thread may ask."""

    def __init__(self, cluster: Cluster) -> None:
        self._admin: AdminClient = made(cluster, AdminClient, {})

    def of(self, topic: str, partitions: int) -> dict[int, int]:
        """The next offset of each partition: what has been written, in open transactions too.

        Raises UnavailableError when the brokers do not answer, or know of no such topic.
        """
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return self._ask(topic, partitions)
            except KafkaException as error:
                if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                    raise explain(error, f"reading the ends of {topic}") from None
                time.sleep(_PAUSE_S)

    def _ask(self, topic: str, partitions: int) -> dict[int, int]:
        asked = self._admin.list_offsets(
            {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=TIMEOUT_S,
        )
        return {place.partition: int(future.result(2 * TIMEOUT_S).offset) for place, future in asked.items()}

"""Deletion of a topic's oldest records."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import TopicPartition

from cutwater.adapters.kafka.admin import admin_client, descriptions
from cutwater.adapters.kafka.client import TIMEOUT_S, explain, failure
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets


def empty(cluster: Cluster, topic: str) -> None:
    """Delete every record of a topic; a missing topic counts as empty."""
    found = descriptions(cluster, [topic]).get(topic)
    if found is None:
        return
    delete_below(cluster, topic, Offsets(cluster).topic_ends(topic, len(found.partitions)))


def delete_below(cluster: Cluster, topic: str, offsets: Mapping[int, int]) -> None:
    """Delete the records of each partition below an offset; none if it is 0."""
    admin = admin_client(cluster)  # kept in a variable: otherwise it would be collected before the answer
    asked = [TopicPartition(topic, number, end) for number, end in offsets.items() if end]
    doing = f"deleting records of {topic}"
    for done in admin.delete_records(asked, request_timeout=TIMEOUT_S).values() if asked else ():
        if (error := failure(done, doing, 2 * TIMEOUT_S)) is not None:
            raise explain(error, doing) from None

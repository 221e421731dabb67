"""Deleting records of a topic, up to its present end."""

from __future__ import annotations

from confluent_kafka import TopicPartition

from cutwater.adapters.admin import admin_client, described
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.ends import Ends
from cutwater.adapters.kafka import TIMEOUT_S, explain, failure


def empty(cluster: Cluster, topic: str) -> None:
    """Delete every record of a topic; one that does not exist is empty."""
    found = described(cluster, [topic]).get(topic)
    if found is None:
        return
    ends = Ends(cluster).of(topic, len(found.partitions))
    admin = admin_client(cluster)  # held: without a name it would end before it has answered
    asked = [TopicPartition(topic, number, end) for number, end in ends.items() if end]
    doing = f"deleting records of {topic}"
    for done in admin.delete_records(asked, request_timeout=TIMEOUT_S).values() if asked else ():
        if (error := failure(done, doing, 2 * TIMEOUT_S)) is not None:
            raise explain(error, doing) from None

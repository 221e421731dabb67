"""The mirror's queries to both clusters about a topic."""

from __future__ import annotations

from collections.abc import Collection

from cutwater.adapters.kafka.admin import create_topics, describe_topics
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.topic_ids import Identity, TopicIds
from cutwater.adapters.topics.log_evidence import LogCheck, LogState
from cutwater.core.checks.replication import Replication
from cutwater.core.errors import UsageError
from cutwater.core.mirror.copy_progress import read_so_far
from cutwater.core.mirror.topic_config_sync import CopySpec
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.mirror_records import Mirrored
from cutwater.core.protocol.topic_settings import FoundTopic

PATIENCE_S, GLANCE_S = 5.0, 2.0
"""Short, because arrivals are announced while the origin does not answer."""


class Origin:
    """The cluster of the region that is copied; only read."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._identities = TopicIds(cluster, PATIENCE_S)
        self._ends = Offsets(cluster)
        self._glance = Offsets(cluster, GLANCE_S)
        self._witness = LogCheck(cluster, PATIENCE_S)

    def identities(self, names: Collection[str]) -> dict[str, Identity]:
        """Return those that exist."""
        return self._identities.read(names)

    def is_still(self, topic: str, identity: Identity) -> bool:
        """Whether the topic still has this id, so that earlier answers by name were about it."""
        return self.identities([topic]).get(topic) == identity

    def described(self, name: str) -> FoundTopic | None:
        return self.all_described([name]).get(name)

    def all_described(self, names: Collection[str]) -> dict[str, FoundTopic]:
        """Return those that exist, with their settings."""
        return describe_topics(self.cluster, list(names))

    def log_bounds(
        self, topic: str, partitions: Collection[int], briefly: bool = False
    ) -> dict[int, tuple[int, int]]:
        """Return first offset and end of each partition. `briefly`: with the shorter time-out."""
        return (self._glance if briefly else self._ends).topic_bounds(topic, partitions)

    def holding(self, positions: Collection[Mirrored]) -> tuple[dict[TopicPartition, int], list[str]]:
        """Return the epochs of new leaders if their logs hold all that was copied, else what was lost. Raises as
        `LogCheck` does.
        """
        now = self._witness.ends.ends_with_epochs([TopicPartition(one.topic, one.partition) for one in positions])
        at = {TopicPartition(one.topic, one.partition): one for one in positions}
        changed = {place: one for place, one in at.items() if now[place].leader_epoch > one.leader}
        evidence, below = read_so_far(changed.values())
        lost = self._witness.find_losses(evidence, below, LogState({}, now))
        return ({}, lost) if lost else ({place: now[place].leader_epoch for place in changed}, [])

    def ends(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end of each partition, with the shorter time-out."""
        return self._glance.written_ends(places)


def ensure(cluster: Cluster, copy: CopySpec, replication: Replication) -> FoundTopic:
    """Return the copy's topic as it is here; create it if it is missing. Raises UsageError if a setting of the
    existing topic makes it no replica.
    """
    there = describe_topics(cluster, [copy.name]).get(copy.name)
    if there is None:
        create_topics(cluster, [copy.made], replication)
        return FoundTopic(copy.name, copy.partitions, dict(copy.made.config))
    if wrong := copy.wrong(there):
        raise UsageError("; ".join(f"{one} ({one.remedy})" for one in wrong))
    return there


def is_empty(cluster: Cluster, topic: str, partition: int, first: int = 0) -> bool:
    """Whether there is no committed record from `first` on; aborted records do not count."""
    consumer = make_consumer(cluster)
    try:
        low, high = bounds(consumer, topic, partition)
        first = max(low, first)
        return first >= high or next(read_range(consumer, topic, partition, first), None) is None
    finally:
        consumer.close()

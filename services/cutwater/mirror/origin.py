"""What the mirror asks of both clusters about a topic before it copies it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from cutwater.adapters.admin import create_topics, describe_topics
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.ends import Ends
from cutwater.adapters.identities import Identities, Identity
from cutwater.adapters.kafka import bounds, make_consumer, read_range
from cutwater.core import topics
from cutwater.core.cuts import TopicPartition
from cutwater.core.errors import UsageError
from cutwater.core.mirrored import HEADER_ROOM
from cutwater.core.mirroring import NEVER_MS
from cutwater.core.replication import Replication
from cutwater.core.topic_check import FoundTopic, differences
from cutwater.core.topics import TopicSpec

PATIENCE_S, GLANCE_S = 5.0, 2.0
"""Arrivals are announced while the origin is away: nobody waits long for it."""
_OF_EVENTS = ("cleanup.policy", "retention.ms", "retention.bytes", topics.TIMESTAMP_AHEAD)
"""Settings of a source topic that its copy begins with. Later changes are whoever's business runs the region."""
_LARGEST = "max.message.bytes"


class Origin:
    """The cluster of the region that is copied: it is only read."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._identities = Identities(cluster, PATIENCE_S)
        self._ends = Ends(cluster)
        self._glance = Ends(cluster, GLANCE_S)

    def identities(self, names: Collection[str]) -> dict[str, Identity]:
        """Those that exist."""
        return self._identities.of(names)

    def described(self, name: str) -> FoundTopic | None:
        return describe_topics(self.cluster, [name]).get(name)

    def kept(self, topic: str, partitions: Collection[int], briefly: bool = False) -> dict[int, tuple[int, int]]:
        """First offset and end of each. `briefly`: somebody waits who has more to do."""
        return (self._glance if briefly else self._ends).kept(topic, partitions)

    def ends(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Of each, in one short question: somebody else's patience is longer."""
        return self._glance.written(places)


def lag_ms(found: FoundTopic) -> int:
    """For how long the origin's compaction spares a record."""
    compacts = "compact" in found.config.get("cleanup.policy", "")
    return int(found.config.get("min.compaction.lag.ms", "0")) if compacts else NEVER_MS


def copy_of(found: FoundTopic, name: str, job: str) -> TopicSpec:
    """How the copy of an origin's topic is made here."""
    largest = (_LARGEST, str(int(found.config[_LARGEST]) + HEADER_ROOM))
    if (generation := topics.generation_of(job, name)) is not None:
        (mine,) = [one for one in topics.owned(job, generation, found.partitions) if one.name == name]
        return replace(mine, config=(*(one for one in mine.config if one[0] != _LARGEST), largest))
    taken = [(key, found.config[key]) for key in _OF_EVENTS if key in found.config]
    return TopicSpec(name, found.partitions, (*taken, largest))


def ensure(cluster: Cluster, spec: TopicSpec, replication: Replication) -> int:
    """Make the copy's topic where it is missing; its number of partitions.

    Raises UsageError where it is there and a setting would make it no replica.
    """
    there = describe_topics(cluster, [spec.name]).get(spec.name)
    if there is None:
        create_topics(cluster, [spec], replication)
        return spec.partitions
    alike = replace(spec, partitions=there.partitions)
    wrong = [one for one in differences(alike, there) if one.setting != _LARGEST]
    if wrong:
        raise UsageError("; ".join(f"{one} ({one.remedy})" for one in wrong))
    return there.partitions


def is_empty(cluster: Cluster, topic: str, partition: int, first: int = 0) -> bool:
    """Is there no committed record from `first` on? What an aborted transaction has left does not count."""
    consumer = make_consumer(cluster)
    try:
        low, high = bounds(consumer, topic, partition)
        first = max(low, first)
        return first >= high or next(read_range(consumer, topic, partition, first), None) is None
    finally:
        consumer.close()

"""The settings of a copy's topic: which it takes from the origin's, when it is made and later, which are its own.

Each setting is one of three. *Fixed* by the protocol: a copy that has another value is no replica, and is refused.
*Taken*: the copy begins with the origin's value and follows it; where more is as good (the largest record, the
compaction lag) it is only ever raised, since the origin's log may still hold what was written before. What is left
is this region's own: replication, segments, and of those taken what an operator keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cutwater.core import mirrored, topics
from cutwater.core.mirrored import HEADER_ROOM
from cutwater.core.mirroring import NEVER_MS
from cutwater.core.topic_check import Difference, FoundTopic, differences
from cutwater.core.topics import TopicSpec

Settings = tuple[tuple[str, str], ...]
MAY_BE_KEPT = ("retention.ms", "retention.bytes", topics.TIMESTAMP_AHEAD)
"""How long events are kept, and which are refused, may differ between regions; what compaction takes, not."""
_OF_EVENTS = ("cleanup.policy", "min.compaction.lag.ms", *MAY_BE_KEPT)
_LARGEST = "max.message.bytes"
_BATCH_BYTES = 1_048_588
"""Kafka's own default. Brokers count batches, and a client's batch holds many records, however small each is."""


@dataclass(frozen=True)
class CopySpec:
    """How the copy of an origin's topic is to be."""

    name: str
    """Here."""
    partitions: int
    fixed: Settings
    taken: Settings

    @property
    def made(self) -> TopicSpec:
        """As it is created."""
        return TopicSpec(self.name, self.partitions, (*self.fixed, *self.taken))

    def wrong(self, here: FoundTopic) -> list[Difference]:
        """What makes a topic that is there no replica. Its partitions are another matter (`mirror_gaps`)."""
        return differences(TopicSpec(self.name, here.partitions, self.fixed), here)

    def behind(self, here: FoundTopic, kept: Collection[str]) -> list[Difference]:
        """What a topic that is there has not taken over yet; nothing of what this region keeps."""
        followed = tuple(one for one in self.taken if one[0] not in kept)
        return differences(TopicSpec(self.name, here.partitions, followed), here)


def copy_of(found: FoundTopic, name: str, job: str, region: str) -> CopySpec:
    """How the copy of a topic of the origin `region` is to be; `name`: its name here."""
    size = max(largest_of(found.config), _BATCH_BYTES)
    if (generation := topics.generation_of(job, name)) is not None:
        owned = topics.owned(job, generation, found.partitions)
        return CopySpec(name, found.partitions, _fixed(owned, name), _largest(size + HEADER_ROOM))
    if name == mirrored.milestones_from(job, region):  # byte for byte
        return CopySpec(name, found.partitions, _fixed(mirrored.owned(job, region), name), _largest(size))
    taken = tuple((key, found.config[key]) for key in _OF_EVENTS if key in found.config)
    return CopySpec(name, found.partitions, (), (*taken, *_largest(size + HEADER_ROOM)))


def largest_of(config: Mapping[str, str]) -> int:
    """Bytes of the largest record that a topic takes."""
    return int(config[_LARGEST])


def lag_ms(found: FoundTopic) -> int:
    """For how long the origin's compaction spares a record."""
    compacts = "compact" in found.config.get("cleanup.policy", "")
    return int(found.config.get("min.compaction.lag.ms", "0")) if compacts else NEVER_MS


def _fixed(specs: Collection[TopicSpec], name: str) -> Settings:
    (mine,) = [one for one in specs if one.name == name]
    return tuple(one for one in mine.config if one[0] != _LARGEST)


def _largest(size: int) -> Settings:
    return ((_LARGEST, str(size)),)

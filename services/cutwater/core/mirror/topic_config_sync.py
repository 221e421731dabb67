"""Sync of topic settings from the origin's topic to its copy.

There are three kinds of settings. *Fixed* by the protocol: a copy with another value is refused, as it is not a
replica. *Taken*: the copy starts with the origin's value and follows it, but only upwards. A value that lets the
brokers here delete or refuse more than before, or another clean-up policy, is reported and left to an operator:
readers here may be behind, and data that the origin deletes on purpose may be needed here. All others are this
region's own: replication, segments, and the taken settings that an operator keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cutwater.core.mirror.copy_progress import NEVER_MS
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.mirror_records import HEADER_ROOM
from cutwater.core.protocol.topic_settings import Difference, FoundTopic, differences
from cutwater.core.protocol.topics import TopicSpec

Settings = tuple[tuple[str, str], ...]
MAY_BE_KEPT = ("retention.ms", "retention.bytes", topics.TIMESTAMP_AHEAD)
"""Retention and refusal of events may differ between regions; compaction may not."""
_OF_EVENTS = ("cleanup.policy", "min.compaction.lag.ms", *MAY_BE_KEPT)
_ORIGINS_TIMES = ("message.timestamp.type", "CreateTime")
"""Independent of the settings of the origin's topic and the brokers here: an event keeps its time in the origin's
log. An event too far ahead of that is a dead letter (`max_ahead`), which must be the same in both regions."""
_LARGEST = "max.message.bytes"
_RAISED = frozenset({"min.compaction.lag.ms", _LARGEST, *MAY_BE_KEPT})
_BATCH_BYTES = 1_048_588
"""Kafka's default. Brokers limit batches, and a client's batch holds many records."""
_NEEDED = frozenset({"min.compaction.lag.ms", _LARGEST})


@dataclass(frozen=True)
class CopySpec:
    """The specification of a topic's copy."""

    name: str
    """Here."""
    partitions: int
    fixed: Settings
    taken: Settings

    @property
    def made(self) -> TopicSpec:
        """The topic to create."""
        return TopicSpec(self.name, self.partitions, (*self.fixed, *self.taken))

    def wrong(self, here: FoundTopic) -> list[Difference]:
        """Return the settings by which an existing topic is not a replica. `gaps` checks its partitions."""
        return differences(TopicSpec(self.name, here.partitions, self.fixed), here)

    def behind(self, here: FoundTopic, kept: Collection[str]) -> list[Difference]:
        """Return the settings that an existing topic has not taken over yet, without those that this region keeps.
        The settings that copying needs are first: the largest record and the compaction lag."""
        found = [one for one in self._differences(here, kept) if _more(one)]
        return sorted(found, key=lambda one: one.setting not in _NEEDED)

    def left(self, here: FoundTopic, kept: Collection[str]) -> list[Difference]:
        """Return the settings that it does not take over, since records that exist only here could be lost."""
        return [one for one in self._differences(here, kept) if not _more(one)]

    def _differences(self, here: FoundTopic, kept: Collection[str]) -> list[Difference]:
        followed = tuple(one for one in self.taken if one[0] not in kept)
        return differences(TopicSpec(self.name, here.partitions, followed), here)


def copy_of(found: FoundTopic, name: str, job: str, region: str) -> CopySpec:
    """Return the specification of the copy of a topic of the origin `region`; `name`: its name here."""
    size = max(largest_of(found.config), _BATCH_BYTES)
    if (generation := topics.generation_of(job, name)) is not None:
        owned = topics.generation_topics(job, generation, found.partitions)
        return CopySpec(name, found.partitions, _fixed(owned, name), _largest(size + HEADER_ROOM))
    if name == mirror_records.milestones_from(job, region):  # byte for byte
        return CopySpec(
            name, found.partitions, _fixed(mirror_records.mirror_topics(job, region), name), _largest(size)
        )
    taken = tuple((key, found.config[key]) for key in _OF_EVENTS if key in found.config)
    return CopySpec(name, found.partitions, (), (_ORIGINS_TIMES, *taken, *_largest(size + HEADER_ROOM)))


def largest_of(config: Mapping[str, str]) -> int:
    """Return the size of the largest record that a topic accepts."""
    return int(config[_LARGEST])


def lag_ms(found: FoundTopic) -> int:
    """Return how long the origin's compaction keeps a record."""
    compacts = "compact" in found.config.get("cleanup.policy", "")
    return int(found.config.get("min.compaction.lag.ms", "0")) if compacts else NEVER_MS


def _more(one: Difference) -> bool:
    """Return whether the origin's value only lets the topic here keep or accept more."""
    if one.setting == _ORIGINS_TIMES[0]:
        return True
    if one.setting not in _RAISED:
        return False
    return not one.found or _amount(one.value) > _amount(one.found)


def _amount(value: str) -> float:
    """Return the number; -1 means unlimited."""
    return float("inf") if int(value) < 0 else int(value)


def _fixed(specs: Collection[TopicSpec], name: str) -> Settings:
    (mine,) = [one for one in specs if one.name == name]
    return tuple(one for one in mine.config if one[0] != _LARGEST)


def _largest(size: int) -> Settings:
    return ((_LARGEST, str(size)),)

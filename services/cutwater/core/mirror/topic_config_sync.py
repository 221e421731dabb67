"""The settings of a copy's topic: which it takes from the origin's, when it is made and later, which are its own.

Each setting is one of three. *Fixed* by the protocol: a copy that has another value is no replica, and is refused.
*Taken*: the copy begins with the origin's value and follows it, but only upwards. A value that lets the brokers
here delete more, or refuse more, than before is told and left to an operator: who reads the copy here may be
behind, and what the origin throws away on purpose may be wanted here. So is another clean-up. What is left is this
region's own: replication, segments, and of those taken what an operator keeps.
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
"""How long events are kept, and which are refused, may differ between regions; what compaction takes, not."""
_OF_EVENTS = ("cleanup.policy", "min.compaction.lag.ms", *MAY_BE_KEPT)
_ORIGINS_TIMES = ("message.timestamp.type", "CreateTime")
"""Whatever the origin's topic or the brokers here have: an event keeps the time that it has in the origin's log.
What is too far ahead of that is a dead letter (`max_ahead`): it must be one in both regions or in none."""
_LARGEST = "max.message.bytes"
_RAISED = frozenset({"min.compaction.lag.ms", _LARGEST, *MAY_BE_KEPT})
_BATCH_BYTES = 1_048_588
"""Kafka's own default. Brokers count batches, and a client's batch holds many records, however small each is."""
_NEEDED = frozenset({"min.compaction.lag.ms", _LARGEST})


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
        """What makes a topic that is there no replica. Its partitions are another matter (`gaps`)."""
        return differences(TopicSpec(self.name, here.partitions, self.fixed), here)

    def behind(self, here: FoundTopic, kept: Collection[str]) -> list[Difference]:
        """What a topic that is there has not taken over yet; nothing of what this region keeps.

        What copying needs comes first: the largest record and the compaction lag.
        """
        found = [one for one in self._differing(here, kept) if _more(one)]
        return sorted(found, key=lambda one: one.setting not in _NEEDED)

    def left(self, here: FoundTopic, kept: Collection[str]) -> list[Difference]:
        """What it does not take over: it could cost records that are only here."""
        return [one for one in self._differing(here, kept) if not _more(one)]

    def _differing(self, here: FoundTopic, kept: Collection[str]) -> list[Difference]:
        followed = tuple(one for one in self.taken if one[0] not in kept)
        return differences(TopicSpec(self.name, here.partitions, followed), here)


def copy_of(found: FoundTopic, name: str, job: str, region: str) -> CopySpec:
    """How the copy of a topic of the origin `region` is to be; `name`: its name here."""
    size = max(largest_of(found.config), _BATCH_BYTES)
    if (generation := topics.generation_of(job, name)) is not None:
        owned = topics.owned(job, generation, found.partitions)
        return CopySpec(name, found.partitions, _fixed(owned, name), _largest(size + HEADER_ROOM))
    if name == mirror_records.milestones_from(job, region):  # byte for byte
        return CopySpec(name, found.partitions, _fixed(mirror_records.owned(job, region), name), _largest(size))
    taken = tuple((key, found.config[key]) for key in _OF_EVENTS if key in found.config)
    return CopySpec(name, found.partitions, (), (_ORIGINS_TIMES, *taken, *_largest(size + HEADER_ROOM)))


def largest_of(config: Mapping[str, str]) -> int:
    """Bytes of the largest record that a topic takes."""
    return int(config[_LARGEST])


def lag_ms(found: FoundTopic) -> int:
    """For how long the origin's compaction spares a record."""
    compacts = "compact" in found.config.get("cleanup.policy", "")
    return int(found.config.get("min.compaction.lag.ms", "0")) if compacts else NEVER_MS


def _more(one: Difference) -> bool:
    """Does the origin's value only let the topic here hold or take more? Times that are right cost nothing."""
    if one.setting == _ORIGINS_TIMES[0]:
        return True
    if one.setting not in _RAISED:
        return False
    return not one.found or _amount(one.value) > _amount(one.found)


def _amount(value: str) -> float:
    """-1 is without end."""
    return float("inf") if int(value) < 0 else int(value)


def _fixed(specs: Collection[TopicSpec], name: str) -> Settings:
    (mine,) = [one for one in specs if one.name == name]
    return tuple(one for one in mine.config if one[0] != _LARGEST)


def _largest(size: int) -> Settings:
    return ((_LARGEST, str(size)),)

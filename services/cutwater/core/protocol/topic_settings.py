"""Does a topic that exists have the settings that the protocol relies on? A comparison of plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutwater.core.protocol.topics import TopicSpec

_AT_LEAST = frozenset({"min.compaction.lag.ms", "delete.retention.ms", "max.message.bytes"})
"""More is as good: the protocol asks for a least time or size."""
_LEAST = "at least "


@dataclass(frozen=True)
class FoundTopic:
    """A topic as the cluster describes it."""

    name: str
    partitions: int
    config: Mapping[str, str]
    replication: int = 1
    operations: frozenset[str] | None = None
    """What this client may do with it, in Kafka's words; None where the cluster does not say."""


@dataclass(frozen=True)
class Difference:
    """One setting of a topic that is not as wanted."""

    topic: str
    setting: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"topic {self.topic}: {self.setting} is {self.found or 'not set'}, and must be {self.wanted}"

    @property
    def value(self) -> str:
        """What to set."""
        return self.wanted.removeprefix(_LEAST)

    @property
    def remedy(self) -> str:
        """What to do about it, as a command where there is one."""
        if self.setting == "partitions":
            return "the number is fixed by the job file: put it back there, or start a job of another name"
        return (
            f"kafka-configs.sh --alter --entity-type topics --entity-name {self.topic} "
            f"--add-config {self.setting}={self.value}"
        )


def differences(spec: TopicSpec, found: FoundTopic) -> list[Difference]:
    """Every setting of a topic that differs from what its spec wants."""
    wrong = []
    if found.partitions != spec.partitions and not spec.keeps_partitions:
        wrong.append(Difference(spec.name, "partitions", str(found.partitions), str(spec.partitions)))
    for setting, wanted in spec.config:
        value = found.config.get(setting, "")
        if not _fits(setting, value, wanted):
            least = f"{_LEAST}{wanted}" if setting in _AT_LEAST else wanted
            wrong.append(Difference(spec.name, setting, value, least))
    return wrong


def _fits(setting: str, value: str, wanted: str) -> bool:
    if setting in _AT_LEAST:
        return value.isdecimal() and int(value) >= int(wanted)
    return sorted(value.split(",")) == sorted(wanted.split(","))  # cleanup.policy is a list

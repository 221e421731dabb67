"""A comparison of an existing topic's settings with those that the protocol needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutwater.core.protocol.topics import TopicSpec

_AT_LEAST = frozenset({"min.compaction.lag.ms", "delete.retention.ms", "max.message.bytes"})
"""Settings with a minimum, for which a larger value is as good."""
_LEAST = "at least "


@dataclass(frozen=True)
class FoundTopic:
    name: str
    partitions: int
    config: Mapping[str, str]
    replication: int = 1
    operations: frozenset[str] | None = None
    """The operations that this client may use, in Kafka's names; None if the cluster does not report them."""


@dataclass(frozen=True)
class Difference:
    topic: str
    setting: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"topic {self.topic}: {self.setting} is {self.found or 'not set'}, and must be {self.wanted}"

    @property
    def value(self) -> str:
        return self.wanted.removeprefix(_LEAST)

    @property
    def remedy(self) -> str:
        if self.setting == "partitions":
            return "the job file fixes the number: restore it there, or start a job of another name"
        return (
            f"kafka-configs.sh --alter --entity-type topics --entity-name {self.topic} "
            f"--add-config {self.setting}={self.value}"
        )


def differences(spec: TopicSpec, found: FoundTopic) -> list[Difference]:
    """Return every setting of a topic that differs from its spec."""
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

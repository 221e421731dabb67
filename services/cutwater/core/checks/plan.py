"""What a job adds to a cluster, before anything is added: topics, rights, bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from cutwater.core.checks.acls import Acl
from cutwater.core.checks.capacity import Estimate, Load
from cutwater.core.checks.event_sample import SampleFigures
from cutwater.core.checks.replication import Replication
from cutwater.core.protocol.topics import TopicSpec


@dataclass(frozen=True)
class Measured:
    """What a stack of this job wrote already."""

    row_bytes: float
    """One changelog record: key, value, headers and Kafka's own share."""
    sampled: int
    """Records that this was taken from."""
    rows_per_event: float | None
    """Over the newest milestones; None where they hold no events."""


class Mirroring(NamedTuple):
    """The rights that users of this region need in another one; those here are among the others."""

    region: str
    bootstrap: str | None
    """None where the region's brokers are not named."""
    acls: Sequence[Acl]


@dataclass(frozen=True)
class Plan:
    """Everything `cutwater plan` prints."""

    job: str
    source: str
    bootstrap: str | None
    """None where no cluster was asked."""
    topics: Sequence[TopicSpec]
    existing: frozenset[str]
    replication: Replication
    warnings: Sequence[str]
    acls: Sequence[Acl]
    load: Load
    estimate: Estimate
    measured: Measured | None
    sampled: SampleFigures | None = None
    """None where no event of the source could be read."""
    unknown: Sequence[str] = ()
    """Why figures are upper bounds only; empty where they are good to a factor of two."""
    mirrors: Sequence[Mirroring] = field(default=())
    """At most one: of the region that is copied here."""

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "job": self.job,
            "source": self.source,
            "bootstrap_servers": self.bootstrap,
            "topics": [self._topic(one) for one in self.topics],
            "warnings": list(self.warnings),
            "acls": [one.plain() for one in self.acls],
            "mirrors": [{**one._asdict(), "acls": [acl.plain() for acl in one.acls]} for one in self.mirrors],
            "load": asdict(self.load),
            "measured": asdict(self.measured) if self.measured else None,
            "sampled": asdict(self.sampled) if self.sampled else None,
            "unknown": list(self.unknown),
            "estimate": {
                **asdict(self.estimate),
                "network_bytes_per_s": self.estimate.network_bytes_per_s(self.replication.factor),
                "disk_bytes_after_30_days": self.estimate.disk_bytes(30, self.replication.factor),
            },
        }

    def _topic(self, spec: TopicSpec) -> dict[str, Any]:
        return {
            "name": spec.name,
            "exists": spec.name in self.existing,
            "partitions": spec.partitions,
            "replication_factor": self.replication.factor,
            "config": {**dict(spec.config), "min.insync.replicas": str(self.replication.min_insync)},
        }

    def commands(self, principal: str) -> list[str]:
        """The calls of kafka-acls that grant everything, each once for all services; in other regions too."""
        places = [(self.bootstrap or "HOST:PORT", self.acls)]
        places += [(one.bootstrap or f"{one.region.upper()}-HOST:PORT", one.acls) for one in self.mirrors]
        calls = (one.command(place, principal) for place, acls in places for one in merged(acls))
        return list(dict.fromkeys(calls))


def merged(acls: Sequence[Acl]) -> list[Acl]:
    """One entry per resource, for services that run as one user."""
    held: dict[tuple[str, str, bool], dict[str, None]] = {}
    for one in acls:
        held.setdefault((one.resource, one.name, one.prefixed), {}).update(dict.fromkeys(one.operations))
    return [Acl("all", kind, name, tuple(can), prefixed) for (kind, name, prefixed), can in held.items()]


def size(count: float) -> str:
    """Bytes for people."""
    units = ["B", "KB", "MB", "GB", "TB"]
    while count >= 1_000 and len(units) > 1:
        count, units = count / 1_000, units[1:]
    return f"{count:.3g} {units[0]}" if count < 1_000 else f"{count:,.0f} {units[0]}"

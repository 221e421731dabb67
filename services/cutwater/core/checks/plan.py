"""The plan of a job, before anything is created: topics, ACLs, bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from cutwater.core.checks.acls import Acl
from cutwater.core.checks.capacity import Estimate, Load
from cutwater.core.checks.event_sample import SampleFigures
from cutwater.core.checks.measure_costs import MeasureCost
from cutwater.core.checks.replication import Replication
from cutwater.core.protocol.topics import TopicSpec


@dataclass(frozen=True)
class Measurements:
    """Measurements of a job that has run already."""

    row_bytes: float
    sampled: int
    rows_per_event: float | None
    """Over the newest milestones; None if they hold no events."""


class Mirroring(NamedTuple):
    region: str
    bootstrap: str | None
    """None if the brokers of the region are not configured."""
    acls: Sequence[Acl]


@dataclass(frozen=True)
class Plan:
    job: str
    source: str
    bootstrap: str | None
    """None if no cluster was queried."""
    topics: Sequence[TopicSpec]
    existing: frozenset[str]
    replication: Replication
    warnings: Sequence[str]
    acls: Sequence[Acl]
    load: Load
    estimate: Estimate
    measured: Measurements | None
    sampled: SampleFigures | None = None
    """None if no event of the source could be read."""
    unknown: Sequence[str] = ()
    """Why figures are only upper bounds; empty if they are good to a factor of two."""
    measures: Sequence[MeasureCost] = ()
    mirrors: Sequence[Mirroring] = field(default=())
    """At most one: the region that is mirrored here."""

    def plain(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "source": self.source,
            "bootstrap_servers": self.bootstrap,
            "topics": [self._topic(one) for one in self.topics],
            "warnings": list(self.warnings),
            "acls": [one.plain() for one in self.acls],
            "mirrors": [{**one._asdict(), "acls": [acl.plain() for acl in one.acls]} for one in self.mirrors],
            "measures": [one._asdict() for one in self.measures],
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
        """Return the `kafka-acls.sh` commands for all services and regions, without repeats."""
        places = [(self.bootstrap or "HOST:PORT", self.acls)]
        places += [(one.bootstrap or f"{one.region.upper()}-HOST:PORT", one.acls) for one in self.mirrors]
        calls = (one.command(place, principal) for place, acls in places for one in merge_acls(acls))
        return list(dict.fromkeys(calls))


def merge_acls(acls: Sequence[Acl]) -> list[Acl]:
    held: dict[tuple[str, str, bool], dict[str, None]] = {}
    for one in acls:
        held.setdefault((one.resource, one.name, one.prefixed), {}).update(dict.fromkeys(one.operations))
    return [Acl("all", kind, name, tuple(can), prefixed) for (kind, name, prefixed), can in held.items()]


def size(count: float) -> str:
    units = ["B", "KB", "MB", "GB", "TB"]
    while count >= 1_000 and len(units) > 1:
        count, units = count / 1_000, units[1:]
    return f"{count:.3g} {units[0]}" if count < 1_000 else f"{count:,.0f} {units[0]}"

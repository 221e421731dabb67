"""The source of a new generation's state, determined and reported before the claim."""

from __future__ import annotations

from typing import Any, NamedTuple

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import origin_parent, parent_of
from cutwater.core.job.job import Job
from cutwater.core.protocol.records import Claim
from cutwater.operations.generations.parent_changelog import changelog_problem


class SeedSource(NamedTuple):
    """The parent's changelog, or snapshots of the parent milestone."""

    why: str = ""
    """Why the changelog cannot give the state; empty if it can."""
    store: str = ""
    snapshots: tuple[str, ...] = ()

    def as_object(self) -> dict[str, Any]:
        return {
            "from": "snapshot" if self.snapshots else "changelog",
            "reason": self.why or None,
            "store": self.store or None,
            "snapshots": list(self.snapshots),
        }

    def __str__(self) -> str:
        if not self.snapshots:
            return "its state is read from the parent's changelog"
        return (
            f"its state is read from snapshot {', '.join(self.snapshots)} in {self.store}, since {self.why}: its "
            "driver also needs CUTWATER_SNAPSHOTS"
        )


def seed_source(cluster: Cluster, job: Job, settings: Settings, claim: Claim, place: str) -> SeedSource:
    """Return where its driver will find the parent's state. `place`: the snapshot store, empty for none. Raises
    UsageError with the next step if nothing has the state; UnavailableError or MachineError if brokers or store
    do not answer."""
    why = changelog_problem(cluster, job.name, parent_of(claim), claim.generation.region, now_ms)
    if not why:
        return SeedSource()
    # Imports what most verbs do without.
    from cutwater.views.snapshots.repositories import repositories_at
    from cutwater.views.snapshots.snapshot_set import StoredSeeds

    shelves = repositories_at(place, settings) if place else None
    taken = StoredSeeds(shelves, job, origin_parent(claim), why).plan()
    return SeedSource(why, place, tuple(one.name for one in taken))

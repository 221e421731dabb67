"""All snapshot repositories of one store, with the settings' keys, for every reader of snapshots."""

from __future__ import annotations

from typing import NamedTuple

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.object_store import Objects, objects_at
from cutwater.core.job.job import Job
from cutwater.core.state.manifest_signature import Keys
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.snapshot_manifest import Names, share_name, shares_of
from cutwater.views.snapshots.object_store_tier import SnapshotRepository


class SnapshotRepositories(NamedTuple):
    """The repositories of one object store. The store is first queried by one of them."""

    objects: Objects
    grace_ms: int
    keys: Keys

    @property
    def place(self) -> str:
        return self.objects.place

    def repository(self, names: Names) -> SnapshotRepository:
        return SnapshotRepository(self.objects, names, self.grace_ms, self.keys)

    def below(self, job: str, generation: str = "") -> list[SnapshotRepository]:
        """Return the repositories of each share with objects, of a job or one generation. Raises CutwaterError."""
        names = (one.name for one in self.objects.list_objects(f"{job}/{generation}".rstrip("/")))
        return [self.repository(one) for one in shares_of(job, names)]


def repositories_at(place: str, settings: Settings) -> SnapshotRepositories:
    """Return the repositories at a URL. Raises UsageError for an invalid URL."""
    return SnapshotRepositories(objects_at(place, settings), settings.snapshot_grace_ms, settings.snapshot_keys)


def repository_of(settings: Settings, job: Job, partitions: Partitions | None) -> SnapshotRepository:
    """Return the repository of a view by the settings. Raises UsageError for an invalid URL."""
    region = settings.region if settings.replica_of else ""
    names = Names(job.name, str(settings.generation), share_name(partitions, region))
    return repositories_at(settings.snapshots, settings).repository(names)

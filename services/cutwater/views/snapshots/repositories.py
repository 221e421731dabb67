"""All shelves of one store, as the settings say: every reader of snapshots gets them here, and so the keys."""

from __future__ import annotations

from typing import NamedTuple

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.object_store import Objects, objects_at
from cutwater.core.job.job import Job
from cutwater.core.state.manifest_signature import Keys
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.snapshot_manifest import Names, share_name, shares_of
from cutwater.views.snapshots.object_store_tier import Shelf


class Shelves(NamedTuple):
    """Nothing is asked of the store before one of them is."""

    objects: Objects
    grace_ms: int
    keys: Keys

    @property
    def place(self) -> str:
        return self.objects.place

    def shelf(self, names: Names) -> Shelf:
        return Shelf(self.objects, names, self.grace_ms, self.keys)

    def below(self, job: str, generation: str = "") -> list[Shelf]:
        """Of each share of a job, or of one generation, that has objects. Raises CutwaterError."""
        names = (one.name for one in self.objects.listed(f"{job}/{generation}".rstrip("/")))
        return [self.shelf(one) for one in shares_of(job, names)]


def shelves_at(place: str, settings: Settings) -> Shelves:
    """Raises UsageError for what is no URL."""
    return Shelves(objects_at(place, settings), settings.snapshot_grace_ms, settings.snapshot_keys)


def shelf_of(settings: Settings, job: Job, partitions: Partitions | None) -> Shelf:
    """The shelf of a view, where the settings say. Raises UsageError for what is no URL."""
    region = settings.region if settings.replica_of else ""
    names = Names(job.name, str(settings.generation), share_name(partitions, region))
    return shelves_at(settings.snapshots, settings).shelf(names)

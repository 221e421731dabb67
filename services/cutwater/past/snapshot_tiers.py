"""The snapshots of a job's views, for commands that read an older milestone."""

from __future__ import annotations

from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Generation
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.snapshot_manifest import Manifest
from cutwater.views.snapshots.local_tier import Checkpoints
from cutwater.views.snapshots.repositories import repository_of
from cutwater.views.snapshots.restore import Restorer, Tier, stream_check
from cutwater.views.store.folders import folder_of


class Unlogged:
    """A logger that prints nothing, and metrics that count nothing: a command reports what it could not read."""

    def restored(self, manifest: Manifest, seconds: float) -> None: ...

    def unusable(self, reason: str) -> None: ...

    def record_answer(self, well: bool) -> None: ...

    def info(self, what: str, **about: Any) -> None: ...

    warning = error = info


def tiers_of(settings: Settings, job: Job, partitions: Partitions | None) -> tuple[Tier, ...]:
    """Return the places with snapshots of the settings' generation: beside its view, and the settings' store."""
    near = Checkpoints(folder_of(settings.data_dir, job.name, settings.generation))
    return (near, repository_of(settings, job, partitions)) if settings.snapshots else (near,)


def restorer_of(
    cluster: Cluster, job: Job, generation: Generation, partitions: Partitions | None, tiers: tuple[Tier, ...]
) -> Restorer:
    quiet = Unlogged()
    return Restorer(job, generation, partitions, tiers, stream_check(cluster, job), quiet, quiet)

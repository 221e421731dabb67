"""May a job's generation start from a milestone? Asked before it is claimed, and by its driver."""

from __future__ import annotations

from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.admin import described
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.generations.source_topics import topics_of
from cutwater.core.generations.start_state import require_mergeable, require_own_changelog, require_startable
from cutwater.core.job.job import Job
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone

DEFINITION = "cutwater-job.json"
"""Beside a checkpoint: the job's definition, as its generation was begun with."""


def partitions_of(cluster: Cluster, job: Job, cut: Cut) -> dict[str, int]:
    """How many partitions each topic has that a generation begun at a cut reads; only those that exist."""
    return {name: len(one.partitions) for name, one in described(cluster, topics_of(job.topic, cut)).items()}


def require_may_start(cluster: Cluster, job: Job, parent: Milestone, settings: Settings) -> None:
    """Raise UsageError where the job's state cannot go on from the parent's: another measure or source, say.

    `settings` say where the parent's checkpoint would be.
    """
    require_mergeable(job)
    require_own_changelog(job.name, parent)
    partitions = partitions_of(cluster, job, parent.source_cut)
    kept = _kept_definition(settings, job.name, parent.generation)
    require_startable(job, crc64(job.state_schema).hex(), parent, partitions, kept)


def _kept_definition(settings: Settings, job: str, generation: Generation) -> str | None:
    """What a generation's driver has kept of the job file; None where its checkpoint is not on this machine."""
    if settings.checkpoint:
        return None
    file = settings.data_dir / "checkpoints" / job / str(generation) / DEFINITION
    return file.read_text(encoding="utf-8") if file.is_file() else None

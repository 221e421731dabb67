"""Check whether a job's generation may start from a milestone, before its claim and in its driver."""

from __future__ import annotations

from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.generations.source_topics import topics_of
from cutwater.core.generations.start_state import require_own_changelog, require_startable
from cutwater.core.job.column_merges import require_moves
from cutwater.core.job.job import Job
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone

DEFINITION = "cutwater-job.json"
"""File beside a checkpoint with the job's definition at the start of its generation."""


def partitions_of(cluster: Cluster, job: Job, cut: Cut) -> dict[str, int]:
    """Return the partition counts of the existing topics that a generation started at a cut reads."""
    return {name: len(one.partitions) for name, one in descriptions(cluster, topics_of(job.topic, cut)).items()}


def require_may_start(
    cluster: Cluster, job: Job, parent: Milestone, settings: Settings, before: Job | None = None
) -> None:
    """Raise UsageError if the job cannot continue from the parent's state, such as after a change of measures
    or source. `settings`: locate the parent's checkpoint. `before`: the parent's job, if the generation has a job
    file of its own."""
    require_moves(job)
    require_own_changelog(job.name, parent)
    partitions = partitions_of(cluster, job, parent.source_cut)
    kept = _kept_definition(settings, job.name, parent.generation)
    require_startable(job, crc64(job.state_schema).hex(), parent, partitions, kept, before)


def _kept_definition(settings: Settings, job: str, generation: Generation) -> str | None:
    """Return the definition kept by the generation's driver; None if its checkpoint is not on this machine."""
    if settings.checkpoint:
        return None
    file = settings.data_dir / "checkpoints" / job / str(generation) / DEFINITION
    return file.read_text(encoding="utf-8") if file.is_file() else None

"""A rehydrator of another region's state: it follows a mirror's copies at their newest arrival."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.topics.candidates import with_partitions
from cutwater.adapters.topics.mirror_topics import last_arrival
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import mirror_records
from cutwater.views.follow.milestone_feed import OwnStream, Stream
from cutwater.views.follow.replica_feed import CopiedStream
from cutwater.views.store.meta_records import applied_in


def stream_of(job: Job, settings: Settings) -> Stream:
    """Return the commit stream that a rehydrator with these settings follows."""
    return CopiedStream(job.name, settings.replica_of) if settings.replica_of else OwnStream(job.name)


def replica_generation(job: Job, settings: Settings) -> tuple[Job, Settings]:
    """Return job and settings of the generation of the newest arrival. Raises UnavailableError without an arrival,
    UsageError if the region is this one.
    """
    origin = settings.replica_of
    if origin == settings.region:
        raise UsageError(f"CUTWATER_REPLICA_OF and CUTWATER_REGION are both {origin}: unset CUTWATER_REPLICA_OF")
    try:
        partition_count(settings.cluster, mirror_records.arrivals(job.name, origin))
        last = last_arrival(settings.cluster, job.name, origin)
    except UsageError as error:
        raise UnavailableError(f"nothing of {origin} arrives here ({error}): start its mirror first") from None
    if last is None:
        raise UnavailableError(f"no milestone of {origin} has arrived here yet: is its mirror running?")
    of = with_partitions(job, len(last.changelog_cut))
    return of, settings.model_copy(update={"generation": last.generation})


def remove_incomplete_view(folder: Path, log: Any) -> None:
    """Remove a view whose restore was interrupted, if there is one. Without a milestone it does not say which copy
    its rows are from. Raises MachineError if another process uses the view, or it cannot be opened.
    """
    if folder.is_dir() and applied_in(folder) is None:
        log.info("an incomplete view is rebuilt", folder=str(folder))
        shutil.rmtree(folder)

"""A rehydrator of another region's state: it follows what a mirror has copied here, at its newest arrival."""

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
from cutwater.views.follow.commit_feed import OwnStream, Stream
from cutwater.views.follow.replica_feed import CopiedStream
from cutwater.views.store.store import applied_in


def stream_of(job: Job, settings: Settings) -> Stream:
    """The commit stream that a rehydrator with these settings follows."""
    return CopiedStream(job.name, settings.replica_of) if settings.replica_of else OwnStream(job.name)


def copied_for(job: Job, settings: Settings) -> tuple[Job, Settings]:
    """Job and settings of the generation whose milestone has arrived last.

    Raises UnavailableError where none has, UsageError where the region is this one.
    """
    origin = settings.replica_of
    if origin == settings.region:
        raise UsageError(f"CUTWATER_REPLICA_OF and CUTWATER_REGION are both {origin}: unset the first to serve it")
    try:
        partition_count(settings.cluster, mirror_records.arrivals(job.name, origin))
        last = last_arrival(settings.cluster, job.name, origin)
    except UsageError as error:
        raise UnavailableError(f"nothing of {origin} arrives here: start its mirror first ({error})") from None
    if last is None:
        raise UnavailableError(f"no milestone of {origin} has arrived here yet: is its mirror running?")
    of = with_partitions(job, len(last.changelog_cut))
    return of, settings.model_copy(update={"generation": last.generation})


def begin_anew(folder: Path, log: Any) -> None:
    """Remove a view whose building was broken off, if there is one.

    It does not say of which copy its rows are: that would be found by the arrival of the milestone that it is at.
    Raises MachineError where another process has it, or it cannot be opened.
    """
    if folder.is_dir() and applied_in(folder) is None:
        log.info("a view that was not whole is built anew", folder=str(folder))
        shutil.rmtree(folder)

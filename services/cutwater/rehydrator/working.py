"""Which generation a rehydrator begins with: the promoted one, or while no broker answers the one it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cutwater.adapters.generations import with_partitions, working_for
from cutwater.adapters.kafka import wait_for_broker
from cutwater.adapters.settings import Settings
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.generations import Generation
from cutwater.core.job import Job
from cutwater.views.store import applied_in, folder_of

PROBE_S = 3.0


def found(job: Job, settings: Settings, log: Any) -> tuple[Job, Settings]:
    """Job and settings of the generation to begin with. It follows a promotion by itself later."""
    try:
        wait_for_broker(settings.cluster, PROBE_S)
        return working_for(job, settings)
    except UnavailableError as error:
        held = newest_held(settings.data_dir / "views" / job.name)
        if held is None:
            return job, settings
        log.warning("waiting", reason=str(error), shows=str(held))
        last = applied_in(folder_of(settings.data_dir, job.name, held))
        settings = settings.model_copy(update={"generation": held})
        return (with_partitions(job, len(last.changelog_cut)) if last else job), settings


def newest_held(folder: Path) -> Generation | None:
    """The newest generation that has a store below the folder."""
    found: list[Generation] = []
    for one in folder.iterdir() if folder.is_dir() else ():
        try:
            found.append(Generation.parse(one.name))
        except UsageError:
            continue  # a lock, or a store that is being restored
    return max(found, key=lambda one: one.number, default=None)

"""At a start: the view of an earlier generation, shown while the promoted generation's view is built."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.core.errors import CutwaterError
from cutwater.core.job.job import Job
from cutwater.rehydrator.generation.replica import stream_of
from cutwater.rehydrator.generation.served_generation import ServedGeneration
from cutwater.views.snapshots.restore import stream_check
from cutwater.views.store.folders import earlier
from cutwater.views.store.meta_records import applied_in

TRIES = 3


def open_earlier_view(
    folder: Path, job: Job, settings: Settings, served: Callable[[Job, Settings], ServedGeneration], log: Any
) -> ServedGeneration | None:
    """Return the newest earlier view that is complete and on the commit stream; None if there is none. `folder`:
    the view of the promoted generation. An error of an earlier view is only logged.
    """
    on_stream = stream_check(settings.cluster, job, stream_of(job, settings).topic)
    for path in islice(earlier(folder), TRIES):
        try:
            entry = applied_in(path)
            if entry is None or not on_stream(entry, lambda: False):
                continue
            theirs = settings.model_copy(update={"generation": entry.milestone.generation})
            return served(GenerationJobs.on(settings.cluster, job).at(entry.milestone), theirs)
        except CutwaterError as error:
            log.warning("the view of an earlier generation is not shown", folder=str(path), error=str(error))
    return None

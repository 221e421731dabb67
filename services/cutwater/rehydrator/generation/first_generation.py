"""The generation a rehydrator starts with: the promoted one, or without brokers the one it holds."""

from __future__ import annotations

from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.topics.candidates import with_partitions
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Generation
from cutwater.core.state.backlog import Entry
from cutwater.rehydrator.generation.replica import replica_generation
from cutwater.views.store.folders import folder_of, generations_in
from cutwater.views.store.meta_records import applied_in

PROBE_S = 3.0


def choose_generation(job: Job, settings: Settings, log: Any) -> tuple[Job, Settings]:
    """Return job and settings of the generation to start with; later promotions are followed."""
    try:
        wait_for_broker(settings.cluster, PROBE_S)
        return replica_generation(job, settings) if settings.replica_of else working_for(job, settings)
    except UnavailableError as error:
        held, last = _held(job, settings)
        if held is None and settings.replica_of:
            raise  # the first generation is unknown
        if held is None:
            return job, settings
        log.warning("waiting", reason=str(error), shows=str(held))
        settings = settings.model_copy(update={"generation": held})
        return (with_partitions(job, len(last.milestone.changelog_cut)) if last else job), settings


def _held(job: Job, settings: Settings) -> tuple[Generation | None, Entry | None]:
    """Return the generation to show of those with a view here, and its milestone: the latest one.

    If that view is incomplete, an earlier whole one of the same definition, unless the settings name a generation.
    No broker can tell the job file of another definition.
    """
    views = folder_of(settings.views_dir, job.name, settings.generation).parent
    every = sorted(generations_in(views), reverse=True)
    for one in every if "generation" not in settings.model_fields_set else every[:1]:
        last = applied_in(views / str(one))
        if last is not None and (one == every[0] or last.milestone.definition == job.fingerprint):
            return one, last
    return (every[0] if every else None, None)

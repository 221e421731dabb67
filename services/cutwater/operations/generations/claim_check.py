"""Checks whether a claim can work, before it is written: for an operator's claim, and for a stack's own."""

from __future__ import annotations

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import parent_of
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.adapters.topics.provable_milestones import newest_provable
from cutwater.core.errors import UsageError
from cutwater.core.generations.start_state import require_kept
from cutwater.core.job.job import Job
from cutwater.core.protocol.records import Claim
from cutwater.operations.generations.parent_changelog import kept_behind
from cutwater.operations.generations.seed_source import SeedSource, seed_source
from cutwater.operations.generations.start_check import require_may_start


def require_works(
    cluster: Cluster, job: Job, settings: Settings, claim: Claim, store: str, wanted: Job | None = None
) -> SeedSource:
    """Return where the generation's driver will find its parent's state.

    `job`: of this process's job file. `store`: the snapshot store, empty for none. `wanted`: the generation's job,
    if its job file differs from its parent's. Raises UsageError if that driver could never start, which only its
    log would report.
    """
    parent = parent_of(claim)
    before = GenerationJobs.on(cluster, job).at(parent)
    require_may_start(cluster, wanted or before, parent, settings, before if wanted else None)
    require_kept(parent, kept_behind(cluster, parent.source_cut))
    if found := LogCheck(cluster).find_losses(parent.evidence, parent.source_cut):
        advice = newest_provable(cluster, job.name).advise()
        raise UsageError(f"below the cut of {parent.token} {'; '.join(found)}. {advice}")
    return seed_source(cluster, before, settings, claim, store)


def require_continues(cluster: Cluster, job: Job, settings: Settings, claim: Claim, new: bool) -> None:
    """Raise UsageError if the driver of a claim that continues another region's job would refuse to start: for its
    job file or, if the claim is `new`, since events after the milestone are gone. Later it may have read them."""
    parent = parent_of(claim)
    require_may_start(cluster, job, parent, settings)
    if new:
        require_kept(parent, kept_behind(cluster, parent.source_cut))

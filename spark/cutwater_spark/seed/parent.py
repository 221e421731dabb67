"""The parent milestone of a generation, checked before anything is written."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.carried_files import load_carried
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import candidates, origin_parent, parent_of, promoted
from cutwater.adapters.topics.commit_stream import release
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.core.errors import ProtocolError
from cutwater.core.generations.candidates import Candidate
from cutwater.core.generations.job_change import compare_jobs
from cutwater.core.generations.late_replay import require_amends
from cutwater.core.generations.seed_change import SeedChange
from cutwater.core.generations.source_topics import origin_cut_at
from cutwater.core.generations.start_state import (
    StartState,
    is_claimed,
    require_at_work,
    require_claimed_definition,
    require_unreleased,
)
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.operations.generations.first_generation import require_may_begin
from cutwater.operations.generations.start_check import require_may_start


def parent_milestone(job: Job, settings: Settings) -> Milestone | None:
    """Return the milestone that the generation starts from, with this region's cuts; None for a first generation.

    Raise FencedError if the generation has ended, UsageError if the job's state cannot continue from the parent's
    or a first generation may not start here.
    """
    cluster, generation = settings.cluster, settings.generation
    candidate = candidates(cluster, job.name).by_id.get(generation) if is_claimed(generation) else None
    last = promoted(cluster, job.name)
    require_at_work(generation, last, candidate)
    if last is None:
        require_may_begin(cluster, job.name, generation, settings.beside)
    require_unreleased(generation, release(cluster, topics.milestones(job.name)))
    if not is_claimed(generation):
        return None
    if candidate is None:
        raise ProtocolError(
            f"the claim of {generation} is missing from the candidates topic, so its parent is not known"
        )
    require_amends(job.amend_for_ms is not None, candidate, last)
    parent = parent_of(candidate.claim)
    require_claimed_definition(job, candidate.redefinition)
    before = GenerationJobs.on(cluster, job).at(parent) if candidate.redefinition else None
    require_may_start(cluster, job, parent, settings, before)
    return replace(parent, origin_cut=origin_cut_at(job.source, candidate.claim, origin_parent(candidate.claim)))


class Seeding(NamedTuple):
    """The job of the parent's rows, that of the generation, and how rows of the one become seeds of the other."""

    before: Job
    after: Job
    change: SeedChange


def unchanged(job: Job) -> Seeding:
    """Return that the rows become seeds as they are."""
    return Seeding(job, job, compare_jobs(job, job).seeds)


def seeding_of(cluster: Cluster, job: Job, candidate: Candidate, parent: Milestone) -> Seeding:
    """Return how a claimed generation takes over its parent's rows. The job files are those of the claims: this
    process's may say the same in other words."""
    own = candidate.redefinition
    if own is None:
        return unchanged(job)
    before = GenerationJobs.on(cluster, job).at(parent)
    change = compare_jobs(before, load_carried(own.files))
    change.require_possible()
    return Seeding(before, job, change.seeds)


def start_state(
    cluster: Cluster, job: Job, generation: Generation, parent: Milestone, watermark_ms: int
) -> StartState:
    """Return what a claimed generation takes over, with the windows that its claim has opened again.
    `watermark_ms`: the one that is stored with its seed."""
    amends = job.amend_for_ms is not None
    candidate = candidates(cluster, job.name).require(generation)
    opened = candidate.reopening if amends else None
    change = seeding_of(cluster, job, candidate, parent).change
    begins = StartState.of(parent, amends).raised(watermark_ms, amends).reopened(opened)
    return begins.above(change.horizon_ms(parent.horizon_ms)) if change.merges else begins

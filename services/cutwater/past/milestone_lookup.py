"""The milestones that a person names, looked up on the commit stream, or among a candidate's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import candidate_entries, with_partitions
from cutwater.adapters.topics.commit_stream import milestones, milestones_in
from cutwater.core.errors import UsageError
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.job.job import Job
from cutwater.core.past.milestone_point import MilestonePoint
from cutwater.core.past.state_difference import job_of_rows
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.point_in_time_restore import RestoreSources
from cutwater.past.snapshot_tiers import Unlogged
from cutwater.views.snapshots.point_in_time import read_sources
from cutwater.views.snapshots.restore import Tier

NEWEST = 1_000
"""Newest milestones that are searched first."""


class NamedMilestone(NamedTuple):
    milestone: Milestone
    is_candidates: bool
    """Whether it is one of a candidate, which is not on the commit stream and has numbers of its own."""


def find_milestone(cluster: Cluster, job: str, point: MilestonePoint) -> NamedMilestone:
    """Return the newest milestone that the point means. Raises UsageError if there is none."""
    if (found := _on_stream(cluster, job, point)) is not None:
        return NamedMilestone(found, False)
    generation = point.of_generation
    if generation is not None and is_claimed(generation):
        own = [one.milestone for one in candidate_entries(cluster, job, generation) if point.means(one.milestone)]
        if own:
            return NamedMilestone(own[-1], True)
    raise UsageError(
        f"the commit stream of {job} does not hold {point}: 'cutwater milestones' lists what it holds"
    )


def _on_stream(cluster: Cluster, job: str, point: MilestonePoint) -> Milestone | None:
    found = [one for one, _ in milestones(cluster, job, NEWEST) if point.means(one)]
    if found:
        return found[-1]
    last = None
    for one, _ in milestones_in(cluster, topics.milestones(job)):  # however long it is, one at a time
        last = one if point.means(one) else last
    return last


def restore_sources(
    cluster: Cluster,
    job: Job,
    named: NamedMilestone,
    partitions: Partitions | None,
    tiers: Sequence[Tier],
) -> RestoreSources:
    """Return what the milestone can be restored from. Raises as `read_sources`."""
    generation = named.milestone.generation
    found = read_sources(cluster, job, generation, partitions, now_ms(), tiers, Unlogged())
    return (
        replace(found, stream=candidate_entries(cluster, job.name, generation)) if named.is_candidates else found
    )


def job_of(jobs: Sequence[Job], milestone: Milestone) -> Job:
    """Return the job of the milestone's rows, with its partitions. Raises UsageError if it is none of the jobs."""
    known = [(crc64(one.state_schema).hex(), one.fingerprint, one) for one in jobs]
    found = job_of_rows(known, milestone.schema_fingerprint, milestone.definition)
    if found is None:
        raise UsageError(
            f"the rows of {milestone.token} have schema {milestone.schema_fingerprint}, and those of the job file "
            f"{', '.join(of for of, _, _ in known)}: name the job file of that generation with --other-job-file"
        )
    return with_partitions(found, len(milestone.changelog_cut))

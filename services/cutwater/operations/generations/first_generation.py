"""Broker queries for `core.generations.first_generation`: whether a job's first generation may start here."""

from __future__ import annotations

from collections.abc import Collection

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import mirror_topics
from cutwater.adapters.topics.candidates import candidates, promoted
from cutwater.adapters.topics.commit_stream import newest
from cutwater.core.generations.candidates import Candidates
from cutwater.core.generations.first_generation import copied_from, require_not_copied
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Committed, Heartbeat, Start


def require_may_begin(cluster: Cluster, job: str, generation: Generation, beside: Collection[str] = ()) -> None:
    """Raise UsageError if a first generation would start in a region with copies of another region's job.
    `beside`: regions whose copies are allowed. Claimed generations continue from a milestone and are not
    checked."""
    if (
        is_claimed(generation)
        or _has_started(cluster, job, generation)
        or not mirror_topics.has_mirror(cluster, job)
    ):
        return
    positions = mirror_topics.positions(cluster, job).every
    claims = descriptions(cluster, [topics.candidates(job)])
    known = candidates(cluster, job) if claims else Candidates()
    require_not_copied(job, generation, copied_from(positions), known, beside)


def _has_started(cluster: Cluster, job: str, generation: Generation) -> bool:
    """Return whether this region has a milestone, or a driver of the generation has written a record."""
    stream, barriers = topics.milestones(job), topics.barriers(job)
    here = descriptions(cluster, [stream, barriers])
    if stream in here and promoted(cluster, job) is not None:
        return True

    def own(record: protocol_records.Record) -> bool | None:
        spoken = isinstance(record, Start | Barrier | Committed | Heartbeat) and record.generation == generation
        return spoken or None

    return barriers in here and newest(cluster, barriers, own) is not None

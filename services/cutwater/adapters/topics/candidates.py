"""The records of the candidates topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.admin import descriptions, names
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.commit_stream import newest, newest_milestone
from cutwater.core.errors import ProtocolError, UnavailableError, UsageError
from cutwater.core.generations.candidates import Candidates, fold_candidates
from cutwater.core.generations.holds import to_be_held
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.job.job import Job
from cutwater.core.job.shards import ShardMap
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import (
    Candidacy,
    Claim,
    Milestone,
)
from cutwater.core.state.backlog import Entry

ENTRIES_MAX = 100_000
"""The most milestones of one candidate that are considered, the newest ones."""


def promoted(cluster: Cluster, job: str) -> Milestone | None:
    """Return the newest milestone of the commit stream, of the promoted generation; None before the first."""
    topic = topics.milestones(job)
    partition_count(cluster, topic)
    return newest(cluster, topic, lambda one: one if isinstance(one, Milestone) else None)


def candidates(cluster: Cluster, job: str) -> Candidates:
    return fold_candidates(candidacies(cluster, job))


def waiting_candidate(cluster: Cluster, job: str) -> Generation | None:
    """Return the newest candidate whose promotion may be held; None without one, or without a candidates topic."""
    topic = topics.candidates(job)
    if topic not in descriptions(cluster, [topic]):
        return None
    return to_be_held(candidates(cluster, job), promoted(cluster, job))


def candidacies(cluster: Cluster, job: str) -> Iterator[Candidacy]:
    """Return the records of the candidates topic up to its present end."""
    topic = topics.candidates(job)
    partition_count(cluster, topic)
    consumer = make_consumer(cluster)
    try:
        low, high = bounds(consumer, topic, 0)
        for one in read_range(consumer, topic, 0, low) if low < high else ():
            yield candidacy(protocol_records.decode(bytes(one.value())))
    finally:
        consumer.close()


def candidate_entries(cluster: Cluster, job: str, generation: Generation) -> list[Entry]:
    """Return a generation's milestones of its time as a candidate, oldest first, with its own numbers."""
    topic = topics.candidates(job)
    partition_count(cluster, topic)
    consumer = make_consumer(cluster)
    found: list[Entry] = []
    try:
        low, high = bounds(consumer, topic, 0)
        for one in read_range(consumer, topic, 0, low) if low < high else ():
            value = bytes(one.value())
            record = protocol_records.decode(value)
            if isinstance(record, Milestone) and record.generation == generation:
                found.append(Entry(record, value, one.offset()))
                del found[:-ENTRIES_MAX]
    finally:
        consumer.close()
    return found


def newest_in_either(cluster: Cluster, job: str, generation: Generation) -> Milestone | None:
    """Return a generation's newest milestone by epoch, from the commit stream or from its time as a candidate.

    Its first milestone on the commit stream repeats what it had reached as a candidate.
    """
    found = [newest_milestone(cluster, job, generation)]
    if is_claimed(generation):
        candidate = candidates(cluster, job).by_id.get(generation)
        found.append(candidate.newest if candidate else None)
    return max((one for one in found if one), key=lambda one: one.epoch, default=None)


def candidacy(record: protocol_records.Record) -> Candidacy:
    """Return a record of the candidates topic; raises ProtocolError for another type."""
    if not isinstance(record, Candidacy):
        raise ProtocolError(f"a {type(record).__name__} is on the candidates topic, which must not hold it")
    return record


def parent_of(claim: Claim) -> Milestone:
    """Return a claim's parent milestone, with cuts in this region's offsets. Raises ProtocolError without one."""
    record = origin_parent(claim)
    if not claim.origin:
        return record
    # That region's barriers are not copied: the candidate's commit-signal starts with its own.
    return replace(
        record,
        source_cut=claim.source_cut,
        changelog_cut=claim.changelog_cut,
        barriers_position=0,
        evidence=claim.evidence,
    )


def parents_needed(cluster: Cluster, job: str, generation: Generation) -> frozenset[int]:
    """Return the sequences of a generation's milestones that open claims start from: their state is still needed.

    Empty if there are no claims, or the caller may not read them. Raises UnavailableError, also if the brokers
    know no topic of the job, or only one of them knows the candidates: one that has just started knows no topic at
    first, and what is needed would be deleted.
    """
    topic = topics.candidates(job)
    try:
        there = topic in descriptions(cluster, [topic])
        known = candidates(cluster, job) if there else Candidates()
    except UsageError:
        return frozenset()
    if not there:
        _require_no_candidates(cluster, job)
    last = None
    with suppress(UsageError):  # not known: every open claim counts
        last = promoted(cluster, job) if known.by_id else None
    parents = (origin_parent(one) for one in known.coming(last))
    return frozenset(one.sequence for one in parents if one.generation == generation)


def _require_no_candidates(cluster: Cluster, job: str) -> None:
    """Raise UnavailableError unless the brokers know topics of the job, but no candidates. This answer may be of
    another broker than the one that knew no candidates."""
    found = names(cluster)
    if not any(one.startswith(f"{job}.") for one in found):
        raise UnavailableError(f"the brokers at {cluster.bootstrap} know no topic of job {job}: try again later")
    if topics.candidates(job) in found:
        raise UnavailableError(
            f"the brokers at {cluster.bootstrap} differ on whether {topics.candidates(job)} exists: try again "
            "later"
        )


def origin_parent(claim: Claim) -> Milestone:
    """Return the same as its own region wrote it. Raises ProtocolError if the claim holds none."""
    return milestone_in(claim.parent)


def milestone_in(parent: bytes) -> Milestone:
    """Decode a milestone. Raises ProtocolError for another record."""
    record = protocol_records.decode(parent)
    if not isinstance(record, Milestone):
        raise ProtocolError(f"a generation's parent is a {type(record).__name__} instead of a milestone")
    return record


def with_partitions(job: Job, partitions: int) -> Job:
    if partitions == job.shards.partitions:
        return job
    return replace(job, shards=ShardMap(job.shards.shards, partitions))

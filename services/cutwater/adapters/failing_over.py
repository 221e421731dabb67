"""Going on with another region's job here: what is looked at, fenced and claimed. `core.failover` decides.

Each step may be taken again: whoever was killed between two of them asks for the same once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cutwater.adapters import admin, replicas, streams, wire
from cutwater.adapters.claiming import Claims
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.ends import Ends
from cutwater.adapters.generations import candidates, milestone_in, promoted
from cutwater.adapters.kafka import TransactionalWriter, partition_count
from cutwater.core import mirrored, topics
from cutwater.core.candidates import PARENT_DIGITS
from cutwater.core.cuts import TopicPartition
from cutwater.core.errors import UsageError
from cutwater.core.failover import Loss, begins_at, copied_up_to, forked_at, known_loss
from cutwater.core.generations import Generation
from cutwater.core.job import Job
from cutwater.core.mirrored import Arrival, Mirrored
from cutwater.core.records import Claim, Milestone, Release
from cutwater.core.replication import Replication


class Found(NamedTuple):
    """What stands here of the origin."""

    arrival: Arrival
    parent: bytes
    """The milestone that has arrived."""
    milestone: Milestone
    newest: Milestone
    """Of those that are copied, whether they have arrived or not."""
    line: frozenset[Generation]
    """The generations that the copied stream names."""
    copied: list[Mirrored]
    released: Release | None

    @property
    def loss(self) -> Loss:
        read = {TopicPartition(one.topic, one.partition): one.next for one in self.copied}
        return known_loss(self.milestone, self.newest, read)

    @property
    def planned(self) -> bool:
        """Was the job released behind the milestone that has arrived? Then nothing is lost."""
        return self.released is not None and self.released.token == self.arrival.token


class FailingOver:
    """From one origin into this region. `now_ms` is the clock that the claim is dated by."""

    def __init__(self, cluster: Cluster, job: Job, region: str, origin: str, now_ms: Callable[[], int]) -> None:
        self._cluster = cluster
        self._job = job
        self._region = region
        self._origin = origin
        self._now_ms = now_ms
        self.claims = Claims(cluster, job, region, now_ms)

    def look(self) -> Found:
        """What stands here. Raises UsageError where nothing has arrived."""
        cluster, job, origin = self._cluster, self._job.name, self._origin
        if not replicas.has_mirror(cluster, job):
            raise UsageError(f"no mirror has run at {cluster.bootstrap}: nothing of job {job} is copied there")
        arrival = replicas.last_arrival(cluster, job, origin)
        if arrival is None:
            raise UsageError(
                f"no milestone of {job} has arrived from region {origin}: there is nothing whole to go on from. "
                f"'cutwater regions' shows how far the copies are"
            )
        parent = replicas.arrived_milestone(cluster, arrival)
        milestone = milestone_in(parent)
        newest, line = milestone, {milestone.generation}
        for newest in replicas.milestones_from(cluster, job, origin, 0):
            line.add(newest.generation)
        copied = list(replicas.positions(cluster, job).copies.get(origin, {}).values())
        released = replicas.last_release(cluster, job, origin)
        return Found(arrival, parent, milestone, newest, frozenset(line), copied, released)

    def fence(self) -> None:
        """Nobody copies any more who began before: what has arrived is final, until a mirror is started again."""
        for one in mirrored.transactional_ids(self._job.name, self._origin):
            TransactionalWriter(self._cluster, one).initialise()

    def plan(self, found: Found) -> Claim:
        """The claim that `claim` would write. Raises UsageError where the two regions have nothing in common."""
        cluster, job = self._cluster, self._job
        last, known = promoted(cluster, job.name), candidates(cluster, job.name)
        back = 0
        if last is not None:
            own = {
                wire.hash_of(one).hex()[:PARENT_DIGITS]: one.sequence
                for one, _ in streams.milestones(cluster, job.name)
            }
            back = forked_at(found.line, own, job.name)
        before = [found.milestone.generation, *([last.generation] if last else [])]
        source = job.topic
        firsts = {
            at: first
            for at, (first, _) in Ends(cluster).kept(source, range(partition_count(cluster, source))).items()
        }
        return Claim(
            job=job.name,
            generation=known.next_id(self._region, found.arrival.milestone_hash, *before),
            parent=found.parent,
            partitions=len(found.arrival.changelog_cut),
            rewinds_to=back,
            reason=f"{'switchover' if found.planned else 'failover'} from {self._origin}",
            at_ms=self._now_ms(),
            origin=self._origin,
            source_cut=begins_at(found.arrival, found.milestone, source, self._region, firsts),
            changelog_cut=found.arrival.changelog_cut,
            origin_cut=copied_up_to(found.copied, source, self._origin),
        )

    def claimed(self, found: Found) -> Claim | None:
        """The claim of an earlier try, promoted or not: it is gone on with, whatever has arrived since."""
        last = promoted(self._cluster, self._job.name)
        least = max(found.milestone.generation.number + 1, last.generation.number if last else 0)
        known = candidates(self._cluster, self._job.name).by_id.values()
        ours = [one.claim for one in known if one.open and one.claim.origin == self._origin]
        return next((one for one in reversed(ours) if one.generation.number >= least), None)

    def prepare(self, copies: Replication) -> None:
        """The topics of the job in this region, its own source among them, with as many partitions as the copy."""
        count = partition_count(self._cluster, mirrored.from_origin(self._job.topic, self._origin))
        specs = topics.owned(self._job.name, Generation(1, self._region), count, self._job.output)
        own = [one for one in specs if not one.name.startswith(topics.changelog_prefix(self._job.name))]
        source = [topics.events(self._job.topic, count)]
        there = admin.described(self._cluster, [self._job.topic])
        admin.ensure_topics(self._cluster, own + ([] if there else source), copies)

    def claim(self, found: Found, copies: Replication) -> Claim:
        """Reserve the generation that goes on, unless an earlier try has."""
        return self.claimed(found) or self.claims.reserve(lambda: self.plan(found), copies)


def release(cluster: Cluster, job: str, to: str, now_ms: int) -> Release:
    """Give a job up in its own region: its writers are fenced, and a record ends the commit stream.

    Raises UsageError where it has no milestone. Asked twice, the first record counts.
    """
    last = _require_milestone(cluster, job)
    TransactionalWriter(cluster, topics.driver_id(job, last.generation)).initialise()
    writer = TransactionalWriter(cluster, topics.signal_id(job))
    writer.initialise()
    if (before := streams.release(cluster, topics.milestones(job))) is not None:
        return before
    last = _require_milestone(cluster, job)  # what the fenced signaller wrote meanwhile is final now
    made = Release(job, last.generation, last.sequence, to, now_ms)
    writer.write(topics.milestones(job), [wire.encode(made)])
    return made


def _require_milestone(cluster: Cluster, job: str) -> Milestone:
    last = promoted(cluster, job)
    if last is None:
        raise UsageError(f"job {job} has no milestone at {cluster.bootstrap}: there is nothing to go on from")
    return last

"""Failover of another region's job into this one: checks, fencing and claim. `core.failover.failover` decides.
Each step may be repeated, also after a kill between two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics import candidates, commit_stream, mirror_topics
from cutwater.adapters.topics.candidates import milestone_in, origin_parent, promoted
from cutwater.core.checks.replication import Replication
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.failover.failover import (
    CommonHistory,
    copied_up_to,
    find_common_history,
    origin_claim,
    require_copying,
    require_events,
    require_free,
    require_joined,
    require_kept,
    require_placed,
    require_recipient,
    require_same,
    resumed,
)
from cutwater.core.generations.candidates import PARENT_DIGITS, Candidates, EarlierClaim
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.job.job import Job
from cutwater.core.mirror.resync_guard import require_settled
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.chain import link
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.log_evidence import of_topics
from cutwater.core.protocol.mirror_records import Arrival, Mirrored, from_origin
from cutwater.core.protocol.records import Claim, Milestone, Release
from cutwater.operations.generations.claims import Claims
from cutwater.operations.regions.event_start import EventStart


class OriginCopies(NamedTuple):
    """The copies and arrivals of the origin in this region."""

    arrival: Arrival
    parent: bytes
    """The encoded milestone that has arrived."""
    milestone: Milestone
    newest: Milestone
    """The newest copied milestone, arrived or not."""
    heard_ms: int
    """The origin's last sign of life, by its own clock."""
    copied: list[Mirrored]
    released: Release | None
    """The release that ends the copied stream, which may name a third region; None without one."""
    region: str
    """This region."""

    def released_behind(self, token: Token) -> bool:
        """Return whether the job was released to this region after that milestone, so that nothing is lost."""
        one = self.released
        return one is not None and (one.to, one.token) == (self.region, token)

    @property
    def planned(self) -> bool:
        return self.released_behind(self.arrival.token)


class Failover:
    """Failover from one origin into this region. `now_ms`: the clock that dates the claim. `there`: the origin's
    brokers, if they answer."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        region: str,
        origin: str,
        now_ms: Callable[[], int],
        there: Cluster | None = None,
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._region = region
        self._origin = origin
        self._now_ms = now_ms
        self._there = there
        self.claims = Claims(cluster, job, region, now_ms)

    def read_copies(self, patience_s: float | None = None) -> OriginCopies:
        """Return what has been copied. Raises UsageError if nothing has arrived, UnavailableError as
        `require_settled`. `patience_s`: the longest wait for an open transaction of the mirror, which may hang
        if brokers are dead. The copied source offsets may then be too low. After fencing no transaction is
        open."""
        cluster, job, origin = self._cluster, self._job.name, self._origin
        arrival = self.arrival()
        if arrival is None:
            self.require_settled()
            raise UsageError(
                f"no milestone of {job} has arrived from region {origin}, so there is no complete state to "
                "continue from. 'cutwater regions' shows the progress of the copies"
            )
        parent = mirror_topics.arrived_milestone(cluster, arrival)
        milestone = milestone_in(parent)
        newest = mirror_topics.newest_milestone(cluster, job, origin) or milestone
        heard_ms = max(newest.committed_ms, mirror_topics.last_heard_ms(cluster, job, origin))
        return OriginCopies(
            arrival, parent, milestone, newest, heard_ms, self._copied(patience_s), self.released(), self._region
        )

    def arrival(self) -> Arrival | None:
        """Return the newest arrival. Raises UsageError if no mirror has run."""
        if not mirror_topics.has_mirror(self._cluster, self._job.name):
            raise UsageError(
                f"no mirror has run at {self._cluster.bootstrap}, so nothing of job {self._job.name} has been "
                "copied there"
            )
        return mirror_topics.last_arrival(self._cluster, self._job.name, self._origin)

    def require_settled(self) -> None:
        """Raise UnavailableError during a resync, when no mirror copies."""
        here = mirror_topics.positions(self._cluster, self._job.name)
        require_settled(self._origin, here.renewed(self._origin))

    def require_copying(self) -> None:
        """Raise UnavailableError while an operator has paused the mirror."""
        said = mirror_topics.positions(self._cluster, self._job.name).steering.get(self._origin)
        require_copying(self._origin, said is not None and said.paused)

    def released(self) -> Release | None:
        """Return the release that ends the copied stream; None without one."""
        return mirror_topics.last_release(self._cluster, self._job.name, self._origin)

    def fence(self) -> None:
        """Fence running mirrors, so that arrivals are final until a mirror is started again."""
        for one in mirror_records.transactional_ids(self._job.name, self._origin):
            TransactionalWriter(self._cluster, one).initialise()
        reach("mirror-fenced")

    def earlier_claim(self, found: OriginCopies) -> EarlierClaim | None:
        """Return the claim of an earlier try, promoted or not. Raises as `resumed`, `require_kept` and
        `require_free` do."""
        last, known = self._last(), self._read_candidates()
        if last is None:
            behind, base, gave_up = 0, None, False
        else:
            behind, base = last.generation.number, self._base(known, last.generation)
            gave_up = commit_stream.release(self._cluster, topics.milestones(self._job.name)) is not None
        waiting = [
            one.claim
            for one in known.by_id.values()
            if one.open and one.claim.origin == self._origin and one.claim.generation.number > behind
        ]
        again = resumed(base, waiting, found.arrival, origin_parent, gave_up, lambda: self._joined(found.arrival))
        if again is not None and again.done:
            require_kept(known.require(again.claim.generation), origin_parent(again.claim).token)
        require_free(known.promoting_behind(last), again)
        return again

    def _base(self, known: Candidates, generation: Generation) -> Claim | None:
        """Return the claim by which the generation's line came from the origin; None if it did not."""
        claim = origin_claim(known, generation, origin_parent)
        return claim if claim and claim.origin == self._origin else None

    def plan(self, found: OriginCopies) -> Claim:
        """Return the claim that `claim` would write. Raises UsageError if the regions share no milestone."""
        last = self._last()
        before = [found.milestone.generation, *([last.generation] if last else [])]
        source = self._job.source
        if self._job.attached:
            require_events(found.arrival, found.milestone, source)
        start = EventStart(self._cluster, self._job.name, source, self._region, self._there)
        return Claim(
            job=self._job.name,
            generation=self._read_candidates().next_id(self._region, found.arrival.milestone_hash, *before),
            parent=found.parent,
            partitions=len(found.arrival.changelog_cut),
            rewinds_to=require_joined(self._joined(found.arrival), self._job.name).at if last else 0,
            reason=f"{'switchover' if found.planned else 'failover'} from {self._origin}",
            at_ms=self._now_ms(),
            origin=self._origin,
            source_cut=start.cut(found.arrival, found.milestone, found.copied, last),
            changelog_cut=found.arrival.changelog_cut,
            evidence=of_topics(found.arrival.evidence, {place.topic for place, _ in found.arrival.changelog_cut}),
            origin_cut=copied_up_to(found.copied, source, self._origin),
        )

    def prepare(self, copies: Replication) -> None:
        """Create the job's topics in this region, including its source, with the copy's number of partitions."""
        count = partition_count(self._cluster, from_origin(self._job.source, self._origin))
        specs = topics.generation_topics(
            self._job.name, Generation(1, self._region), count, self._job.output, self._job.lists_retention_ms
        )
        own = [one for one in specs if not one.name.startswith(topics.changelog_prefix(self._job.name))]
        source = [] if self._exists(self._job.source) else [topics.events(self._job.source, count)]
        admin.ensure_topics(self._cluster, own + source, copies)
        reach("topics-made")

    def claim(self, found: OriginCopies, copies: Replication) -> Claim:
        """Reserve the new generation, or return the claim of an earlier try. One process at a time."""

        def made() -> Claim:
            again = self.earlier_claim(found)
            return again.claim if again else self.plan(self._read_again(found))

        return self.claims.reserve(made, copies)

    def _read_again(self, found: OriginCopies) -> OriginCopies:
        """Read the copies again after other claimers are fenced, since a resync may have started. A resync
        fences claimers, then removes positions, then arrivals. Raises UnavailableError if the arrival has
        changed, UsageError as `require_placed`."""
        copied, newest = self._copied(), self.arrival()
        if newest != found.arrival:
            now = f"is now {newest.token}" if newest else "is gone"
            raise UnavailableError(
                f"the arrival {found.arrival.token}, from which this started, {now}: a mirror is running, or a "
                "copy is started again by 'cutwater mirror resync'. Nothing was claimed. Run this again"
            )
        targets = {
            TopicPartition(mirror_records.target(self._job.name, one.topic, self._origin), one.partition)
            for one in copied
        }
        require_placed(newest, mirror_records.milestones_from(self._job.name, self._origin), targets)
        return found._replace(copied=copied)

    def _copied(self, patience_s: float | None = None) -> list[Mirrored]:
        found = mirror_topics.positions(self._cluster, self._job.name, patience_s)
        return list(found.copies.get(self._origin, {}).values())

    def _last(self) -> Milestone | None:
        here = self._exists(topics.milestones(self._job.name))
        return promoted(self._cluster, self._job.name) if here else None

    def _read_candidates(self) -> Candidates:
        here = self._exists(topics.candidates(self._job.name))
        return candidates.candidates(self._cluster, self._job.name) if here else Candidates()

    def _exists(self, topic: str) -> bool:
        return bool(admin.descriptions(self._cluster, [topic]))

    def _joined(self, arrival: Arrival) -> CommonHistory | None:
        """Return where the arrival's line was last handed over from this region."""
        cluster, job = self._cluster, self._job.name
        # Milestones after the arrival are incomplete here.
        copy, end = mirror_records.milestones_from(job, self._origin), arrival.stream_offset + 1
        first: dict[Generation, Milestone] = {}
        for one, _ in commit_stream.milestones_in(cluster, copy, end):
            first.setdefault(one.generation, one)
        wanted = {one.parent for one in first if is_claimed(one)}
        own: dict[str, Token] = {}
        for one, value in commit_stream.milestones_in(cluster, topics.milestones(job)) if wanted else ():
            if (digits := link(value).hex()[:PARENT_DIGITS]) in wanted:
                own[digits] = one.token
        return find_common_history(first.values(), own)


class Releasing(NamedTuple):
    """What a release would do now, or has done."""

    made: Release
    """The record. By the time it is written, the newest milestone may be later."""
    done: bool
    """The record is already on the stream."""
    gives_up: list[Generation]
    """Candidates that could otherwise be promoted after it."""


def releasing(cluster: Cluster, job: Job, region: str, to: str, now_ms: Callable[[], int]) -> Releasing:
    """Return the release to write. Raises UsageError, also without a milestone."""
    require_recipient(to, region)
    last = _require_milestone(cluster, job.name)
    coming = [one.generation for one in Claims(cluster, job, region, now_ms).known().coming(last)]
    if (before := commit_stream.release(cluster, topics.milestones(job.name))) is not None:
        require_same(before, to)
        return Releasing(before, True, coming)
    return Releasing(Release(job.name, last.generation, last.sequence, to, now_ms()), False, coming)


def release(cluster: Cluster, job: Job, region: str, to: str, now_ms: Callable[[], int]) -> Releasing:
    """Give a job up in its own region: a record ends the commit stream, and its writers are fenced. Candidates
    are given up, also those that are claimed meanwhile; a later claim takes the job back. Raises as `releasing`
    does, and UsageError if one is promoted behind the record. On a repeated call the first record counts, and the
    rest is done again."""
    name, found = job.name, releasing(cluster, job, region, to, now_ms)
    claims, reason = Claims(cluster, job, region, now_ms), f"the job is released to region {to}"
    made = found.made
    if not found.done:
        for one in found.gives_up:
            claims.abort(one, reason)
        made = _end_stream(cluster, name, to, now_ms)
    # Who has read the stream before the record may have claimed since.
    given_up = claims.abort_coming(reason)
    # Again, for a driver that was started before the record. Later ones read the record and exit.
    _fence_driver(cluster, name, made.generation)
    behind = _require_milestone(cluster, name)
    if behind.generation != made.generation:
        raise UsageError(
            f"{behind.generation} was promoted while the job was released, so it is not released: run this again"
        )
    return Releasing(made, True, sorted({*found.gives_up, *given_up}))


def _end_stream(cluster: Cluster, job: str, to: str, now_ms: Callable[[], int]) -> Release:
    """Write the release behind the newest milestone, and return it."""
    writer = TransactionalWriter(cluster, topics.signal_id(job))
    writer.initialise()
    last = _require_milestone(cluster, job)  # the fenced commit-signal can write no more
    made = Release(job, last.generation, last.sequence, to, now_ms())
    # Before the record, so that a kill after it leaves no driver running.
    _fence_driver(cluster, job, last.generation)
    reach("writers-fenced")
    writer.write(topics.milestones(job), [protocol_records.encode(made)])
    reach("release-written")
    return made


def _fence_driver(cluster: Cluster, job: str, generation: Generation) -> None:
    TransactionalWriter(cluster, topics.driver_id(job, generation)).initialise()


def _require_milestone(cluster: Cluster, job: str) -> Milestone:
    last = promoted(cluster, job)
    if last is None:
        raise UsageError(
            f"job {job} has no milestone at {cluster.bootstrap}, so there is nothing to continue from"
        )
    return last

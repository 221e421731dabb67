"""Forks and losses of a region that continued from another region's milestone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from confluent_kafka import Consumer

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range, wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.topic_ids import TopicIds
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics import mirror_topics
from cutwater.adapters.topics.candidates import candidates, origin_parent, promoted
from cutwater.adapters.topics.commit_stream import milestones_in, newest_milestone
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.adapters.topics.rejected_events import late_pairs
from cutwater.core.errors import DivergenceError, UnavailableError, UsageError
from cutwater.core.failover import forks
from cutwater.core.failover.exact_loss import (
    ExactLoss,
    Later,
    PartitionLoss,
    Record,
    late_of,
    later,
    never_copied,
)
from cutwater.core.failover.forks import Fork, Line, StreamMilestone, contradicting_lines, foreign_generations
from cutwater.core.generations.candidates import Candidate
from cutwater.core.job.job import Job
from cutwater.core.mirror.copy_progress import read_so_far
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.chain import link
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import SOURCE_OFFSET, Mirrored, from_origin
from cutwater.core.protocol.records import Claim, Decision, Milestone

ASK_S = 3.0
"""Short, since the origin may be down."""
Report = Callable[[str, int], None]
"""Receives a topic and the number of its records read, from time to time."""
_REPORT_EVERY = 10_000


class ForkReader:
    """Milestones that this region continued from, and what contradicts them."""

    def __init__(self, own: Cluster, job: Job, origin: str = "", there: Cluster | None = None) -> None:
        """`there`: the brokers of region `origin`, if known; they need not answer."""
        self._own, self._job = own, job
        self._origin, self._there = origin, there

    def forks(self) -> list[Fork]:
        """Return the forks of each claim that continues another region's milestone and was not given up, oldest
        first. Raises UsageError if the job has no topics here; UnavailableError if this region does not answer."""
        stand = self.continuing_claims()
        answers = self._answers()
        return [self._fork(one.claim, one.decision, answers) for one in stand]

    def continuing_claims(self) -> list[Candidate]:
        """Return the claims that continue another region's milestone and were not given up, oldest first."""
        known = [one for one in candidates(self._own, self._job.name).by_id.values() if one.claim.origin]
        # A withdrawal may have been too late.
        return [one for one in known if one.open or self._promoted(one.claim)]

    def decide(self, keeps: Generation, reason: str, now_ms: int) -> Decision:
        """Write which line of a fork counts; deletes nothing. Raises as `forks.decided` does."""
        fork = forks.find_fork(reversed(self.forks()), keeps)
        made = Decision(self._job.name, fork.claim.generation, str(keeps), reason, now_ms)
        writer = TransactionalWriter(self._own, topics.claims_id(self._job.name))
        writer.initialise()
        writer.write(topics.candidates(self._job.name), [protocol_records.encode(made)])
        return made

    def loss(self, report: Report = lambda _topic, _records: None) -> tuple[Fork, ExactLoss]:
        """Count the loss of the newest failover from the origin. Raises UnavailableError if the origin does not
        answer. Raises UsageError if this region never continued from there."""
        found = [one for one in self.forks() if one.claim.origin == self._origin]
        if not found:
            raise UsageError(f"no generation here continues from a milestone of region {self._origin}")
        if self._there is None:
            raise UsageError(
                "set CUTWATER_ORIGIN_REGION and CUTWATER_ORIGIN_BOOTSTRAP_SERVERS: the loss is counted in the "
                "origin's topics"
            )
        wait_for_broker(self._there, ASK_S)
        return found[-1], _Loss(self._own, self._there, self._job, found[-1].claim, report).exact()

    def _answers(self) -> bool:
        if self._there is None:
            return False
        try:
            wait_for_broker(self._there, ASK_S)
        except UnavailableError:
            return False
        return True

    def _promoted(self, claim: Claim) -> bool:
        return newest_milestone(self._own, self._job.name, claim.generation) is not None

    def _fork(self, claim: Claim, decision: Decision | None, answers: bool) -> Fork:
        parent = origin_parent(claim)
        there = self._there if answers and claim.origin == self._origin else None
        return Fork(
            claim=claim,
            parent=parent,
            promoted=self._promoted(claim),
            lines=self._lines(claim, there),
            asked=there is not None,
            behind=None if there is None else _behind(there, self._job.source, parent.source_cut),
            decision=decision,
        )

    def _lines(self, claim: Claim, there: Cluster | None) -> list[Line] | None:
        cluster = there or self._own
        topic = topics.milestones(self._job.name)
        if there is None:
            topic = mirror_records.milestones_from(self._job.name, claim.origin)
            if topic not in descriptions(cluster, [topic]):
                return None
        # Three reads, since a stream is too long to keep and `foreign` needs all hashes.
        line = {told.milestone.generation for told in _read_milestones(cluster, topic)}
        elsewhere = foreign_generations(line, (told.hash for told in _read_milestones(cluster, topic)))
        return contradicting_lines(_read_milestones(cluster, topic), link(claim.parent), elsewhere)


class _Loss:
    """The records that were not copied at one claim."""

    def __init__(self, own: Cluster, there: Cluster, job: Job, claim: Claim, report: Report) -> None:
        self._own, self._there, self._job, self._claim, self._report = own, there, job, claim, report
        self._copy = from_origin(job.source, claim.origin)
        self._copies = partition_count(own, self._copy)
        self._promoted_ms = self._promotion_ms()
        self._positions = self._copy_positions()
        self._common = LogCheck(there, ASK_S).common_ends(*read_so_far(self._positions.values()))

    def exact(self) -> ExactLoss:
        newest = promoted(self._own, self._job.name)
        read = newest.source_cut if newest else self._claim.source_cut
        partitions = [self._missed(place, copied, read) for place, copied in self._copied()]
        copied = {TopicPartition(self._copy, one.place.partition): one.later for one in partitions}
        late = late_pairs(self._own, self._job.name)
        problems = (*late.problems, *self._made_anew(), *self._lost_here(newest))
        return ExactLoss(partitions, late_of(late.entries, copied), problems, self._promoted_ms)

    def _copied(self) -> Iterator[tuple[TopicPartition, int]]:
        """Yield each partition of the origin's source with its copied offset; 0 for new ones."""
        yield from self._claim.origin_cut
        known = {place.partition for place, _ in self._claim.origin_cut}
        for number in range(partition_count(self._there, self._job.source)):
            if number not in known:
                yield TopicPartition(self._copy, number), 0

    def _promotion_ms(self) -> int | None:
        stream = milestones_in(self._own, topics.milestones(self._job.name))
        mine = (one.committed_ms for one, _ in stream if one.generation == self._claim.generation)
        return next(mine, None)

    def _copy_positions(self) -> dict[int, Mirrored]:
        """Return how far the origin's source is copied, by partition."""
        copies = mirror_topics.positions(self._own, self._job.name).copies.get(self._claim.origin, {}).values()
        return {one.partition: one for one in copies if one.topic == self._job.source}

    def _made_anew(self) -> list[str]:
        """Report a recreated source in the origin, whose offsets belong to other events."""
        topic, origin = self._job.source, self._claim.origin
        copied = {one.topic_id for one in self._positions.values()}
        now = TopicIds(self._there, ASK_S).read([topic]).get(topic)
        if not copied or (now is not None and copied == {now.topic_id}):
            return []
        return [f"{topic} was recreated in {origin}, so the number of lost events of the earlier topic is unknown"]

    def _lost_here(self, newest: Milestone | None) -> list[str]:
        """Report a copy that does not show any more what the generation here has read."""
        if newest is None:
            return []
        read = Cut.of({place: offset for place, offset in newest.source_cut if place.topic == self._copy})
        if found := LogCheck(self._own, ASK_S).find_losses(newest.evidence, read):
            return found
        ends = Offsets(self._own).committed_ends([place for place, _ in read])
        return [
            f"{place.topic}/{place.partition} has lost the end of a transaction, which hides its records from "
            f"offset {ends[place]} on"
            for place, offset in read
            if ends[place] < offset
        ]

    def _missed(self, here: TopicPartition, copied: int, read: Cut) -> PartitionLoss:
        place = TopicPartition(self._job.source, here.partition)
        consumer = make_consumer(self._there)
        try:
            low, end = bounds(consumer, *place)
            rewritten = self._rewritten_from(here.partition, low, end)
            first = copied if rewritten is None else min(copied, rewritten)
            records, afterwards = self._count_events(consumer, place, max(low, first), end)
        finally:
            consumer.close()
        brought = self._later(here, copied, end, read.offset(here), low)
        return PartitionLoss(
            place=place,
            copied=copied,
            end=end,
            records=records + brought.gone,
            deleted=never_copied(copied, self._positions.get(here.partition), low, end),
            cut=max(0, copied - end),
            forgotten=self._forgotten(here),
            later=brought,
            afterwards=afterwards,
            rewritten_from=rewritten,
        )

    def _rewritten_from(self, partition: int, low: int, end: int) -> int | None:
        """Return from where the origin has other records than those that were copied; None if it has the same."""
        common = self._common.get(TopicPartition(self._job.source, partition))
        return None if common is None or common >= end else max(low, common)

    def _forgotten(self, here: TopicPartition) -> int:
        if here.partition >= self._copies:
            return 0
        low, _ = Offsets(self._own).topic_bounds(here.topic, [here.partition])[here.partition]
        return max(0, low - self._claim.source_cut.offset(here))

    def _count_events(self, consumer: Consumer, place: TopicPartition, first: int, end: int) -> tuple[int, int]:
        count = afterwards = 0
        for count, one in enumerate(read_range(consumer, *place, first, end) if first < end else (), 1):
            afterwards += self._promoted_ms is not None and one.timestamp()[1] > self._promoted_ms
            if count % _REPORT_EVERY == 0:
                self._report(f"{place.topic}/{place.partition}", count)
        return count, afterwards

    def _later(self, here: TopicPartition, since: int, end: int, read: int, kept: int) -> Later:
        if here.partition >= self._copies:
            return Later()
        consumer = make_consumer(self._own)
        try:
            low, high = bounds(consumer, *here)
            first = max(low, self._claim.source_cut.offset(here))
            return later(self._records(consumer, here, first, high), since, end, read, kept)
        finally:
            consumer.close()

    def _records(self, consumer: Consumer, here: TopicPartition, first: int, end: int) -> Iterator[Record]:
        for count, message in enumerate(read_range(consumer, *here, first, end) if first < end else (), 1):
            told = dict(message.headers() or [])
            if SOURCE_OFFSET not in told:
                raise DivergenceError(
                    f"{here.topic}/{here.partition}@{message.offset()} has no header with its offset in "
                    f"{self._claim.origin}, so no mirror has written it. Find out which other program writes to "
                    "this topic"
                )
            if count % _REPORT_EVERY == 0:
                self._report(f"{here.topic}/{here.partition}", count)
            yield Record(int(told[SOURCE_OFFSET]), message.offset())


def _read_milestones(cluster: Cluster, topic: str) -> Iterator[StreamMilestone]:
    return (StreamMilestone(milestone, link(value)) for milestone, value in milestones_in(cluster, topic))


def _behind(cluster: Cluster, topic: str, cut: Cut) -> int:
    places = {place: offset for place, offset in cut if place.topic == topic}
    ends: Mapping[TopicPartition, int] = Offsets(cluster).committed_ends(list(places))
    return sum(max(0, ends[place] - offset) for place, offset in places.items())

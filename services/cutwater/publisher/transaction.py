"""Writes output and publisher position together, in one transaction each time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from confluent_kafka import Consumer, Message

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client import (
    bounds,
    make_consumer,
    partition_count,
    read_range,
    read_tail,
    search_backwards,
)
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import Batch, TransactionalWriter
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics.own_writes import OwnLog
from cutwater.core.errors import DivergenceError, FencedError, LostRecordsError, ProtocolError
from cutwater.core.job.job import CORRECTION, TOMBSTONE, Job
from cutwater.core.job.shards import ShardMap
from cutwater.core.output.position import (
    MilestonePart,
    Published,
    Tail,
    after,
    ends,
    nothing,
    require_agreement,
    require_mine,
    tail_of,
)
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Jump, Step
from cutwater.publisher.encoding import Encoder, records
from cutwater.publisher.routing import Routing
from cutwater.publisher.transaction_parts import advance_cut
from cutwater.publisher.unpublished_milestones import milestone_of
from cutwater.views.changelog.row_batch import Piece

ENDS_STEP = 8
"""The number of offsets that are read first, from the end."""


@dataclass(frozen=True)
class Transaction:
    position: Published
    whole: Milestone | None
    plan: Step | Jump
    part: MilestonePart
    batches: Sequence[Batch]
    """The rows, by partition."""
    corrections: int
    """The number of rows that change what was published before."""

    @property
    def moved(self) -> Published:
        """The position after it."""
        return after(self.position, self.plan, self.part)


class OutputWriter:
    """Writes with the transactional id of the job's publisher; `open` fences the previous one."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        generation: Generation,
        encoder: Encoder,
        now_ms: Callable[[], int],
        sleep: Callable[[float], None] = time.sleep,
        form_of: Callable[[Generation], str] | None = None,
    ) -> None:
        """`form_of`: returns the output's form in a generation, which may have another job file; by default the
        job's."""
        self._form_of = form_of or (lambda _: job.output_form)
        self._cluster = cluster
        self._start = nothing(job.name, generation, job.output_form)
        self._encoder = encoder
        self._now_ms, self._sleep = now_ms, sleep
        self._topic, self._place = topics.output(job.name), topics.published(job.name)
        self._job, self._shards = job.name, job.shards.shards
        self._routings: dict[int, Routing] = {}
        settings = {"linger.ms": 5, "compression.type": "lz4", "queue.buffering.max.messages": 200_000}
        self._writer = TransactionalWriter(cluster, topics.publisher_id(job.name), **settings)

    def open(self) -> Published:
        """Fence an older publisher, then read where the last committed transaction ended. Raise UsageError if the
        output has another format, DivergenceError if another job wrote it or partitions were added to it."""
        self._output = ShardMap(self._shards, partition_count(self._cluster, self._topic))
        self._writer.initialise()
        self._own_log = OwnLog(self._cluster, self._places, "the publisher", self._sleep)
        self._own_log.begin()
        consumer = make_consumer(self._cluster)
        try:
            position = self._read_position(consumer)
            if position is not self._start:
                self._require_ends(consumer)
            self._own_log.begin(position.evidence, position.output_cut)
            self._require_agreement(consumer, position)
            return position
        finally:
            consumer.close()

    def _read_position(self, consumer: Consumer) -> Published:
        values = read_tail(consumer, self._place, 0, bool)
        if not values:
            return self._start
        position = protocol_records.decode(values[-1])
        if not isinstance(position, Published):
            raise ProtocolError(f"{self._place} contains a {type(position).__name__}")
        mine = replace(self._start, form=self._form_of(position.generation))
        require_mine(position, mine, self._topic, self._place)
        return replace(position, form=self._start.form)

    def require_kept(self, position: Published) -> None:
        """Require that everything written still exists. `position`: the one after the last transaction. Raise
        LostRecordsError; UnavailableError as `OwnLog.require` does."""
        self._own_log.require(lambda: self._require_last(position))

    def _require_last(self, position: Published) -> None:
        with closing(make_consumer(self._cluster)) as consumer:
            found = self._read_position(consumer)
            if not found.same_place(position):
                self._require_unfollowed(consumer)
                raise LostRecordsError(
                    f"{self._place}/0, which records what is published, has lost its end. Start the publisher "
                    "again: it compares the output with what is left"
                )
            self._require_agreement(consumer, found)

    def _require_unfollowed(self, consumer: Consumer) -> None:
        """Raise FencedError if a newer publisher has written since the last check: then nothing is lost."""
        first, end = bounds(consumer, self._place, 0)
        first = max(first, self._own_log.cut.offset(TopicPartition(self._place, 0)))
        if first < end and any(True for _ in read_range(consumer, self._place, 0, first, end)):
            raise self._fenced()

    def _fenced(self) -> FencedError:
        return FencedError(f"a newer publisher of {self._job} has written to {self._place}: this one exits")

    @property
    def _places(self) -> list[TopicPartition]:
        output = [TopicPartition(self._topic, at) for at in range(self._output.partitions)]
        return [*output, TopicPartition(self._place, 0)]

    def _require_agreement(self, consumer: Consumer, position: Published) -> None:
        tails = self._tails(consumer, position.output_cut)
        try:
            require_agreement(position, milestone_of(position), tails, self._topic, self._place)
        except LostRecordsError:
            if not self._read_position(consumer).same_place(position):
                raise self._fenced() from None
            raise

    def _tails(self, consumer: Consumer, before: Cut) -> dict[int, Tail | None]:
        """Return the tail of each partition, except those that retention has emptied. `before`: the ends before
        the last transaction, if known."""
        found: dict[int, Tail | None] = {}
        for partition in range(self._output.partitions):
            first, end = bounds(consumer, self._topic, partition)
            if first == end and end:
                continue
            # The previous transaction's end marker is just below `before`, apart from Kafka's control records.
            since = end - before.offset(TopicPartition(self._topic, partition), end)
            tails = _Tails(self._encoder, first)
            search_backwards(consumer, self._topic, partition, tails.find, max(0, since) + ENDS_STEP)
            found[partition] = tails.last
        return found

    def _require_ends(self, consumer: Consumer) -> None:
        # Each key keeps its partition: partitions must not be added. Every transaction writes to each partition.
        ends = [bounds(consumer, self._topic, at)[1] for at in range(self._output.partitions)]
        if any(ends) and not all(ends):
            raise DivergenceError(
                f"{self._topic}/{ends.index(0)} never held an end marker, and other partitions do: partitions "
                f"were added. Once the output has no reader, delete {self._topic} and {self._place} and create "
                "them with the final number of partitions; the output then starts from the beginning"
            )

    def prepare(
        self,
        position: Published,
        whole: Milestone | None,
        plan: Step | Jump,
        part: Sequence[Piece],
        kind: str,
        last: bool,
    ) -> Transaction:
        """Encode a part of a milestone, without writing it. `whole`: the milestone in `position`."""
        milestone = plan.to.milestone
        routing = self._routing(len(milestone.changelog_cut))
        batches = [Batch(self._topic, number, []) for number in range(self._output.partitions)]
        for piece in part:
            for number, rows in routing.split(piece):
                batches[number].records.extend(records(self._encoder, milestone.sequence, kind, rows))
        counts = [len(batch.records) for batch in batches]
        progress = advance_cut(position.progress, topics.changelog(self._job, milestone.generation), part)
        corrections = sum(len(piece) for piece in part if piece.kind in (CORRECTION, TOMBSTONE))
        return Transaction(position, whole, plan, MilestonePart(counts, progress, last), batches, corrections)

    def _routing(self, partitions: int) -> Routing:
        # Only the newest number of changelog partitions is cached.
        if partitions not in self._routings:
            self._routings = {partitions: Routing(self._output, partitions)}
        return self._routings[partitions]

    def write(self, transaction: Transaction) -> None:
        """Write rows, end markers and position. Raise FencedError; UnavailableError if the outcome is unknown
        (restart to read it); and what `require_kept` raises."""
        position, plan, part = transaction.position, transaction.plan, transaction.part
        self.require_kept(position)
        markers = [
            Batch(self._topic, partition, [{"value": self._encoder.end(protocol_records.encode(end), end)}])
            for partition, end in enumerate(ends(position, transaction.whole, plan, part, self._now_ms()))
        ]
        moved = replace(transaction.moved, output_cut=self._own_log.cut, evidence=self._own_log.evidence)
        place = {"key": self._topic.encode(), "value": protocol_records.encode(moved)}
        reach("part-read")
        self._writer.write_all([*transaction.batches, *markers, Batch(self._place, 0, [place])])
        reach("part-written")


class _Tails:
    """Finds a partition's tail among its last records. `first`: the partition's oldest offset."""

    def __init__(self, encoder: Encoder, first: int) -> None:
        self._encoder, self._first = encoder, first
        self.last: Tail | None = None

    def find(self, messages: Iterator[Message]) -> Tail | None:
        """Return None if more must be read: the rows between two end markers are counted."""
        rows, before, last = 0, None, None
        counted = 0
        for one in messages:
            if one.key() is not None:
                rows += 1
                continue
            before, last = last, self._encoder.decode_end(bytes(one.value()))
            counted, rows = rows, 0
        if last is None:
            return None
        whole = before is not None or not self._first
        self.last = tail_of(before, last, counted) if whole else Tail(last, 0)
        return self.last if before else None

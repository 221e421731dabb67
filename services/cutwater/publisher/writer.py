"""The output and the publisher's position, written in one transaction each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer

from cutwater.adapters import wire
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.crashing import reach
from cutwater.adapters.kafka import Batch, TransactionalWriter, bounds, make_consumer, partition_count, read_tail
from cutwater.core import topics
from cutwater.core.errors import DivergenceError, ProtocolError
from cutwater.core.generations import Generation
from cutwater.core.job import CORRECTION, TOMBSTONE, Job
from cutwater.core.output import Part, Published, after, ends, nothing, require_mine
from cutwater.core.records import Milestone
from cutwater.core.restore import Jump, Step
from cutwater.core.shards import ShardMap
from cutwater.publisher.encoding import Encoder, records
from cutwater.publisher.parts import reached
from cutwater.publisher.routing import Routing
from cutwater.views.pieces import Piece


@dataclass(frozen=True)
class Transaction:
    """One part of a milestone, ready to be written."""

    position: Published
    """The position before it."""
    whole: Milestone | None
    """The milestone in that position."""
    plan: Step | Jump
    part: Part
    batches: Sequence[Batch]
    """Its rows, by partition."""
    corrections: int
    """How many of its rows contradict what was published before."""

    @property
    def moved(self) -> Published:
        """The position after it."""
        return after(self.position, self.plan, self.part)


class OutputWriter:
    """Owns the transactional id of the job's publisher; `open` takes it over."""

    def __init__(
        self, cluster: Cluster, job: Job, generation: Generation, encoder: Encoder, now_ms: Callable[[], int]
    ) -> None:
        self._cluster = cluster
        self._start = nothing(job.name, generation, job.output.form)
        self._encoder = encoder
        self._now_ms = now_ms
        self._topic, self._place = topics.output(job.name), topics.published(job.name)
        self._job, self._shards = job.name, job.shards.shards
        self._routings: dict[int, Routing] = {}
        settings = {"linger.ms": 5, "compression.type": "lz4", "queue.buffering.max.messages": 200_000}
        settings["message.max.bytes"] = topics.ROW_BYTES_MAX
        self._writer = TransactionalWriter(cluster, topics.publisher_id(job.name), **settings)

    def open(self) -> Published:
        """Fence an older publisher, then read where the last committed transaction ended.

        Raises UsageError where the output was written in another form, DivergenceError where it is another's, or
        partitions were added to it.
        """
        self._output = ShardMap(self._shards, partition_count(self._cluster, self._topic))
        self._writer.initialise()
        consumer = make_consumer(self._cluster)
        try:
            values = read_tail(consumer, self._place, 0, bool)
            if not values:
                return self._start
            position = wire.decode(values[-1])
            if not isinstance(position, Published):
                raise ProtocolError(f"a {type(position).__name__} stands on {self._place}")
            require_mine(position, self._start, self._topic, self._place)
            self._require_ends(consumer)
            return position
        finally:
            consumer.close()

    def _require_ends(self, consumer: Consumer) -> None:
        """A key keeps its partition for ever, so none may be added: every transaction leaves something in each."""
        ends = [bounds(consumer, self._topic, at)[1] for at in range(self._output.partitions)]
        if any(ends) and not all(ends):
            raise DivergenceError(
                f"{self._topic}/{ends.index(0)} never held an end marker, and other partitions do: partitions "
                f"were added. Once nobody reads that output any more, delete {self._topic} and {self._place}, "
                "make them with the partitions that they are to keep, and the output begins anew"
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
        """Encode a part of a milestone; nothing is written. `whole` is the milestone in `position`."""
        milestone = plan.to.milestone
        routing = self._routing(len(milestone.changelog_cut))
        batches = [Batch(self._topic, number, []) for number in range(self._output.partitions)]
        for piece in part:
            for number, rows in routing.split(piece):
                batches[number].records.extend(records(self._encoder, milestone.sequence, kind, rows))
        counts = [len(batch.records) for batch in batches]
        progress = reached(position.progress, topics.changelog(self._job, milestone.generation), part)
        corrections = sum(len(piece) for piece in part if piece.kind in (CORRECTION, TOMBSTONE))
        return Transaction(position, whole, plan, Part(counts, progress, last), batches, corrections)

    def _routing(self, partitions: int) -> Routing:
        """From a changelog of so many."""
        if partitions not in self._routings:
            self._routings = {partitions: Routing(self._output, partitions)}
        return self._routings[partitions]

    def write(self, transaction: Transaction) -> None:
        """Rows, end markers and position.

        Raises FencedError; UnavailableError where the outcome is unknown: start again and read it.
        """
        position, plan, part = transaction.position, transaction.plan, transaction.part
        markers = [
            Batch(self._topic, partition, [{"value": self._encoder.end(wire.encode(end), end)}])
            for partition, end in enumerate(ends(position, transaction.whole, plan, part, self._now_ms()))
        ]
        place = {"key": self._topic.encode(), "value": wire.encode(transaction.moved)}
        reach("part-read")
        self._writer.write_all([*transaction.batches, *markers, Batch(self._place, 0, [place])])
        reach("part-written")

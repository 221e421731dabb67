"""The output and the publisher's position, written in one transaction each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cutwater.adapters import wire
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.crashing import reach
from cutwater.adapters.kafka import Batch, TransactionalWriter, make_consumer, read_tail
from cutwater.core import topics
from cutwater.core.errors import ProtocolError
from cutwater.core.generations import Generation
from cutwater.core.job import Job
from cutwater.core.output import Part, Published, after, ends, nothing, require_mine
from cutwater.core.records import Milestone
from cutwater.core.restore import Jump, Step
from cutwater.publisher.encoding import Encoder, group_key
from cutwater.publisher.rows import reached
from cutwater.views.updates import Row


class OutputWriter:
    """Owns the transactional id of the job's publisher; `open` takes it over."""

    def __init__(
        self, cluster: Cluster, job: Job, generation: Generation, encoder: Encoder, now_ms: Callable[[], int]
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._generation = generation
        self._encoder = encoder
        self._now_ms = now_ms
        self._topic = topics.output(job.name)
        self._changelog = topics.changelog(job.name, generation)
        settings = {"linger.ms": 5, "compression.type": "lz4", "queue.buffering.max.messages": 200_000}
        settings["message.max.bytes"] = topics.ROW_BYTES_MAX
        self._writer = TransactionalWriter(cluster, topics.publisher_id(job.name), **settings)

    def open(self) -> Published:
        """Fence an older publisher, then read where the last committed transaction ended."""
        self._writer.initialise()
        consumer = make_consumer(self._cluster)
        try:
            values = read_tail(consumer, topics.published(self._job.name), 0, bool)
        finally:
            consumer.close()
        if not values:
            return nothing(self._job.name, self._generation)
        position = wire.decode(values[-1])
        if not isinstance(position, Published):
            raise ProtocolError(f"a {type(position).__name__} stands on {topics.published(self._job.name)}")
        require_mine(position, self._job.name, self._generation)
        return position

    def write(
        self,
        position: Published,
        whole: Milestone | None,
        plan: Step | Jump,
        rows: Sequence[Row],
        kind: str,
        last: bool,
    ) -> Published:
        """One part of a milestone: rows, end markers, position. Returns the new position.

        Raises FencedError; UnavailableError where the outcome is unknown: start again and read it.
        """
        self._encoder.begin(plan.to.milestone.sequence, kind)
        batches = [Batch(self._topic, number, []) for number in range(self._job.shards.partitions)]
        encode, records = self._encoder.value, [batch.records for batch in batches]
        for partition, _, key, value in rows:
            records[partition].append({"key": group_key(key), "value": encode(key, value)})
        counts = [len(batch.records) for batch in batches]
        before = position.progress if position.parts or whole is None else whole.changelog_cut
        part = Part(counts, reached(before, self._changelog, rows), last)
        for partition, end in enumerate(ends(position, whole, plan, part, self._now_ms())):
            batches[partition].records.append({"value": self._encoder.end(wire.encode(end), end)})
        moved = after(position, plan, part)
        reach("part-read")
        place = {"key": self._topic.encode(), "value": wire.encode(moved)}
        self._writer.write_all([*batches, Batch(topics.published(self._job.name), 0, [place])])
        reach("part-written")
        return moved

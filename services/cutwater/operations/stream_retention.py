"""Removal of the start of a commit stream and of its barriers, up to the first record still needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.record_deletion import delete_below
from cutwater.adapters.object_store import objects_at
from cutwater.adapters.topics import mirror_topics
from cutwater.adapters.topics.candidates import candidates, origin_parent
from cutwater.adapters.topics.commit_stream import published_milestone
from cutwater.core.errors import UsageError
from cutwater.core.generations.stream_retention import ClaimStart, Need, Stream, barriers_floor, floor
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone, Release
from cutwater.operations.generations.prune import HOUR_MS, ExclusiveWriter, manifests


class Cut(NamedTuple):
    """The unneeded start of a topic."""

    topic: str
    first: int
    """The first offset now."""
    below: int
    """The first offset to keep; at most `first` if nothing can be removed."""
    why: str
    """Why no more can be removed."""

    @property
    def offsets(self) -> int:
        return max(0, self.below - self.first)


class Pruning:
    """Pruning of one job in its own region. `store`: the snapshot store, or empty."""

    def __init__(
        self, cluster: Cluster, job: Job, settings: Settings, store: str, now_ms: Callable[[], int]
    ) -> None:
        self._cluster, self._job, self._settings = cluster, job, settings
        self._objects = objects_at(store, settings) if store else None
        self._now_ms = now_ms

    def look(self) -> list[Cut]:
        """Return the cuts of commit stream and barriers. Raises UsageError if the job has no milestone."""
        stream = Stream(self._now_ms() - self._settings.keep_streams_hours * HOUR_MS)
        for _, one in self._records():
            stream.take(one)
        if stream.newest is None:
            raise UsageError(f"job {self._job.name} has no milestone yet: there is nothing to prune")
        if stream.rests:
            return self._cuts(0, 0, stream.rests)
        begun = self._claim_starts(stream.newest)
        needs = [*stream.needs(self._listed(stream), begun), *self._readers(stream)]
        least = floor(stream, needs, begun)
        # A second read instead of keeping each milestone's offset, since a stream is long.
        removed, below = None, 0
        for offset, one in self._records():
            if isinstance(one, Milestone):
                below = offset
                if one.sequence >= least.sequence:
                    break
                removed = one
        why = f"milestone {least.sequence} stays: {least.who}"
        return self._cuts(below, barriers_floor(removed, stream, least, begun), why)

    def remove(self, cuts: list[Cut], alone: ExclusiveWriter) -> None:
        """Delete from the stream, then from the barriers, since barriers without a milestone are skipped. May
        be killed and repeated. Raises FencedError as `Alone.require`."""
        for one in cuts:
            if one.offsets:
                alone.require()
                delete_below(self._cluster, one.topic, {0: one.below})

    def _cuts(self, stream: int, barriers: int, why: str) -> list[Cut]:
        name, ends = self._job.name, Offsets(self._cluster)
        below = {topics.milestones(name): stream, topics.barriers(name): barriers}
        return [Cut(topic, ends.topic_bounds(topic, [0])[0][0], offset, why) for topic, offset in below.items()]

    def _records(self) -> Iterator[tuple[int, Milestone | Release]]:
        consumer, topic = make_consumer(self._cluster), topics.milestones(self._job.name)
        try:
            low, high = bounds(consumer, topic, 0)
            for message in read_range(consumer, topic, 0, low, high) if low < high else ():
                record = protocol_records.decode(bytes(message.value()))
                if isinstance(record, Milestone | Release):
                    yield message.offset(), record
        finally:
            consumer.close()

    def _claim_starts(self, newest: Milestone) -> list[ClaimStart]:
        known = candidates(self._cluster, self._job.name)
        coming = {one.generation for one in known.coming(newest)}
        claims = [one.claim for one in known.by_id.values()]
        return [
            ClaimStart(
                one.generation,
                one.rewinds_to if one.origin else origin_parent(one).sequence,
                bool(one.origin),
                one.generation in coming,
            )
            for one in claims
        ]

    def _listed(self, stream: Stream) -> list[Generation]:
        names = {topics.changelog(self._job.name, one): one for one in stream.lasts}
        return [names[one] for one in descriptions(self._cluster, list(names))]

    def _readers(self, stream: Stream) -> Iterator[Need]:
        if self._job.output.mode != "none":
            published = published_milestone(self._cluster, self._job.name)
            yield Need(published.sequence if published else 1, "the publisher continues from it")
        for generation, sequence in manifests(self._objects, self._job.name):
            if Generation.parse(generation) in stream.lasts:
                yield Need(sequence, f"a snapshot of {generation} is kept ('cutwater snapshots prune')")
        if self._settings.origin_region and self._settings.origin_bootstrap_servers:
            yield from self._mirrored()

    def _mirrored(self) -> Iterator[Need]:
        """Yield the other region's copied milestone. Raises UnavailableError if it does not answer."""
        other, stream = self._settings.origin_region, topics.milestones(self._job.name)
        cluster = self._settings.origin_cluster
        if not mirror_topics.has_mirror(cluster, self._job.name):
            return
        copies = mirror_topics.positions(cluster, self._job.name).copies.get(self._settings.region, {})
        position = copies.get(TopicPartition(stream, 0))
        if position is None:
            return
        copied = 0
        for offset, one in self._records():
            if offset >= position.next:
                break
            if isinstance(one, Milestone):
                copied = one.sequence
        yield Need(max(1, copied), f"region {other} has copied the stream up to it")

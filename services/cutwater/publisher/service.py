"""The publisher: follows the commit stream and publishes each milestone. The composition root of the service.

python -m cutwater.publisher JOBFILE
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

from prometheus_client import start_http_server

from cutwater.adapters import wire
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.kafka import partition_count, wait_for_broker
from cutwater.adapters.process import now_ms, run_service
from cutwater.adapters.settings import Settings
from cutwater.core import topics
from cutwater.core.errors import ProtocolError, UsageError
from cutwater.core.generations import Generation
from cutwater.core.job import Job
from cutwater.core.output import Published, applied, nothing
from cutwater.core.readers import PUBLISHER
from cutwater.core.records import Heartbeat, Milestone
from cutwater.core.restore import Backlog, Jump, Step
from cutwater.publisher.encoding import ENCODERS
from cutwater.publisher.metrics import Metrics
from cutwater.publisher.rows import Changed, Finals, Source
from cutwater.publisher.writer import OutputWriter
from cutwater.views.proving import Overtaken
from cutwater.views.ranges import Ranges, Stopped
from cutwater.views.store import Store
from cutwater.views.stream import MilestoneFeed
from cutwater.views.updates import PART_ROWS, Row, Updates

POLL_S = 0.1


class Publisher:
    """One publisher of one job; at most one lives, by its transactional id."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        generation: Generation,
        make_source: Callable[[Ranges], Source],
        metrics: Metrics,
        log: Any,
        part_rows: int = PART_ROWS,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._generation = generation
        self._metrics = metrics
        self._log = log
        self._part_rows = part_rows
        self._now_ms = clock
        self._stop = threading.Event()
        self._position = nothing(job.name, generation)
        self._ranges = Ranges(cluster, topics.changelog(job.name, generation), self._stop.is_set)
        self._source = make_source(self._ranges)
        self._writer = OutputWriter(cluster, job, generation, ENCODERS[job.output.format](job), clock)

    def stop(self, *_signal: object) -> None:
        self._stop.set()

    def run(self) -> None:
        """Publish until stopped; raises CutwaterError where protocol, a newer publisher or an outage forbid it."""
        self._position = self._writer.open()
        whole = _milestone(self._position)
        backlog = Backlog(
            self._generation, applied(self._position, whole), self._position.target, reader=PUBLISHER
        )
        self._log.info("ready", sequence=whole.sequence if whole else 0, parts=self._position.parts)
        feed = MilestoneFeed(self._cluster, topics.milestones(self._job.name), backlog.position, PUBLISHER)
        try:
            while not self._stop.is_set():
                self._advance(feed, backlog)
        except Stopped:
            pass
        finally:
            feed.close()
            self._ranges.close()
            self._source.close()

    def _advance(self, feed: MilestoneFeed, backlog: Backlog) -> None:
        plan = backlog.plan(self._now_ms())
        if plan is not None:
            try:
                self._publish(plan)
                backlog.done(plan.to)
            except Overtaken:
                self._log.warning("overtaken", token=str(plan.to.milestone.token))
                backlog.overtaken(plan.to)
        if not backlog.full:
            self._read(feed, backlog, 0.0 if plan else POLL_S)
        self._metrics.backlog(len(backlog))

    def _read(self, feed: MilestoneFeed, backlog: Backlog, timeout_s: float) -> None:
        for record in feed.poll(timeout_s):
            if not isinstance(record, Heartbeat):
                backlog.add(record)
        if feed.at_end:
            backlog.end_of_stream()

    def _publish(self, plan: Step | Jump) -> None:
        """The position follows each transaction: parts stay, where compaction ends the reading of the rest."""
        whole, milestone = _milestone(self._position), plan.to.milestone
        # Closed at once where a write fails: it holds a consumer's assignment, or rows of the store.
        with closing(self._source.rows(plan, self._position, whole)) as rows:
            for part, last in parts(rows, self._part_rows):
                kind = self._source.kind
                self._position = self._writer.write(self._position, whole, plan, part, kind, last)
                self._metrics.wrote(len(part))
        self._metrics.published(milestone, self._now_ms())
        self._log.info("published", token=str(milestone.token), after=whole.sequence if whole else 0)


def parts(rows: Iterable[Row], most: int) -> Iterator[tuple[list[Row], bool]]:
    """The rows in pieces of at most `most`, each with whether it is the last; at least one piece."""
    piece: list[Row] = []
    for row in rows:
        if len(piece) == most:
            yield piece, False
            piece = []
        piece.append(row)
    yield piece, True


def _milestone(position: Published) -> Milestone | None:
    if not position.milestone:
        return None
    milestone = wire.decode(position.milestone)
    if not isinstance(milestone, Milestone):
        raise ProtocolError("the publisher's position holds no milestone")
    return milestone


def _build(job: Job, settings: Settings, log: Any) -> Publisher:
    if job.output.mode == "none":
        raise UsageError(f"job {job.name} has no output (output.mode: none): it needs no publisher")
    cluster, generation = settings.cluster, settings.generation
    wait_for_broker(cluster, settings.wait_ms / 1000)
    for topic in (topics.milestones(job.name), topics.published(job.name)):
        partition_count(cluster, topic)
    found = partition_count(cluster, topics.output(job.name))
    if found != job.shards.partitions:
        raise UsageError(f"{topics.output(job.name)} has {found} partitions, the job {job.shards.partitions}")
    metrics = Metrics()
    if settings.publisher_port:
        start_http_server(settings.publisher_port, settings.host, metrics.registry)

    def source(ranges: Ranges) -> Source:
        if job.output.mode == "updates":
            return Changed(Updates(job, ranges, now_ms))
        folder = settings.data_dir / "finals" / job.name / str(generation)
        # A segment per window end: the windows that a milestone closes lie together.
        return Finals(job, Store(folder, job, generation, segment=job.window.slide_ms), ranges, now_ms)

    return Publisher(cluster, job, generation, source, metrics, log)


def main() -> int:
    """Entry point; returns the exit code."""
    return run_service("publisher", _build)

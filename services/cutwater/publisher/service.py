"""The publisher: follows the commit stream and publishes each milestone. The composition root of the service.

python -m cutwater.publisher JOBFILE
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from cutwater.adapters import wire
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.framing import OutputHeaders, output_headers_of
from cutwater.adapters.kafka import partition_count
from cutwater.adapters.memory import rare_collections
from cutwater.adapters.metering import serve
from cutwater.adapters.process import now_ms, run_service
from cutwater.adapters.settings import Settings
from cutwater.adapters.trail import account
from cutwater.adapters.waiting import await_brokers
from cutwater.core import topics
from cutwater.core.errors import ProtocolError, UsageError
from cutwater.core.generations import Generation
from cutwater.core.job import Job
from cutwater.core.output import Published, applied, nothing
from cutwater.core.readers import PUBLISHER
from cutwater.core.records import Heartbeat, Milestone
from cutwater.core.restore import Backlog, Jump, Step
from cutwater.core.trail import Account, unrecorded
from cutwater.publisher.encoding import encoder_for
from cutwater.publisher.metrics import Metrics
from cutwater.publisher.parts import parts
from cutwater.publisher.pipeline import Pipeline
from cutwater.publisher.rows import Changed, Finals, Source
from cutwater.publisher.writer import OutputWriter, Transaction
from cutwater.views.proving import Overtaken
from cutwater.views.ranges import Ranges, Stopped
from cutwater.views.store import Store
from cutwater.views.stream import MilestoneFeed
from cutwater.views.updates import PART_BYTES, PART_ROWS, Updates

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
        part_bytes: int = PART_BYTES,
        headers: OutputHeaders | None = None,
        account: Account | None = None,
        pipeline: Pipeline | None = None,
    ) -> None:
        """`headers`: what a registry gave for the output's records; None where no registry is asked."""
        self._cluster = cluster
        self._job = job
        self._generation = generation
        self._metrics = metrics
        self._log = log
        self._part_rows = part_rows
        self._part_bytes = part_bytes
        self._now_ms = clock
        self._account = account or unrecorded()
        self._stop = threading.Event()
        self._position = nothing(job.name, generation, job.output.form)
        self._pipeline = pipeline or Pipeline()
        self._ranges = Ranges(cluster, topics.changelog(job.name, generation), self._stop.is_set)
        self._source = make_source(self._ranges)
        self._writer = OutputWriter(cluster, job, generation, encoder_for(job, headers), clock)

    def stop(self, *_signal: object) -> None:
        self._stop.set()

    def run(self) -> None:
        """Publish until stopped; raises CutwaterError where protocol, a newer publisher or an outage forbid it."""
        with self._account as start:
            with start.step("fencing older publishers and reading their position"):
                self._position = self._writer.open()
            whole = _milestone(self._position)
            backlog = Backlog(
                self._generation, applied(self._position, whole), self._position.target, reader=PUBLISHER
            )
            self._tell(start, whole)
        feed = MilestoneFeed(self._cluster, topics.milestones(self._job.name), backlog.position, PUBLISHER)
        try:
            with rare_collections():
                while not self._stop.is_set():
                    self._pipeline.check()
                    self._advance(feed, backlog)
            self._pipeline.settle()
        except Stopped:
            self._pipeline.settle()
        finally:
            self._pipeline.close()
            feed.close()
            self._ranges.close()
            self._source.close()

    def _tell(self, start: Account, whole: Milestone | None) -> None:
        position, newest = self._position, whole.token if whole else "none"
        start.found(milestone=newest, target=position.target, parts=position.parts, rows=sum(position.rows))
        parts = f", with part {position.parts} of sequence {position.target}" if position.parts else ""
        start.decided(f"go on behind milestone {newest}{parts}")
        self._log.info("ready", sequence=whole.sequence if whole else 0, parts=position.parts)

    def _advance(self, feed: MilestoneFeed, backlog: Backlog) -> None:
        plan = backlog.plan(self._now_ms())
        if plan is not None:
            try:
                self._publish(plan)
                backlog.done(plan.to)
            except Overtaken as overtaken:
                self._log.warning("overtaken", token=str(plan.to.milestone.token), looked=overtaken.looked)
                backlog.overtaken(plan.to, overtaken.looked)
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
        """The position follows each part: parts stay, where compaction ends the reading of the rest."""
        if not self._source.ahead:
            self._pipeline.settle()
        whole = _milestone(self._position)
        # Closed at once where a write fails: it holds a consumer's assignment, or rows of the store.
        with closing(self._source.pieces(plan, self._position, whole)) as pieces:
            for part, last in parts(pieces, self._part_rows, self._part_bytes):
                transaction = self._writer.prepare(self._position, whole, plan, part, self._source.kind, last)
                self._pipeline.submit(partial(self._write, transaction))
                # Where the write fails, this process ends, and the next one reads where it stands.
                self._position = transaction.moved

    def _write(self, transaction: Transaction) -> None:
        """In the pipeline's thread."""
        self._writer.write(transaction)
        self._metrics.wrote(sum(transaction.part.rows))
        if transaction.part.last:
            milestone, whole = transaction.plan.to.milestone, transaction.whole
            self._metrics.published(milestone, self._now_ms())
            self._log.info("published", token=str(milestone.token), after=whole.sequence if whole else 0)


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
    cluster, generation, metrics = settings.cluster, settings.generation, Metrics()
    start = account("publisher", job.name, generation, cluster, log, metrics.registry)
    headers = output_headers_of(job, settings)
    with start.step("waiting for the brokers"):
        await_brokers(cluster, settings.wait_ms / 1000, log)
    changelog = topics.changelog(job.name, generation)
    for topic in (topics.milestones(job.name), topics.published(job.name), changelog):
        partition_count(cluster, topic)
    found = partition_count(cluster, topics.output(job.name))
    if found != job.shards.partitions:
        raise UsageError(f"{topics.output(job.name)} has {found} partitions, the job {job.shards.partitions}")
    serve(metrics.registry, settings.host, settings.publisher_port, "CUTWATER_PUBLISHER_PORT")

    def source(ranges: Ranges) -> Source:
        if job.output.mode == "updates":
            return Changed(Updates(job, ranges, now_ms))
        folder = settings.data_dir / "finals" / job.name / str(generation)
        # A segment per window end: the windows that a milestone closes lie together.
        return Finals(job, Store(folder, job, generation, segment=job.window.slide_ms), ranges, now_ms)

    return Publisher(cluster, job, generation, source, metrics, log, headers=headers, account=start)


def main() -> int:
    """Entry point; returns the exit code."""
    return run_service("publisher", _build)

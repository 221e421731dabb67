"""The driver process: the composition root of the Spark side.

python -m cutwater_spark.driver JOBFILE
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from cutwater.adapters.eventschemas import known_schemas, unreadable
from cutwater.adapters.kafka import partition_count, wait_for_broker
from cutwater.adapters.process import listen, now_ms, run_service
from cutwater.adapters.registry import registry_for
from cutwater.adapters.settings import Settings
from cutwater.core import topics
from cutwater.core.cuts import Cut
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.formats import WriterSchema
from cutwater.core.job import Job
from cutwater.core.records import Start
from cutwater.core.rejection import Seen, skew_warning
from cutwater.core.startup import NONE, Standing, require_match
from cutwater_spark.announcer import Announcer
from cutwater_spark.barriers import BarrierLog, Past, newest_milestone
from cutwater_spark.changelog import Changelog
from cutwater_spark.checkpoint import Checkpoint
from cutwater_spark.epochs import EpochWriter
from cutwater_spark.lists import Lists
from cutwater_spark.query import INPUT_METRICS, aggregate, decode, read_events, seen_of
from cutwater_spark.session import open_session

STOP_AFTER_COMMIT_S = 10.0


class Driver:
    """One attempt of one generation: takes over, compares, runs the query until it is told to stop."""

    def __init__(self, job: Job, settings: Settings, log: Any) -> None:
        self._job = job
        self._settings = settings
        self._log = log
        self._generation = settings.generation
        self._stop = threading.Event()
        self._known: tuple[WriterSchema, ...] = ()
        self._query: StreamingQuery | None = None
        self._query_set = threading.Event()
        self._partitions = 0
        self._skewed = False

    def stop(self, *_signal: object) -> None:
        self._stop.set()

    def run(self) -> None:
        """Returns when stopped; raises CutwaterError when the generation or this driver cannot go on."""
        job, settings, cluster = self._job, self._settings, self._settings.cluster
        self._known = self._known_schemas()
        wait_for_broker(cluster, settings.wait_ms / 1000)
        self._partitions = partition_count(cluster, job.topic)
        for listed in (topics.dead_letters(job.name), topics.late(job.name)):
            partition_count(cluster, listed)
        topic = topics.changelog(job.name, self._generation)
        changelog = Changelog(cluster, topic, job.shards.partitions)
        if (found := partition_count(cluster, topic)) != changelog.partitions:
            raise UsageError(f"{topic} has {found} partitions, and the job file says {changelog.partitions}")
        location = settings.checkpoint or str(
            (settings.data_dir / "checkpoints" / job.name / str(self._generation)).resolve()
        )
        spark = open_session(job, settings, location)
        listen(self)  # Spark has put its own handler for Ctrl-C in place of ours
        checkpoint = Checkpoint(spark, location)
        checkpoint.pin(job.definition)
        barriers = BarrierLog(cluster, job.name, self._generation)
        # Before fencing: a driver with the wrong checkpoint must not end a healthy one.
        self._compare(barriers.read_past(), checkpoint, alone=False)
        past = barriers.open()
        attempt = past.attempt + 1
        standing = self._compare(past, checkpoint, alone=True)
        before = past.before(standing.next_epoch)
        baseline = before.changelog_cut if before else Cut()
        changelog.check_start(baseline, self._generation, standing.next_epoch, attempt)
        barriers.write(Start(job.name, self._generation, attempt, now_ms()))
        epochs = EpochWriter(
            job,
            self._generation,
            attempt,
            past,
            changelog,
            barriers,
            checkpoint,
            Lists(spark, job, cluster, self._known),
            self._look_at_input,
            now_ms,
        )
        announcer = Announcer(
            cluster,
            epochs,
            attempt,
            barriers,
            changelog,
            checkpoint,
            settings.heartbeat_ms,
            settings.hints,
            now_ms,
        )
        announcer.start()
        try:
            self._run_queries(spark, epochs, announcer, checkpoint)
        finally:
            announcer.stop()
            spark.stop()

    def _known_schemas(self) -> tuple[WriterSchema, ...]:
        """The schemas of the events, from job file or registry; those of later events count after a restart."""
        registry = registry_for(self._job, self._settings)
        try:
            known = known_schemas(self._job, registry)
        finally:
            if registry is not None:
                registry.close()
        self._log.info("events", format=self._job.format.kind, schemas=[one.name for one in known])
        for problem in unreadable(self._job, known):
            self._log.warning("events of a schema will be undecodable", problem=problem)
        return known

    def _compare(self, past: Past, checkpoint: Checkpoint, alone: bool) -> Standing:
        """Where checkpoint and stream stand; raises DivergenceError when they contradict each other."""
        job = self._job.name
        newest = past.newest
        milestone = newest_milestone(self._settings.cluster, job, self._generation)
        standing = Standing(
            planned=checkpoint.newest_planned(),
            committed=checkpoint.newest_committed(),
            barrier=newest.epoch if newest else NONE,
            milestone=milestone.epoch if milestone else NONE,
        )
        self._log.info("found", attempts=past.attempt, **vars(standing))
        has_plan = newest is not None and standing.planned >= newest.epoch
        planned = checkpoint.plan(newest.epoch).source_cut if newest and has_plan else None
        require_match(job, standing, planned, newest.source_cut if newest else None, alone)
        return standing

    def _run_queries(
        self, spark: SparkSession, epochs: EpochWriter, announcer: Announcer, checkpoint: Checkpoint
    ) -> None:
        """Run the query; again when Spark ended it by an error of its own after a commit (SPARK-55271)."""
        while not self._stop.is_set():
            committed = checkpoint.newest_committed()
            self._query = self._start(spark, epochs, checkpoint.location)
            self._query_set.set()
            try:
                self._watch(self._query, epochs, announcer, checkpoint)
            except StreamingQueryException as error:
                if epochs.failure is not None:
                    raise epochs.failure from error
                if checkpoint.newest_committed() <= committed:
                    raise
                self._log.warning("the query failed after a commit; starting it again", error=str(error)[:300])
            finally:
                self._query_set.clear()

    def _start(self, spark: SparkSession, epochs: EpochWriter, location: str) -> StreamingQuery:
        job = self._job
        raw = read_events(spark, job, self._settings.cluster)
        events = decode(raw, job, self._known, self._generation.region, self._partitions)
        return (
            aggregate(events, job)
            .writeStream.outputMode("update")
            .queryName(job.name)
            .option("checkpointLocation", location)
            .trigger(processingTime=f"{self._settings.trigger_ms} milliseconds")
            .foreachBatch(epochs)
            .start()
        )

    def _watch(
        self, query: StreamingQuery, epochs: EpochWriter, announcer: Announcer, checkpoint: Checkpoint
    ) -> None:
        while not query.awaitTermination(0.2):
            if announcer.failure is not None:
                query.stop()
                raise announcer.failure
            if self._stop.is_set():
                self._stop_after_commit(query, epochs, checkpoint)
                return

    def _stop_after_commit(self, query: StreamingQuery, epochs: EpochWriter, checkpoint: Checkpoint) -> None:
        """Stop between two epochs, so that the next start has nothing to replay."""
        with epochs.lock:
            deadline = time.monotonic() + STOP_AFTER_COMMIT_S
            # An earlier attempt's barrier is committed by the replay, which waits for this very lock.
            newest = epochs.newest_own
            while newest and not checkpoint.is_committed(newest.epoch) and time.monotonic() < deadline:
                time.sleep(0.02)
            epochs.stopping = True
        # Outside the lock: stopping waits for an epoch that waits for it.
        query.stop()

    def _look_at_input(self) -> Seen:
        """What was observed on the input of the epoch just run, from the executed plan's metrics."""
        if not self._query_set.wait(timeout=60):
            raise UnavailableError("the query's handle did not arrive within 60 s of its first epoch")
        query: Any = self._query
        metrics = query._jsq.streamingQuery().lastExecution().observedMetrics()
        found = metrics.get(INPUT_METRICS)
        if found.isEmpty():
            return Seen()  # an epoch without data executes no source
        # As text: a call to the JVM for each value would be many, in every epoch.
        seen = seen_of(json.loads(found.get().json()))
        self._watch_skew(seen.skew_ms)
        return seen

    def _watch_skew(self, skew_ms: int) -> None:
        """Say when partitions drift apart by more than the lateness, and when they have come together again."""
        warning = skew_warning(skew_ms, self._job.lateness_ms)
        if warning and not self._skewed:
            self._log.warning(warning, skew_ms=skew_ms)
        elif self._skewed and not warning:
            self._log.info("partitions are within the lateness again", skew_ms=skew_ms)
        self._skewed = warning is not None


def main() -> int:
    """Entry point; returns the exit code."""
    try:
        return run_service("driver", Driver)
    except (Py4JError, PySparkException) as error:
        print(
            f"cutwater driver: Spark ended with an error; a restart goes on from the checkpoint: {error}",
            file=sys.stderr,
        )
        return UnavailableError.exit_code


if __name__ == "__main__":
    sys.exit(main())

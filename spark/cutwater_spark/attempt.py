"""One attempt of one generation, whoever wrote the query: takes over, compares, runs until it is told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.framing import state_header_of
from cutwater.adapters.http.metrics_server import DriverMetrics, serve
from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics.candidates import candidates, newest_in_either
from cutwater.core.driver.attempt_start import TakeOver
from cutwater.core.driver.tombstone_gc import Collector
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.events.rejection import Seen
from cutwater.core.generations.start_state import FIRST, Origin, claimed
from cutwater.core.job.job import Job
from cutwater.core.job.pinned_decoding import Decoding
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Signal
from cutwater.core.protocol.recovery_log import Account, unrecorded
from cutwater.operations.regions.rejoin import Returning
from cutwater.operations.service_main import now_ms
from cutwater_spark import jvm
from cutwater_spark.checkpoint import Checkpoint
from cutwater_spark.epoch.barriers import BarrierLog
from cutwater_spark.epoch.candidate_throttle import CatchingUp
from cutwater_spark.epoch.changelog_sink import Changelog
from cutwater_spark.epoch.commit_hints import Announcer
from cutwater_spark.epoch.decoding_choice import Decodings
from cutwater_spark.epoch.time_jumps import Rejudged
from cutwater_spark.epoch.tombstones import Tombstones
from cutwater_spark.epoch.writer import EpochWriter
from cutwater_spark.seed.parent import parent_milestone
from cutwater_spark.seed.prepare import Seeds

STOP_AFTER_COMMIT_S = 10.0
JVM_EVERY_S = 5.0
"""Asking the JVM takes some ten milliseconds, and an epoch may take 300."""

StartQuery = Callable[[EpochWriter, Decoding | None], StreamingQuery]
"""Starts the query with an epoch writer as its `foreachBatch`, on the attempt's checkpoint.

It decodes events as it is told; None where that is not Cutwater's business.
"""
LookAtExecution = Callable[[Any], Seen]
"""What an epoch read, from the JVM's object of its execution."""


def location_of(job: Job, settings: Settings) -> str:
    """Where the checkpoint lies: each generation has its own."""
    generation = settings.generation
    if not settings.checkpoint:
        return str((settings.data_dir / "checkpoints" / job.name / str(generation)).resolve())
    named = settings.checkpoint.rstrip("/")
    return f"{named}-{generation}" if claimed(generation) else named


class Attempt:
    """`take_over`, then `run`. `stop` ends the run after a commit. `query` is the query that runs now."""

    def __init__(
        self,
        spark: SparkSession,
        job: Job,
        settings: Settings,
        log: Any,
        stop: threading.Event,
        decoding: Decoding | None,
        look: LookAtExecution,
        account: Account | None = None,
        returning: Returning | None = None,
    ) -> None:
        """`returning`: asks the other region once more, where one was asked before."""
        self._job = job
        self._settings = settings
        self._log = log
        self._generation = settings.generation
        self._stop = stop
        self._decoding = decoding
        self._look = look
        self._account = account or unrecorded()
        self._returning = returning
        self.location = location_of(job, settings)
        self._spark = spark
        self.checkpoint = self._checkpoint = Checkpoint(spark, self.location)
        self.origin = FIRST
        """What the generation has taken over from its parent milestone."""
        self.seed: str | None = None
        """The folder of the state that it has taken over; None for a job's first generation."""
        self.query: StreamingQuery | None = None
        self.decodings: Decodings | None = None
        self.begun: int | None = None
        """The epoch of which something was written when the query started, and which was not finished."""
        self._query_set = threading.Event()
        self._number = 0
        self._metrics = DriverMetrics()
        self._jvm_asked_s = -JVM_EVERY_S

    def take_over(self) -> None:
        """Fence older drivers and say so; raises CutwaterError before anything is written when this may not be.

        Stopped where it was told to stop while it fetches a snapshot: the next attempt goes on with the files.
        """
        with self._account as start:
            self._take_over(start)

    def _take_over(self, start: Account) -> None:
        cluster, job = self._settings.cluster, self._job
        with start.step("asking who is at work"):
            parent = parent_milestone(job, self._settings)
        topic = topics.changelog(job.name, self._generation)
        self._changelog = Changelog(cluster, topic, job.shards.partitions)
        if (found := partition_count(cluster, topic)) != self._changelog.partitions:
            raise UsageError(f"{topic} has {found} partitions, and the job file says {self._changelog.partitions}")
        with start.step("comparing the job file with the checkpoint"):
            self._checkpoint.pin(job.definition)
        # Before fencing: without the registry there would be nothing to write.
        self._state_header = state_header_of(job, self._settings)
        self._barriers = BarrierLog(cluster, job.name, self._generation, told=self._told)
        taking_over = TakeOver(
            job.name,
            self._generation,
            self._checkpoint,
            self._barriers,
            self._changelog,
            lambda: newest_in_either(cluster, job.name, self._generation),
            lambda past, standing: self._log.info("found", attempts=past.attempt, **vars(standing)),
            reach,
            start,
        )
        self._number, self._past = taking_over.run(now_ms)
        with start.step("asking again, behind the fencing"):
            parent_milestone(job, self._settings)  # who released or promoted meanwhile had fenced the one before
        if self._past.newest is not None:
            self._metrics.stands_at(self._past.newest)
        if parent is not None:
            with start.step("taking over the parent's state"):
                about = (self._settings, self._number, now_ms, self._log, self._stop.is_set)
                seed = Seeds(self._spark, job, *about).of(parent, self._checkpoint)
            self.origin, self.seed = Origin.of(parent).raised(seed.floor_ms), seed.folder
        if self._returning is not None:
            # The last thing: starting Spark and reading a state take minutes, and a failover fits in there.
            with start.step("asking the other region again"):
                self._returning.again(self._generation, self._log)

    def run(self, start: StartQuery) -> None:
        """Returns when stopped; raises CutwaterError when the generation or this driver cannot go on."""
        if not self._number:
            raise UsageError("take_over comes before run")
        clearing = Collector(
            self._changelog,
            self._changelog.partitions,
            Tombstones(self._settings.cluster, self._changelog.topic).write,
            self._settings.collect_share,
            self._past.before(self._checkpoint.newest_committed() + 1),
        )
        epochs = EpochWriter(
            self._job,
            self._generation,
            self._number,
            self._state_header,
            self._past,
            self._changelog,
            clearing,
            self._barriers,
            self._checkpoint,
            self._look_at_epoch,
            now_ms,
            self.origin,
            self._pace(),
        )
        announcer = Announcer(
            self._settings.cluster,
            epochs,
            self._number,
            self._barriers,
            self._changelog,
            self._checkpoint,
            self._settings.heartbeat_ms,
            self._settings.hints,
            now_ms,
        )
        unserve = serve(self._metrics.registry, self._settings, "CUTWATER_DRIVER_PORT", self._log)
        announcer.start()
        try:
            self._run_queries(start, epochs, announcer)
        finally:
            announcer.stop()
            unserve()

    def _told(self, signal: Signal) -> None:
        """A signal stands on the barriers topic: the moment at which metrics are brought up to date."""
        self._metrics.told(signal)
        now_s = time.monotonic()
        if not self._settings.driver_port or now_s < self._jvm_asked_s + JVM_EVERY_S:
            return
        self._jvm_asked_s = now_s
        with suppress(Py4JError, OSError):  # a JVM that is about to end; nothing depends on it
            self._metrics.jvm(jvm.figures(self._spark))

    def _pace(self) -> CatchingUp:
        settings = self._settings
        share = settings.catch_up_share if claimed(self._generation) else 1.0

        def wanted() -> bool:
            candidate = candidates(settings.cluster, self._job.name).by_id.get(self._generation)
            return candidate is None or candidate.promoting

        return CatchingUp(share, wanted, self._stop, self._metrics.rests)

    def _run_queries(self, start: StartQuery, epochs: EpochWriter, announcer: Announcer) -> None:
        """Run the query; again when it has finished an epoch of another decoding.

        And when Spark ended it by an error of its own after a commit (SPARK-55271).
        """
        while not self._stop.is_set():
            committed = self._checkpoint.newest_committed()
            decoding, last = self._choose(epochs)
            self.query = start(epochs, decoding)
            self._query_set.set()
            try:
                if self._watch(self.query, epochs, announcer, last):
                    return  # stopped: by us, or by whoever owns the session
            except StreamingQueryException as error:
                if isinstance(epochs.failure, Rejudged):
                    epochs.go_on()
                    continue
                if epochs.failure is not None:
                    raise epochs.failure from error
                if self._checkpoint.newest_committed() <= committed:
                    raise
                self._metrics.restarted()
                self._log.warning("the query failed after a commit; starting it again", error=str(error)[:300])
            finally:
                self._query_set.clear()

    def _choose(self, epochs: EpochWriter) -> tuple[Decoding | None, int | None]:
        if self._decoding is None:
            return None, None
        if self.decodings is None:
            holds = self._job.max_jump_ms is not None
            self.decodings = Decodings(self._checkpoint, self._number, self._decoding, self._log, holds)
        self.begun = epochs.steps.begun()
        return self.decodings.choose(self.begun)

    def _watch(self, query: StreamingQuery, epochs: EpochWriter, announcer: Announcer, last: int | None) -> bool:
        """Is that all? False once the query has been stopped behind its `last` epoch."""
        while not query.awaitTermination(0.2):
            if announcer.failure is not None:
                query.stop()
                raise announcer.failure
            if self._stop.is_set():
                self._stop_after_commit(query, epochs)
                break
            if last is not None and self._checkpoint.is_committed(last):
                self._stop_after_commit(query, epochs)
                epochs.go_on()
                return False
        return True

    def _stop_after_commit(self, query: StreamingQuery, epochs: EpochWriter) -> None:
        """Stop between two epochs, so that the next start has nothing to replay."""
        with epochs.lock:
            deadline = time.monotonic() + STOP_AFTER_COMMIT_S
            # An earlier attempt's barrier is committed by the replay, which waits for this very lock.
            newest = epochs.newest_own
            while newest and not self._checkpoint.is_committed(newest.epoch) and time.monotonic() < deadline:
                time.sleep(0.02)
            epochs.stopping = True
        # Outside the lock: stopping waits for an epoch that waits for it.
        query.stop()

    def _look_at_epoch(self) -> Seen:
        if not self._query_set.wait(timeout=60):
            raise UnavailableError("the query's handle did not arrive within 60 s of its first epoch")
        query: Any = self.query
        seen = self._look(query._jsq.streamingQuery().lastExecution())
        self._metrics.saw(seen)
        return seen

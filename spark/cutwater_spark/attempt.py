"""One attempt of one generation, for a job file's query or an attached one: take over, compare, run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.value_headers import state_header_of
from cutwater.adapters.http.metrics_server import DriverMetrics, serve
from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics.candidates import newest_in_either
from cutwater.adapters.topics.recovery_log import account
from cutwater.core.driver.attempt_start import TakeOver
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.driver.ports import LeadersChangedError, NewQueryError
from cutwater.core.driver.tombstone_gc import Collector
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.generations.start_state import FIRST, is_claimed
from cutwater.core.job.event_decoding import Decoding
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.recovery_log import StartRecord, unrecorded
from cutwater.operations.regions.rejoin import RejoinCheck
from cutwater.views.changelog.range_reader import Stopped
from cutwater_spark.checkpoint import Checkpoint
from cutwater_spark.epoch.barriers import BarrierLog
from cutwater_spark.epoch.changelog_sink import Changelog
from cutwater_spark.epoch.cleanings import Cleanings, cleanings_of, first_floor
from cutwater_spark.epoch.commit_hints import HintWriter
from cutwater_spark.epoch.decoding_choice import Decodings
from cutwater_spark.epoch.pauses import CandidateTopic, EpochPauses, EpochRead, PausedBy
from cutwater_spark.epoch.telemetry import Telemetry
from cutwater_spark.epoch.tombstones import Tombstones
from cutwater_spark.epoch.writer import EpochWriter
from cutwater_spark.seed.parent import parent_milestone, start_state
from cutwater_spark.seed.prepare import SeedPreparation

STOP_AFTER_COMMIT_S = 10.0

StartQuery = Callable[[EpochWriter, Decoding | None], StreamingQuery]
"""Starts the query on the attempt's checkpoint, with the epoch writer as its `foreachBatch`.

The decoding is None for an attached query.
"""
ObserveExecution = Callable[[Any], InputStats]
"""What an epoch read, from the JVM's object of its execution."""


def location_of(job: Job, settings: Settings) -> str:
    generation = settings.generation
    if not settings.checkpoint:
        return str((settings.data_dir / "checkpoints" / job.name / str(generation)).resolve())
    named = settings.checkpoint.rstrip("/")
    return f"{named}-{generation}" if is_claimed(generation) else named


class Attempt:
    """One attempt: call `take_over`, then `run`. `stop` ends it after a commit. `query`: the current query."""

    def __init__(
        self,
        spark: SparkSession,
        job: Job,
        settings: Settings,
        log: Any,
        stop: threading.Event,
        decoding: Decoding | None,
        look: ObserveExecution,
        account: StartRecord | None = None,
        returning: RejoinCheck | None = None,
    ) -> None:
        """`returning`: asks the other region again, if the driver asked it before."""
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
        """The start state, taken over from the parent milestone."""
        self.seed: str | None = None
        """The folder of the seed; None for a job's first generation."""
        self.query: StreamingQuery | None = None
        self.decodings: Decodings | None = None
        self._cleanings: Cleanings | None = None
        self.seen = InputStats()
        """What the newest epoch read."""
        self.unfinished_epoch: int | None = None
        """The epoch that was partly written when the query started."""
        self._query_set = threading.Event()
        self._number = 0
        self.metrics = DriverMetrics()
        self._telemetry = Telemetry(spark, settings, self.metrics.spark, log)
        self._epochs: EpochWriter | None = None
        self._candidates = CandidateTopic(settings.cluster, job.name, log)
        self.pauses = self._make_pauses()

    @property
    def number(self) -> int:
        """The number of this attempt; 0 before `take_over`."""
        return self._number

    def take_over(self) -> None:
        """Fence older drivers and write a Start. Raise CutwaterError, before any write, if that is not allowed.

        Raise Stopped if stopped while it waits for its window or fetches a snapshot; the next attempt continues
        with its files.
        """
        with self._account as start:
            with start.step("waiting for its window"):
                if not self.pauses.await_window():
                    raise Stopped
            self._take_over(start)

    def _take_over(self, start: StartRecord) -> None:
        cluster, job = self._settings.cluster, self._job
        with start.step("checking the generation"):
            parent = parent_milestone(job, self._settings)
        topic = topics.changelog(job.name, self._generation)
        self._changelog = Changelog(cluster, topic, job.shards.partitions)
        if (found := partition_count(cluster, topic)) != self._changelog.partitions:
            raise UsageError(f"{topic} has {found} partitions, but the job file says {self._changelog.partitions}")
        with start.step("comparing the job file with the checkpoint"):
            self._checkpoint.pin(job.definition)
        # Before fencing: without the registry no row could be written.
        self._state_header = state_header_of(job, self._settings)
        self._barriers = BarrierLog(cluster, job.name, self._generation, told=self.metrics.count_signal)
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
        with start.step("checking the generation again, after fencing"):
            # A release or promotion since the first check has fenced the previous driver.
            parent_milestone(job, self._settings)
        if self._past.newest is not None:
            self.metrics.set_newest(self._past.newest)
        if parent is not None:
            self._changelog.parent = parent
            with start.step("taking over the parent's state"):
                about = (self._settings, self._number, now_ms, self._log, self._stop.is_set, self._decoding)
                seed = SeedPreparation(self._spark, job, *about).prepare(parent, self._checkpoint)
            self.origin = start_state(cluster, job, self._generation, parent, seed.floor_ms)
            self.seed = seed.folder
        if self._returning is not None:
            # Last: starting Spark and reading a state take minutes, long enough for a failover.
            with start.step("asking the other region again"):
                self._returning.check_again(self._generation, self._log)

    def run(self, start: StartQuery) -> None:
        """Run until stopped. Raise CutwaterError if the generation or this driver cannot continue."""
        if not self._number:
            raise UsageError("call take_over before run")
        if self._job.amend_for_ms is not None:
            rest_s = self._settings.cleaning_rest_ms / 1000
            self._cleanings = cleanings_of(
                self._job, self.origin, self._past.newest, rest_s, self._record_cleaning
            )
        clearing = Collector(
            self._changelog,
            self._changelog.partitions,
            Tombstones(self._settings.cluster, self._changelog.topic).write,
            self._settings.collect_share,
            self._past.newest_before(self._checkpoint.newest_committed() + 1),
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
            self._observe_epoch,
            now_ms,
            self.origin,
            self.pauses,
        )
        self._epochs = epochs
        epochs.report = self._telemetry.written
        announcer = HintWriter(
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
        unserve = serve(self.metrics.registry, self._settings, "CUTWATER_DRIVER_PORT", self._log)
        announcer.start()
        try:
            self._run_queries(start, epochs, announcer)
        finally:
            announcer.stop()
            unserve()
            self._candidates.close()
            self._telemetry.close()

    def _record_cleaning(self, what: str, seconds: float) -> None:
        self.metrics.count_cleaning(seconds)
        self._log.info("cleaned", what=what, seconds=round(seconds, 1))
        record = account("driver", self._job.name, self._generation, self._settings.cluster, self._log)
        record.record_decision(f"cleaning: {what}", self._number)
        record.record_step("two starts of the query, and the eviction", seconds)
        record.running()

    def _make_pauses(self) -> EpochPauses:
        settings, job, generation = self._settings, self._job, self._generation
        claimed = is_claimed(generation)
        return EpochPauses(
            generation,
            settings.catch_up_share if claimed else 1.0,
            job.objectives,
            self._candidates,
            self._newest_read,
            self._stop,
            PausedBy(self.metrics.count_pause, self.metrics.count_yield),
            now_ms,
            self._log,
            claimed,
        )

    def _newest_read(self) -> EpochRead:
        barrier = self._epochs.newest_own if self._epochs else None
        return EpochRead(self.seen.events, barrier.source_cut if barrier else None)

    def _run_queries(self, start: StartQuery, epochs: EpochWriter, announcer: HintWriter) -> None:
        """Run the query; start it again after another decoding's epoch, or if the source has new leaders."""
        while not self._stop.is_set():
            decoding, last = self._choose(epochs)
            self.query = start(epochs, decoding)
            self._query_set.set()
            try:
                if self._watch(self.query, epochs, announcer, last, decoding):
                    return  # stopped by this driver or by the session's owner
            except StreamingQueryException as error:
                if isinstance(epochs.failure, NewQueryError):
                    self._accept_next_query(epochs)
                    continue
                if epochs.failure is not None:
                    raise epochs.failure from error
                raise
            finally:
                self._query_set.clear()

    def _accept_next_query(self, epochs: EpochWriter) -> None:
        if isinstance(epochs.failure, LeadersChangedError):
            self.metrics.count_restart()
            self._log.warning("the source has new leaders; starting the query again", changed=str(epochs.failure))
        epochs.accept_next_query()

    def _choose(self, epochs: EpochWriter) -> tuple[Decoding | None, int | None]:
        if self._decoding is None:
            return None, None
        if self.decodings is None:
            amends = self._job.amend_for_ms is not None
            self.decodings = Decodings(
                self._checkpoint,
                self._number,
                self._decoding,
                self._log,
                self._job.max_jump_ms is not None,
                (lambda: first_floor(self.origin, epochs.steps.newest)) if amends else None,
            )
        self.unfinished_epoch = epochs.steps.unfinished()
        return self.decodings.choose(self.unfinished_epoch)

    def _cleaning_ended(self, epochs: EpochWriter, decoding: Decoding) -> bool:
        """Return whether Spark has evicted the windows up to the floor, and committed that."""
        plan, newest = epochs.steps.newest_plan, epochs.newest_own
        evicted = plan is not None and decoding.floor_ms is not None and plan.watermark_ms >= decoding.floor_ms
        return evicted and newest is not None and self._checkpoint.is_committed(newest.epoch)

    def _next_closing(self, epochs: EpochWriter, decoding: Decoding) -> Callable[[], None] | None:
        """Return what to store once the query has stopped, for another one; None if the query goes on."""
        decodings, floor_ms = self.decodings, decoding.floor_ms
        if self._cleanings is None or decodings is None or floor_ms is None:
            return None
        cleanings = self._cleanings
        if decoding.cleans:
            if not self._cleaning_ended(epochs, decoding):
                return None
            cleanings.end(floor_ms)
            return decodings.end_cleaning
        raised, plan = (
            cleanings.due(epochs.newest_own, self.seen.oldest_ms, self.seen.full),
            epochs.steps.newest_plan,
        )
        if raised is None or raised <= floor_ms:
            return None
        # Spark's own watermark is older than the floors, if it closed the windows before, and never goes back: a
        # cleaning evicts up to it, so a floor below it would let events into windows that are evicted.
        if plan is None or raised < plan.watermark_ms:
            return None
        cleanings.begin()
        return lambda: decodings.raise_floor(raised)

    def _watch(
        self,
        query: StreamingQuery,
        epochs: EpochWriter,
        announcer: HintWriter,
        last: int | None,
        decoding: Decoding | None,
    ) -> bool:
        """Wait until the query ends and return True; return False if it was stopped for another one: after its
        `last` epoch, or where a cleaning begins or ends."""
        while not query.awaitTermination(0.2):
            if announcer.failure is not None:
                query.stop()
                raise announcer.failure
            self._telemetry.look(query)
            if self._stop.is_set():
                self._stop_after_commit(query, epochs)
                break
            finished = last is not None and self._checkpoint.is_committed(last)
            closing = self._next_closing(epochs, decoding) if decoding is not None and not finished else None
            if finished or closing is not None:
                committed = self._stop_after_commit(query, epochs)
                # An epoch that is not committed runs again, and must have the same floor then.
                if closing is not None and committed:
                    closing()
                epochs.accept_next_query()
                return False
        return True

    def _stop_after_commit(self, query: StreamingQuery, epochs: EpochWriter) -> bool:
        """Stop between two epochs, so that the next start replays nothing. Return whether the newest epoch is
        committed: Spark's commit may take too long, or fail."""
        with epochs.lock:
            deadline = time.monotonic() + STOP_AFTER_COMMIT_S
            # Not for an earlier attempt's barrier: its replay commits it, and that waits for this lock.
            newest = epochs.newest_own
            while newest and not self._checkpoint.is_committed(newest.epoch) and time.monotonic() < deadline:
                time.sleep(0.02)
            epochs.stopping = True
        # Outside the lock: stop() waits for the epoch, which waits for the lock.
        query.stop()
        return newest is None or self._checkpoint.is_committed(newest.epoch)

    def _observe_epoch(self) -> InputStats:
        if not self._query_set.wait(timeout=60):
            raise UnavailableError("the query's handle did not arrive within 60 s of its first epoch")
        query: Any = self.query
        seen = self.seen = self._look(query._jsq.streamingQuery().lastExecution())
        self.metrics.keep_input(seen)
        return seen

"""The driver process: the composition root of the Spark side.

python -m cutwater_spark.driver JOBFILE
"""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.event_encoder import defaulted, known_schemas, unreadable
from cutwater.adapters.events.registry import registry_for
from cutwater.adapters.http.metrics_server import DriverMetrics, serve
from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.startup_wait import await_brokers
from cutwater.adapters.kafka.undatable_records import undatable
from cutwater.adapters.runtime.ready_file import mark_ready, ready_file
from cutwater.adapters.topics.provable_milestones import advise_on_loss
from cutwater.adapters.topics.recovery_log import account, record_decision
from cutwater.core.cadence.decisions import Decision
from cutwater.core.cadence.epoch_cadence import EpochBounds, EpochCadence
from cutwater.core.cadence.epoch_setting import POLL_S, Setting
from cutwater.core.driver.admission import Admission
from cutwater.core.driver.input_stats import InputStats, skew_warning
from cutwater.core.driver.lateness import ByFloor, ByWatermark
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.events.formats import WriterSchema
from cutwater.core.generations.candidates import Candidate
from cutwater.core.generations.source_topics import Sources, only
from cutwater.core.job.event_decoding import Decoding
from cutwater.core.job.job import Job, Objectives
from cutwater.core.protocol import topics
from cutwater.core.protocol.recovery_log import StartRecord
from cutwater.operations.generations.start_check import partitions_of
from cutwater.operations.regions.rejoin import RejoinCheck, rejoin_check
from cutwater.operations.service_main import listen, run_service
from cutwater.views.changelog.range_reader import Stopped
from cutwater_spark.application.driver_session import driver_session
from cutwater_spark.attempt import Attempt, location_of
from cutwater_spark.authentication import warn_if_open
from cutwater_spark.canary.source_alignment import Reading, SourceAlignment, canary_of
from cutwater_spark.epoch.rejected_events import RejectedEventLists
from cutwater_spark.epoch.source_cadence import SourceCadence
from cutwater_spark.epoch.source_limit import SourceLimit
from cutwater_spark.epoch.time_jumps import JumpCheck
from cutwater_spark.epoch.writer import EpochTimes, EpochWriter
from cutwater_spark.query.query import INPUT_METRICS, aggregate, decode, read_events, seen_of, starting_offsets
from cutwater_spark.seed.from_changelog import read_seed
from cutwater_spark.seed.parent import parent_milestone
from cutwater_spark.session import quiet
from cutwater_spark.tools.failures import explain_failures, root_cause
from cutwater_spark.warm_up import WarmUp

TRIGGER_LOGGER = "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor"


class Driver:
    """One attempt of one generation that runs the query of a job file."""

    def __init__(self, job: Job, settings: Settings, log: Any) -> None:
        self._job = job
        self._settings = settings
        self._log = log
        self._stop = threading.Event()
        self._sources = only(job.topic, settings.generation.region)
        self._skewed = False
        self._admission = Admission(job.max_events_per_epoch, job.max_bytes_per_epoch)
        self._cadence: EpochCadence | None = None
        """Set if the job has objectives: it decides in place of the admission."""
        self._alignment: SourceAlignment | None = None
        """Set for a canary."""
        self._began_s = time.monotonic()

    def stop(self, *_signal: object) -> None:
        self._stop.set()

    def run(self) -> None:
        """Run until stopped. Raise CutwaterError if the generation or this driver cannot continue."""
        job, settings, cluster = self._job, self._settings, self._settings.cluster
        if job.attached:
            raise UsageError(
                f"job {job.name} is attached to a query of your own. Run your program, which calls "
                "cutwater_spark.attach (docs/ATTACH.md)"
            )
        start = account("driver", job.name, settings.generation, cluster, self._log)
        decoding = Decoding.of(job, self._known_schemas())
        with start.step("waiting for the brokers"):
            await_brokers(cluster, settings.wait_ms / 1000, self._log)
        for needed in (job.topic, topics.dead_letters(job.name), topics.late(job.name)):
            partition_count(cluster, needed)
        asking = rejoin_check(job, settings)
        if asking is not None and not self._await_region(start, asking):
            return
        opening = driver_session(job, settings, location_of(job, settings), self._log)
        with ExitStack() as ends:
            with start.step("starting Spark"):
                spark = ends.enter_context(opening)
            self._run(spark, start, decoding, asking)

    def _run(
        self, spark: SparkSession, start: StartRecord, decoding: Decoding, asking: RejoinCheck | None
    ) -> None:
        job, settings, cluster = self._job, self._settings, self._settings.cluster
        warn_if_open(spark, self._log)
        listen(self)  # Spark has replaced the handler for Ctrl-C
        attempt = Attempt(
            spark, job, settings, self._log, self._stop, decoding, self._observe_input, start, asking
        )
        try:
            with (
                WarmUp(spark, job, decoding.known, self._log),
                advise_on_loss(cluster, job.name),
                explain_failures(
                    job.topic, attempt.location, lambda: undatable(cluster, self._sources.partitions)
                ),
            ):
                attempt.take_over()
                canary = canary_of(cluster, job.name, settings.generation)
                attempt.run(lambda epochs, given: self._start(spark, epochs, given or decoding, attempt, canary))
        except Stopped:
            self._log.info("stopped before its first epoch; the next start continues")
        finally:
            if self._alignment is not None:
                self._alignment.close()

    def _await_region(self, start: StartRecord, asking: RejoinCheck) -> bool:
        """Wait for the other region's answer; return False if stopped meanwhile.

        Raise FencedError if that region has taken over the job. Spark is not started yet: the wait may be long.
        """
        settings, metrics = self._settings, DriverMetrics()

        def waiting(now: bool) -> None:
            metrics.waiting_for_region(now)
            if now:  # not earlier: the previous driver may still have the port
                serving.callback(serve(metrics.registry, settings, "CUTWATER_DRIVER_PORT", self._log))

        try:
            with ExitStack() as serving, start.step("asking the other region"):
                parent_milestone(self._job, settings)  # raises before the wait if the generation has ended
                return asking.await_answer(settings.generation, self._stop, self._log, waiting)
        except CutwaterError as error:
            start.stopped(error)
            raise

    def _known_schemas(self) -> tuple[WriterSchema, ...]:
        """Return the event schemas of job file or registry. A schema that is added later needs a restart."""
        registry = registry_for(self._job, self._settings)
        try:
            known = known_schemas(self._job, registry)
        finally:
            if registry is not None:
                registry.close()
        self._log.info("events", format=self._job.format.kind, schemas=[one.name for one in known])
        for problem in unreadable(self._job, known):
            self._log.warning("events of a schema are undecodable", problem=problem)
        for line in defaulted(self._job, known):
            self._log.warning("enum symbols of a schema are read as the default", symbols=line)
        return known

    def _start(
        self,
        spark: SparkSession,
        epochs: EpochWriter,
        decoding: Decoding,
        attempt: Attempt,
        canary: Candidate | None,
    ) -> StreamingQuery:
        job, cluster = decoding.applied(self._job), self._settings.cluster
        region, counts = self._settings.generation.region, partitions_of(cluster, job, attempt.origin.source_cut)
        sources = self._sources = Sources(job.topic, region, counts)
        amends = decoding.floor_ms is not None
        floor_ms = attempt.origin.floor_ms if decoding.floor_ms is None else decoding.floor_ms
        epochs.steps.closing = (
            ByFloor(attempt.origin, floor_ms, job.lateness_ms) if amends else ByWatermark(attempt.origin)
        )
        count = attempt.metrics.keep_reasons
        epochs.steps.lists = RejectedEventLists(spark, job, cluster, decoding.known, sources, count)
        if job.max_jump_ms is not None and attempt.decodings is not None:
            epochs.jumps = JumpCheck(
                RejectedEventLists(spark, replace(job, held_ms=None), cluster, decoding.known, sources),
                attempt.checkpoint,
                attempt.origin,
                job.max_jump_ms,
                job.lateness_ms,
                decoding.held_ms,
                attempt.unfinished_epoch,
                attempt.decodings.hold,
                self._log,
                epochs.steps.newest_event_before,
            )
        # A canary's first epoch is as small as can be: only the next one can end at a cut.
        first, trigger_ms = self._limited(spark, epochs, attempt, 1 if canary else 0)
        if canary is not None:
            self._align(spark, epochs, attempt, canary)
        starting = starting_offsets(sources, attempt.origin)
        raw = read_events(spark, job, cluster, sources, starting, *first, self._settings.source_tasks)
        events = decode(raw, job, decoding.known, sources)
        seed = read_seed(spark, attempt.seed) if attempt.seed else None
        query = (
            aggregate(events, job, seed, floor_ms, decoding.cleans if amends else None)
            .writeStream.outputMode("update")
            .queryName(job.name)
            .option("checkpointLocation", attempt.location)
            .trigger(processingTime=f"{trigger_ms} milliseconds")
            .foreachBatch(epochs)
            .start()
        )
        # Not earlier: a schema that Spark cannot resolve fails in the lines above.
        mark_ready(ready_file(self._settings.data_dir, self._job.name, self._settings.generation))
        return query

    def _align(self, spark: SparkSession, epochs: EpochWriter, attempt: Attempt, canary: Candidate) -> None:
        """End the epochs where the promoted generation has ended its own."""

        before = epochs.steps.newest_plan

        def reading() -> Reading | None:
            query, plan = attempt.query, epochs.steps.newest_plan
            return None if query is None or plan is None or plan is before else Reading(query, plan.source_cut)

        cluster, job = self._settings.cluster, self._job.name
        if self._alignment is None:
            self._alignment = SourceAlignment(spark, cluster, job, canary, self._log)
        self._alignment.begin(reading)
        alignment, took = self._alignment, epochs.took

        def both(times: EpochTimes) -> None:
            if took is not None:
                took(times)
            alignment.epoch_took()

        epochs.took = both

    def _limited(
        self, spark: SparkSession, epochs: EpochWriter, attempt: Attempt, first: int
    ) -> tuple[Setting, int]:
        """Return the setting that the query starts with, which each epoch may change, and its trigger in ms.

        `first`: the most events of the first epoch; 0 for as many as of any.
        """
        job, trigger_ms = self._job, self._settings.trigger_ms
        if job.objectives == Objectives():
            limit = SourceLimit(spark, self._admission, self._log, attempt.pauses.events_max)
            epochs.took = lambda times: limit.epoch_took(attempt.query, attempt.seen, times.seconds)
            return Setting(limit.begin(first), 0), trigger_ms
        if self._cadence is None:
            bytes_max, start_s = job.max_bytes_per_epoch, time.monotonic() - self._began_s
            bounds = EpochBounds(job.max_events_per_epoch, bytes_max, trigger_ms, start_s)
            self._cadence = EpochCadence(job.objectives, bounds)
            self._record_decision(self._cadence.begin(), attempt)
        sets_interval = job.objectives.readable_p99_ms is not None
        if sets_interval:
            # The source's limit keeps the interval. Spark would log that each epoch takes longer than the trigger.
            trigger_ms = min(trigger_ms, round(1_000 * POLL_S))
            quiet(spark, TRIGGER_LOGGER)
        cadence = SourceCadence(
            spark,
            self._cadence,
            self._log,
            lambda one: self._record_decision(one, attempt),
            attempt.pauses.events_max,
            sets_interval,
        )
        epochs.took = lambda times: cadence.epoch_took(
            attempt.query, attempt.seen, epochs.steps.newest_plan, times
        )
        return cadence.begin(first), trigger_ms

    def _record_decision(self, decision: Decision, attempt: Attempt) -> None:
        attempt.metrics.set_cadence(**decision.sets)
        about = (self._job.name, self._settings.generation, self._settings.cluster, self._log)
        record_decision(*about, decision, attempt.number)

    def _observe_input(self, execution: Any) -> InputStats:
        found = execution.observedMetrics().get(INPUT_METRICS)
        if found.isEmpty():
            return InputStats()  # an epoch without data executes no source
        # One text: each value by itself would be a call to the JVM, in every epoch.
        seen = seen_of(json.loads(found.get().json()), self._sources)
        self._watch_skew(seen.skew_ms)
        return replace(seen, full=(self._cadence or self._admission).is_full(seen.events))

    def _watch_skew(self, skew_ms: int) -> None:
        warning = skew_warning(skew_ms, self._job.lateness_ms)
        if warning and not self._skewed:
            self._log.warning(warning, skew_ms=skew_ms)
        elif self._skewed and not warning:
            self._log.info("partitions are within the lateness again", skew_ms=skew_ms)
        self._skewed = warning is not None


def main() -> int:
    try:
        return run_service("driver", Driver, foreseen=(Py4JError, PySparkException))
    except (Py4JError, PySparkException) as error:
        print(
            # Last, so that it is at the end of the log: Spark's own text may be long.
            f"{error}\ncutwater driver: Spark ended with an error; a restart continues from the checkpoint: "
            f"{root_cause(str(error))}",
            file=sys.stderr,
        )
        return UnavailableError.exit_code


if __name__ == "__main__":
    sys.exit(main())

"""A streaming aggregation of your own with Cutwater's changelog, proof of rows, barriers and milestones.

    query = attach(frame, "orders.yaml")
    query.awaitTermination()

If the job file has `merges`, generations can start from a milestone. Then a function builds the query, and reads
from the generation's start on:

    def revenue(start: Start) -> DataFrame:
        events = spark.readStream.format("kafka").options(**start.kafka("orders")).load()
        ...

    query = attach(revenue, "orders.yaml")

The tutorial is docs/ATTACH.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from cutwater.adapters.config.settings import Settings, load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.startup_wait import await_brokers
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.log_setup import configure
from cutwater.adapters.topics.alerts import alert_on_error
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.adapters.topics.provable_milestones import advise_on_loss
from cutwater.adapters.topics.recovery_log import account
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.errors import UsageError
from cutwater.core.job.column_merges import moves
from cutwater.core.job.job import Attached, Job
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.operations.regions.rejoin import rejoin_check
from cutwater_spark.attach.copied_events import copied_events
from cutwater_spark.attach.job_description import describe
from cutwater_spark.attach.movable_plan import require_movable
from cutwater_spark.attach.seeded_rows import SeededRows
from cutwater_spark.attach.start import Start, require_start
from cutwater_spark.attempt import Attempt
from cutwater_spark.authentication import warn_if_open
from cutwater_spark.epoch.writer import EpochWriter
from cutwater_spark.query.columns import UNREADABLE, rows
from cutwater_spark.query.sql import kafka_options
from cutwater_spark.seed.parent import parent_milestone
from cutwater_spark.session import adapt, reach_checkpoint
from cutwater_spark.tools.failures import explain_failures

__all__ = ["AttachedQuery", "Start", "attach", "describe", "kafka"]

A_SOURCE = "a source"
"""Cutwater does not know which topics an attached query reads."""


def kafka() -> dict[str, str]:
    """Return the options of Spark's Kafka source for the brokers of the settings, without secrets."""
    return kafka_options(load_settings().cluster)


def attach(
    frame: DataFrame | Callable[[Start], DataFrame], job_file: str | Path, *, checkpoint: str | None = None
) -> AttachedQuery:
    """Start the query in update mode, in a thread; `cutwater up JOBFILE` runs everything else.

    `frame`: the query, or a function that builds it, given the start of the program's generation (the promoted
    one, or CUTWATER_GENERATION's). Brokers, region and folders are those of the environment (docs/SETTINGS.md).
    `checkpoint`: overrides CUTWATER_CHECKPOINT. Raise CutwaterError, before an older driver is fenced, if the
    query, the session, the topics or the checkpoint do not fit. `awaitTermination` raises later failures.
    """
    settings = load_settings()
    if checkpoint:
        settings = settings.model_copy(update={"checkpoint": checkpoint})
    job = load_job(Path(job_file))
    query = job.attached
    if query is None:
        raise UsageError(
            f"{job_file} has no 'attached', so 'cutwater up' runs its query. describe() writes a file with it"
        )
    if isinstance(frame, DataFrame):
        _prepared(frame, job, query, settings)  # asks no broker
    log = configure("driver", settings.log_json)
    await_brokers(settings.cluster, settings.wait_ms / 1000, log)
    job, settings = working_for(job, settings)
    start_of = account("driver", job.name, settings.generation, settings.cluster, log)
    with (
        alert_on_error(settings.cluster, job.name, settings.generation, "driver", now_ms, log),
        start_of.step("checking the generation"),
    ):
        begins = Start(settings.cluster, settings.generation, parent_milestone(job, settings))
    frame = frame if isinstance(frame, DataFrame) else _built(frame, begins)
    spark, made = frame.sparkSession, _prepared(frame, job, query, settings)
    if moves(job):
        require_start(frame, begins, job.source)
    stop, asking = threading.Event(), rejoin_check(job, settings)
    if asking is not None:
        with start_of.step("asking the other region"):
            asking.await_answer(settings.generation, stop, log)
    warn_if_open(spark, log)

    def observe(execution: Any) -> InputStats:
        return replace(events_of(execution), copied=_copied(job, settings, attempt, execution))

    attempt = Attempt(spark, job, settings, log, stop, None, observe, start_of, asking)

    @contextmanager
    def explain_and_alert() -> Iterator[None]:
        with (
            alert_on_error(settings.cluster, job.name, settings.generation, "driver", now_ms, log),
            advise_on_loss(settings.cluster, job.name, attached=not moves(job)),
            explain_failures(A_SOURCE, attempt.location),
        ):
            yield

    with explain_and_alert():
        attempt.take_over()

    def start(epochs: EpochWriter, _decoding: object) -> StreamingQuery:
        return (
            made.writeStream.outputMode("update")
            .queryName(job.name)
            .option("checkpointLocation", attempt.location)
            .trigger(processingTime=f"{settings.trigger_ms} milliseconds")
            .foreachBatch(_seeded(spark, job, attempt, epochs))
            .start()
        )

    return AttachedQuery(job, attempt, stop, start, explain_and_alert, log)


def _prepared(frame: DataFrame, job: Job, query: Attached, settings: Settings) -> DataFrame:
    """Return the query's rows. Raise UsageError if query, session and job file do not fit."""
    adapt(frame.sparkSession)
    reach_checkpoint(frame.sparkSession, settings, settings.checkpoint or "")
    made = rows(frame, job, query)
    if moves(job):
        require_movable(frame, job)
    return made


def _built(build: Callable[[Start], DataFrame], begins: Start) -> DataFrame:
    made = build(begins)
    if not isinstance(made, DataFrame):
        raise UsageError(f"the function given to attach returned {type(made).__name__}: return the DataFrame")
    return made


def _copied(job: Job, settings: Settings, attempt: Attempt, execution: Any) -> dict[TopicPartition, int]:
    """Return how far an epoch has read copies of other regions' events, in the offsets there."""
    if not job.source:
        return {}
    epoch = int(execution.currentBatchId())
    before = attempt.checkpoint.plan(epoch - 1).source_cut if epoch else attempt.origin.source_cut
    return copied_events(settings.cluster, job.source, before, attempt.checkpoint.plan(epoch).source_cut)


def _seeded(
    spark: SparkSession, job: Job, attempt: Attempt, epochs: EpochWriter
) -> Callable[[DataFrame, int], None]:
    """Return the writer of each epoch's rows, merged with the seed's if the generation has one."""
    if attempt.seed is None:
        return epochs
    seeded = SeededRows(spark, job, attempt.seed, attempt.origin.floor_ms)

    def write(made: DataFrame, epoch: int) -> None:
        epochs(seeded.merged(made, epoch, epochs.steps.watermark_before(epoch)), epoch)

    return write


class AttachedQuery:
    """A running query, in a thread of its own."""

    def __init__(self, job: Job, attempt: Attempt, stop: threading.Event, start: Any, told: Any, log: Any) -> None:
        self.job = job
        self._attempt = attempt
        self._stop = stop
        self._told = told
        self._log = log
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(start,), name=f"attached-{job.name}", daemon=True)
        self._thread.start()

    @property
    def query(self) -> StreamingQuery | None:
        """Spark's handle of the current query; None before the first."""
        return self._attempt.query

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Wait until the query has ended, at most `timeout` seconds, and return whether it has.

        Raise the error that ended it: a CutwaterError, or Spark's StreamingQueryException.
        """
        self._thread.join(timeout)
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End the query between two epochs, without waiting for it; `awaitTermination` waits."""
        self._stop.set()

    def _run(self, start: Any) -> None:
        try:
            with self._told():
                self._attempt.run(start)
        except BaseException as error:  # awaitTermination raises it
            self._failure = error
            self._log.error("the attached query has ended", job=self.job.name, error=str(error)[:2_000])


def events_of(execution: Any) -> InputStats:
    """Return the number of events that an epoch read, as Spark's progress counts them, and of rows dropped."""
    leaves = execution.executedPlan().collectLeaves()
    read = 0
    for leaf in (leaves.apply(number) for number in range(leaves.size())):
        metric = leaf.metrics().get("numOutputRows")
        if leaf.nodeName().startswith("MicroBatchScan") and metric.isDefined():
            read += int(metric.get().value())
    return InputStats(events=read, rejected=dropped_of(execution))


def dropped_of(execution: Any) -> int:
    """Return how many rows of an epoch were dropped, as no reader could decode them."""
    found = execution.observedMetrics().get(UNREADABLE)
    return int(found.get().getLong(0)) if found.isDefined() else 0

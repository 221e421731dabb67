"""A streaming aggregation of your own with Cutwater's changelog, proof of rows, barriers and milestones.

    query = attach(frame, "orders.yaml")
    query.awaitTermination()

The tutorial is docs/ATTACH.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.startup_wait import await_brokers
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.log_setup import configure
from cutwater.adapters.topics.alerts import alert_on_error
from cutwater.adapters.topics.provable_milestones import advise_on_loss
from cutwater.adapters.topics.recovery_log import account
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater_spark.attach.job_description import describe
from cutwater_spark.attempt import Attempt
from cutwater_spark.authentication import warn_if_open
from cutwater_spark.epoch.writer import EpochWriter
from cutwater_spark.query.columns import UNREADABLE, rows
from cutwater_spark.query.sql import kafka_options
from cutwater_spark.session import adapt, reach_checkpoint
from cutwater_spark.tools.failures import explain_failures

__all__ = ["AttachedQuery", "attach", "describe", "kafka"]

A_SOURCE = "a source"
"""Cutwater does not know which topics an attached query reads."""


def kafka() -> dict[str, str]:
    """Return the options of Spark's Kafka source for the brokers of the settings, without secrets."""
    return kafka_options(load_settings().cluster)


def attach(frame: DataFrame, job_file: str | Path, *, checkpoint: str | None = None) -> AttachedQuery:
    """Start the query in update mode, in a thread; `cutwater up JOBFILE` runs everything else.

    Brokers, region and folders are those of the environment (docs/SETTINGS.md). `checkpoint`: overrides
    CUTWATER_CHECKPOINT. Raise CutwaterError, before an older driver is fenced, if the query, the session, the
    topics or the checkpoint do not fit. `awaitTermination` raises later failures.
    """
    settings = load_settings()
    if checkpoint:
        settings = settings.model_copy(update={"checkpoint": checkpoint})
    job = load_job(Path(job_file))
    if job.attached is None:
        raise UsageError(
            f"{job_file} has no 'attached', so 'cutwater up' runs its query. describe() writes a file with it"
        )
    adapt(frame.sparkSession)
    reach_checkpoint(frame.sparkSession, settings, settings.checkpoint or "")
    made = rows(frame, job, job.attached)
    stop = threading.Event()
    log = configure("driver", settings.log_json)
    warn_if_open(frame.sparkSession, log)
    start_of = account("driver", job.name, settings.generation, settings.cluster, log)
    with start_of.step("waiting for the brokers"):
        await_brokers(settings.cluster, settings.wait_ms / 1000, log)
    attempt = Attempt(frame.sparkSession, job, settings, log, stop, None, events_of, start_of)

    @contextmanager
    def explain_and_alert() -> Iterator[None]:
        with (
            alert_on_error(settings.cluster, job.name, settings.generation, "driver", now_ms, log),
            advise_on_loss(settings.cluster, job.name, attached=True),
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
            .foreachBatch(epochs)
            .start()
        )

    return AttachedQuery(job, attempt, stop, start, explain_and_alert, log)


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

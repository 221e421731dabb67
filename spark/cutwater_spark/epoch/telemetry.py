"""What a driver tells about its epochs beside the protocol: metrics of Spark, and steps of traces.

Nothing here ends a query. Spark's progress and the JVM's beans are read between two epochs, in the thread that
watches the query.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.http.spark_metrics import SparkMetrics
from cutwater.adapters.http.trace_exporter import exporter_of
from cutwater.core.protocol.records import Barrier
from cutwater.core.tracing.query_progress import QueryProgress, parse_progress
from cutwater.core.tracing.trace_steps import EpochMoments, driver_trace, spark_trace
from cutwater_spark import jvm

JVM_EVERY_S = 5.0
"""A query of the JVM's beans takes some ten milliseconds; an epoch may take 300."""
KEPT_MAX = 100
"""Barriers whose progress is not read yet; Spark keeps as many reports."""


class Telemetry:
    """Of one attempt. Raises MachineError, UsageError if traces are wanted and cannot be sent."""

    def __init__(self, spark: SparkSession, settings: Settings, metrics: SparkMetrics, log: Any) -> None:
        self._spark, self._metrics, self._log = spark, metrics, log
        self._exporter = exporter_of(settings)
        self._has_port = bool(settings.driver_port)
        self._jvm_asked_s = -JVM_EVERY_S
        self._written: dict[int, Barrier] = {}
        self._read = -1
        """The newest epoch whose progress is read."""
        self._is_strange = False

    def written(self, barrier: Barrier, at: EpochMoments) -> None:
        """Take an epoch whose barrier was just written."""
        while len(self._written) >= KEPT_MAX:
            del self._written[min(self._written)]
        self._written[barrier.epoch] = barrier
        if self._exporter is not None:
            self._exporter.send(driver_trace(barrier, at))

    def look(self, query: StreamingQuery) -> None:
        """Read what Spark has reported since the last call, and the JVM's beans every few seconds."""
        if not self._has_port and self._exporter is None:
            return
        try:
            with suppress(Py4JError, OSError):  # the query or the JVM is about to end
                self._look_at_jvm()
                # One call of the JVM is saved as long as no epoch has ended.
                for one in self._new_progress(query) if self._is_due else ():
                    self._take(one)
        except (KeyError, ValueError, TypeError) as error:
            if not self._is_strange:
                self._is_strange = True
                self._log.warning(
                    "Spark's progress is of another form: its metrics are missing", reason=repr(error)
                )

    @property
    def _is_due(self) -> bool:
        return bool(self._written) and max(self._written) > self._read

    def close(self) -> None:
        """Send what is left, for at most some seconds."""
        if self._exporter is not None:
            self._exporter.close()

    def _new_progress(self, query: StreamingQuery) -> list[QueryProgress]:
        """Return the reports of epochs that are not read yet, the oldest first."""
        reports: Any = query._jsq.recentProgress()
        texts: list[str] = []
        for at in range(len(reports) - 1, -1, -1):
            if int(reports[at].batchId()) <= self._read:
                break
            texts.append(str(reports[at].json()))
        return [parse_progress(json.loads(text)) for text in reversed(texts)]

    def _take(self, one: QueryProgress) -> None:
        self._read = max(self._read, one.epoch)
        self._metrics.progress(one)
        barrier = self._written.pop(one.epoch, None)
        if barrier is not None and self._exporter is not None:
            self._exporter.send(spark_trace(barrier, one))

    def _look_at_jvm(self) -> None:
        now_s = time.monotonic()
        if self._has_port and now_s >= self._jvm_asked_s + JVM_EVERY_S:
            self._jvm_asked_s = now_s
            self._metrics.jvm(jvm.figures(self._spark))

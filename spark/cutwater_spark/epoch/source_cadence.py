"""The cadence controller at one query: what an epoch took goes in, bound and interval of the next one come out.

Spark's trigger is fixed when a query starts. Its Kafka source has an interval of its own: with a least number of
events, it lets no batch begin before so many wait or the interval is over. `source_limit` changes both while the
query runs, so the state stays in memory; the trigger only says how often the source is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from cutwater.core.cadence.decisions import Decision
from cutwater.core.cadence.epoch_cadence import Epoch, EpochCadence
from cutwater.core.cadence.epoch_setting import Setting
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.protocol.cuts import EpochPlan
from cutwater_spark.epoch.source_limit import kafka_sources, set_limit
from cutwater_spark.epoch.writer import EpochTimes

USUAL_SPARK_S = 0.2
"""What Spark needs around an epoch, until it has said so."""
_NO_END_YET = "NullPointerException"
"""What the Kafka source says of its end before it was asked for it."""


class SourceCadence:
    """Keeps one query at the driver's cadence."""

    def __init__(
        self,
        spark: SparkSession,
        cadence: EpochCadence,
        log: Any,
        decided: Callable[[Decision], None],
        bound: Callable[[], int | None],
        sets_interval: bool = True,
    ) -> None:
        """`decided`: receives each decision once it is applied. `bound`: the most events by a candidate's rate; it
        returns None without one.

        `sets_interval`: False to leave the interval to the query's trigger. A source that is asked a moment early
        would wait for the trigger after the next.
        """
        self._spark, self._cadence, self._log, self._decided = spark, cadence, log, decided
        self._sets_interval, self._bound = sets_interval, bound
        self._spark_s = USUAL_SPARK_S
        self._set = self._wanted()
        self._works = True

    def begin(self, first: int = 0) -> Setting:
        """Return the setting that the next query starts with. `first`: the events of its first epoch, if not 0."""
        wanted = self._wanted()
        self._set = Setting(first, 0) if first else wanted
        return self._set

    def _wanted(self) -> Setting:
        bound, limit = self._bound(), self._cadence.limit
        limit = limit if bound is None else min(limit, bound)
        return Setting(limit, self._cadence.setting.interval_ms if self._sets_interval else 0)

    def epoch_took(
        self, query: StreamingQuery | None, seen: InputStats, plan: EpochPlan | None, times: EpochTimes
    ) -> None:
        """Take an epoch of the query, and set the bound and the interval of its next one."""
        if query is None or plan is None or not self._works:
            return
        try:
            self._spark_s = spark_s(query, self._spark_s)
            waiting, decision = events_behind(query, plan), None
            if waiting is not None:
                took = times.began_s, seen.events, seen.size, waiting, times.seconds + self._spark_s
                decision = self._cadence.epoch_took(Epoch(*took, times.write_s, times.paused_s))
            if (wanted := self._wanted()) != self._set:
                set_limit(self._spark, query, *wanted)
                self._set = wanted
        except (Py4JError, AttributeError, TypeError, ValueError, KeyError) as error:
            self._works = False
            self._log.warning("the cadence cannot be changed while the query runs", error=str(error)[:300])
            return
        if decision is not None:
            self._decided(decision)


def spark_s(query: StreamingQuery, otherwise: float) -> float:
    """Return what Spark did around its newest finished batch: offsets, plan, log, commit. `otherwise`: if it had
    no data. Py4JError, ValueError, KeyError if this Spark does not say it."""
    execution: Any = query
    progress = execution._jsq.lastProgress()
    if progress is None:
        return otherwise
    # One text: each value by itself would be a call to the JVM, in every epoch.
    took_ms = json.loads(progress.json())["durationMs"]
    if "addBatch" not in took_ms:
        return otherwise
    return max(int(took_ms["triggerExecution"]) - int(took_ms["addBatch"]), 0) / 1_000


def events_behind(query: StreamingQuery, plan: EpochPlan) -> int | None:
    """Return how many events had come when the epoch was planned, beyond those of its plan.

    None if Spark has not looked for the source's end yet: it repeats a batch that a dead driver had planned.
    """
    read = {(place.topic, place.partition): offset for place, offset in plan.source_cut}
    waiting = 0
    for source in kafka_sources(query):
        try:
            latest = source.reportLatestOffset()
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() == _NO_END_YET:
                return None
            raise
        offsets: Mapping[str, Mapping[str, int]] = json.loads(latest.json()) if latest is not None else {}
        for topic, of_topic in offsets.items():
            for partition, offset in of_topic.items():
                waiting += max(offset - read.get((topic, int(partition)), offset), 0)
    return waiting

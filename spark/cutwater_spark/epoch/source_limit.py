"""The number of events that Spark's next micro-batch reads, changed while the query runs.

Spark takes `maxOffsetsPerTrigger` once, when a query starts; starting it again for another value takes a second.
Its micro-batch execution asks a map for the limit of each source before each batch, and the map can be replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from cutwater.core.driver.admission import Admission
from cutwater.core.driver.input_stats import InputStats

_KAFKA = "KafkaMicroBatchStream"


class SourceLimit:
    """Keeps one query's limit at that of the driver's admission."""

    def __init__(
        self, spark: SparkSession, admission: Admission, log: Any, bound: Callable[[], int | None]
    ) -> None:
        """`bound`: the most events by a candidate's rate; it returns None without one."""
        self._spark, self._admission, self._log, self._bound = spark, admission, log, bound
        self._set = 0
        self._works = True

    def begin(self, first: int = 0) -> int:
        """Return the limit that the next query starts with. `first`: that of its first epoch, if it is not 0."""
        self._set = first or self._wanted()
        return self._set

    def _wanted(self) -> int:
        bound = self._bound()
        return self._admission.limit if bound is None else min(self._admission.limit, bound)

    def epoch_took(self, query: StreamingQuery | None, seen: InputStats, seconds: float) -> None:
        """Take an epoch of the query, and set the limit of its next one."""
        self._admission.epoch_took(seen.events, seen.size, seconds)
        limit = self._wanted()
        if query is None or limit == self._set or not self._works:
            return
        try:
            set_limit(self._spark, query, limit)
            self._set = limit
        except (Py4JError, AttributeError, TypeError) as error:
            self._works = False
            self._log.warning("the size of epochs cannot be changed while the query runs", error=str(error)[:300])


def set_limit(spark: SparkSession, query: StreamingQuery, events: int, interval_ms: int = 0) -> None:
    """Let the query's Kafka source read up to `events` in its next batch.

    `interval_ms`: from a batch to the next one, unless `events` wait before; 0 for the query's own trigger.
    Raise Py4JError, AttributeError, TypeError if this Spark has no such map.
    """
    java: Any = spark._jvm
    execution: Any = query
    execution = execution._jsq.streamingQuery()
    limits = execution.uniqueSources()
    kinds = java.org.apache.spark.sql.connector.read.streaming.ReadLimit
    limit = kinds.maxRows(events)
    if interval_ms:
        gateway: Any = spark.sparkContext._gateway
        both = gateway.new_array(kinds, 2)
        both[0], both[1] = kinds.minRows(events, interval_ms), limit
        limit = kinds.compositeLimit(both)
    for source in kafka_sources(query):
        limits = limits.updated(source, limit)
    getattr(execution, "uniqueSources_$eq")(limits)


def kafka_sources(query: StreamingQuery) -> list[Any]:
    """Return the JVM's objects of the query's Kafka sources, in any order."""
    execution: Any = query
    sources = execution._jsq.streamingQuery().uniqueSources().keysIterator()
    found = []
    while sources.hasNext():
        source = sources.next()
        if source.getClass().getSimpleName() == _KAFKA:
            found.append(source)
    return found

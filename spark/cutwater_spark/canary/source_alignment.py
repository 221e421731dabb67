"""Ends the epochs of a canary where the promoted generation has ended its own.

Spark's Kafka source has no setting for that. But for its trigger "available now" it keeps the offsets at which
it ends, and asks for no others while they are set. They are set here, to the next cut, while the query runs.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import candidacy, candidates, parent_of
from cutwater.adapters.topics.commit_stream import Tail
from cutwater.core.canary.alignment import LiveCuts
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater_spark.epoch.source_limit import kafka_sources

LOOK_S = 0.05
RETRY_S = 2.0
CLOSE_S = 5.0
_ENDS, _HOLDS = "allDataForTriggerAvailableNow", "isTriggerAvailableNow"


class Reading(NamedTuple):
    """What the driver's query reads."""

    query: StreamingQuery
    position: Cut
    """The end of its newest epoch that is read: a batch whose end is beyond what is set meanwhile is refused."""


class SourceAlignment:
    """Keeps one canary's query aligned, until its promotion is requested."""

    def __init__(
        self,
        spark: SparkSession,
        cluster: Cluster,
        job: str,
        candidate: Candidate,
        log: Any,
    ) -> None:
        self._spark, self._cluster, self._job, self._log = spark, cluster, job, log
        self._generation, self._parent = candidate.claim.generation, parent_of(candidate.claim)
        self._reading: Callable[[], Reading | None] = lambda: None
        self._cuts = LiveCuts()
        self._known = Candidates()
        self._released = False
        self._set: tuple[StreamingQuery, Cut | None] | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="source-alignment", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join(CLOSE_S)

    def begin(self, reading: Callable[[], Reading | None]) -> None:
        """Align the next query. `reading`: returns None before that query's first epoch is read."""
        with self._lock:
            self._reading = reading

    def epoch_took(self) -> None:
        """Set the end of the next epoch at once: Spark plans it after this one's commit."""
        self._apply()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._follow()
            except Exception as error:  # without this thread the canary would stay at its last cut
                self._log.warning("the promoted generation's cuts are not read", error=str(error)[:300])
                self._stopped.wait(RETRY_S)

    def _follow(self) -> None:
        """Follow both topics. Raises CutwaterError if the brokers do not answer; then all is read again."""
        live = Tail(self._cluster, topics.milestones(self._job))
        claims = Tail(self._cluster, topics.candidates(self._job))
        try:
            cuts, known = LiveCuts(), Candidates()
            while not self._stopped.wait(LOOK_S):
                for record in claims.poll():
                    known = known.after(candidacy(record))
                for record in live.poll():
                    if isinstance(record, Milestone):
                        self._take(record, cuts)
                with self._lock:
                    self._cuts, self._known = cuts, known
                    candidate = known.by_id.get(self._generation)
                    self._released = self._released or (candidate is not None and candidate.promoting)
                self._apply()
        finally:
            live.close()
            claims.close()

    def _take(self, one: Milestone, cuts: LiveCuts) -> None:
        if one.generation.number > self._parent.generation.number:
            self._released = True  # this one is promoted, or never will be
        elif one.generation == self._parent.generation and one.sequence > self._parent.sequence:
            with self._lock:
                cuts.add(one.source_cut)

    def _apply(self) -> None:
        """Set the next cut at the query, if it is another one. If that fails, the query reads on unaligned."""
        with self._lock:
            reading = self._reading()
            if reading is None or self._stopped.is_set():
                return
            wanted = None if self._released else self._cuts.next(reading.position)
            if self._set == (reading.query, wanted):
                return
            try:
                if set_end(self._spark, reading.query, reading.position, wanted):
                    self._set = reading.query, wanted
            except (Py4JError, AttributeError, TypeError, ValueError, KeyError) as error:
                self._log.warning("an epoch cannot be ended at a cut", error=str(error)[:300])
                if self._released:  # nor can the last end be taken away
                    self._stopped.set()
                self._released = True


def set_end(spark: SparkSession, query: StreamingQuery, position: Cut, end: Cut | None) -> bool:
    """Let the query's next batches end at this cut, if their limit of rows allows; None: wherever the source ends.

    Return whether that could be done: the query has no source before its first batch. Raises Py4JError,
    AttributeError, TypeError, ValueError or KeyError if this Spark has no such fields.
    """
    java: Any = spark._jvm
    sources = kafka_sources(query)
    for source in sources:
        if end is None:
            _field(source, _HOLDS).setBoolean(source, False)
            # A batch beyond offsets that are set is refused when it is read.
            _field(source, _ENDS).set(source, None)
            continue
        made = java.org.apache.spark.sql.kafka010.JsonUtils.partitionOffsets(json.dumps(_offsets(position, end)))
        _field(source, _ENDS).set(source, made)
        # Last: the source ends there only if this is set, and without offsets it would fetch others.
        _field(source, _HOLDS).setBoolean(source, True)
    return bool(sources)


def _offsets(position: Cut, end: Cut) -> dict[str, dict[str, int]]:
    """Return the offsets of the source's partitions at a cut. One that the cut does not name stays where it is.

    The source is not asked: it knows no partitions while it repeats a batch of its checkpoint, and the end of the
    batch after that one is set meanwhile.
    """
    found: dict[str, dict[str, int]] = {}
    for place, offset in {**position.as_dict(), **end.as_dict()}.items():
        found.setdefault(place.topic, {})[str(place.partition)] = offset
    return found


def _field(source: Any, name: str) -> Any:
    field = source.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field


def canary_of(cluster: Cluster, job: str, generation: Generation) -> Candidate | None:
    """Return the generation's candidate if it is a canary whose promotion is not requested."""
    found = candidates(cluster, job).by_id.get(generation) if is_claimed(generation) else None
    return found if found is not None and found.canary is not None and not found.promoting else None

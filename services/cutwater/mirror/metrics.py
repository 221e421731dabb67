"""The mirror's Prometheus metrics. Durations in seconds."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cutwater.core.mirror.arrivals import ArrivalTracker
from cutwater.core.mirror.gaps import CAUSES
from cutwater.core.mirror.replica_lag import SafeTime
from cutwater.core.protocol.mirror_records import Arrival
from cutwater.core.tracing.trace_steps import Trace

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, 3600.0)


class Metrics:
    """The metrics of one mirror."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        here: dict[str, Any] = {"registry": self.registry, "namespace": "cutwater", "subsystem": "mirror"}
        self._records = Counter("records", "Records copied.", ["topic"], **here)
        self._bytes = Counter("bytes", "Bytes of keys and values copied.", ["topic"], **here)
        self._gaps = Counter("gaps", "Topics whose copying stopped, by cause.", ["cause"], **here)
        self._stopped = Gauge("stopped", "1 for a topic not copied until an operator acts.", ["topic"], **here)
        self._taken_over = Counter(
            "settings_taken_over", "Settings of a topic here changed to the origin's.", ["topic"], **here
        )
        self._settings_missed = Counter(
            "settings_missed", "Reads of topic settings that brokers did not answer or refused.", **here
        )
        self._schemas = Counter("schemas_copied", "Schemas copied into the registry here.", **here)
        self._schemas_missing = Gauge(
            "schemas_missing", "Schemas of the origin's subject that a reader here cannot use.", **here
        )
        self._sequence = Gauge("arrived_sequence", "Sequence of the newest arrival.", **here)
        self._arrivals = Counter("arrivals", "Milestones that have arrived.", **here)
        self._passed = Counter("passed_milestones", "Milestones that will have no arrival.", **here)
        self._pending = Gauge("pending_milestones", "Copied milestones that have not arrived yet.", **here)
        self._delay = Histogram(
            "delay", "Time from a milestone's commit to its arrival.", unit="seconds", buckets=_SECONDS, **here
        )
        self._rounds = Counter("rounds", "Copy rounds, including those without anything to copy.", **here)
        self._age = Gauge("age_seconds", "Time since the origin wrote the newest arrived milestone.", **here)
        self._watermark = Gauge("watermark_timestamp_seconds", "Watermark of the newest arrival.", **here)
        self._lag = Gauge(
            "lag_seconds", "Time between the newest arrival and the newest copied milestone.", **here
        )
        self._lag_milestones = Gauge("lag_milestones", "Copied milestones without an arrival.", **here)
        self._lag_records = Gauge("lag_records", "Records in the origin that are not copied yet.", **here)
        self._lag_bytes = Gauge("lag_bytes", "Estimated bytes of the records that are not copied yet.", **here)
        self._skew = Gauge(
            "skew_seconds", "Time by which a topic's slowest partition is behind its fastest.", **here
        )
        self._catch_up = Gauge(
            "catch_up_seconds", "Time until the mirror catches up, at its current rate.", **here
        )
        self._fork = Gauge(
            "fork_milestones",
            "Milestones of the origin that contradict this region's line, in undecided forks.",
            **here,
        )
        self._fork.set(float("nan"))
        for cause in CAUSES:
            self._gaps.labels(cause)

    def copied(self, topic: str, records: int, size: int) -> None:
        """`size`: of keys and values, in bytes."""
        self._records.labels(topic).inc(records)
        self._bytes.labels(topic).inc(size)

    def stopped(self, topic: str, cause: str) -> None:
        self._gaps.labels(cause).inc()
        self._stopped.labels(topic).set(1)

    def dropped(self, topic: str) -> None:
        """Reset a stopped topic that needs no operator any more."""
        self._stopped.labels(topic).set(0)

    def taken_over(self, topic: str, settings: int) -> None:
        """`topic`: its name here."""
        self._taken_over.labels(topic).inc(settings)

    def settings_missed(self) -> None:
        self._settings_missed.inc()

    def schemas_copied(self, count: int) -> None:
        self._schemas.inc(count)

    def schemas_missing(self, count: int | None) -> None:
        """`count`: None if unknown."""
        self._schemas_missing.set(float("nan") if count is None else count)

    def safe(self, one: SafeTime) -> None:
        """Set the gauges; unknown values are NaN."""
        for gauge, value, unit in (
            (self._age, one.age_ms, 1000),
            (self._watermark, one.watermark_ms, 1000),
            (self._lag, one.lag_ms, 1000),
            (self._lag_milestones, one.milestones, 1),
            (self._lag_records, one.records, 1),
            (self._lag_bytes, one.size, 1),
            (self._skew, one.skew_ms, 1000),
            (self._catch_up, one.catch_up_s, 1),
        ):
            gauge.set(float("nan") if value is None else value / unit)

    def contradicted(self, milestones: int | None) -> None:
        """`milestones`: None if unknown, which shows as NaN."""
        self._fork.set(float("nan") if milestones is None else milestones)

    def count_round(self) -> None:
        self._rounds.inc()

    def set_pending(self, ledger: ArrivalTracker) -> None:
        self._pending.set(ledger.pending)

    def arrived(self, one: Arrival, trace: Trace | None = None) -> None:
        """`trace`: becomes the exemplar of its delay, which scrapes in OpenMetrics get."""
        self._arrivals.inc()
        self._sequence.set(one.sequence)
        named = {"trace_id": f"{trace.trace_id:032x}"} if trace else None
        self._delay.observe(max(0, one.arrived_ms - one.committed_ms) / 1000, named)

    def passed(self) -> None:
        self._passed.inc()

"""What a mirror counts, for Prometheus. Durations in seconds."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cutwater.core.arrivals import Ledger
from cutwater.core.mirror_gaps import CAUSES
from cutwater.core.mirrored import Arrival
from cutwater.mirror.followed import Taken

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, 3600.0)


class Metrics:
    """One mirror's counters."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        here: dict[str, Any] = {"registry": self.registry, "namespace": "cutwater", "subsystem": "mirror"}
        self._records = Counter("records", "Records copied.", ["topic"], **here)
        self._bytes = Counter("bytes", "Bytes of keys and values copied.", ["topic"], **here)
        self._gaps = Counter("gaps", "Topics that were stopped, by cause.", ["cause"], **here)
        self._stopped = Gauge("stopped", "1 for a topic that stands still until somebody acts.", ["topic"], **here)
        self._sequence = Gauge("arrived_sequence", "Sequence of the newest arrival.", **here)
        self._arrivals = Counter("arrivals", "Milestones that have arrived.", **here)
        self._passed = Counter("passed_milestones", "Milestones that will have no arrival.", **here)
        self._pending = Gauge("pending_milestones", "Milestones copied that have not arrived yet.", **here)
        self._delay = Histogram(
            "delay", "From a milestone's commit to its arrival.", unit="seconds", buckets=_SECONDS, **here
        )
        for cause in CAUSES:
            self._gaps.labels(cause)

    def copied(self, one: Taken) -> None:
        self._records.labels(one.followed.name).inc(len(one.records))
        self._bytes.labels(one.followed.name).inc(sum(read.size for read in one.read))

    def stopped(self, topic: str, cause: str) -> None:
        self._gaps.labels(cause).inc()
        self._stopped.labels(topic).set(1)

    def stands(self, ledger: Ledger) -> None:
        self._pending.set(ledger.pending)

    def arrived(self, one: Arrival) -> None:
        self._arrivals.inc()
        self._sequence.set(one.sequence)
        self._delay.observe(max(0, one.arrived_ms - one.committed_ms) / 1000)

    def passed(self) -> None:
        self._passed.inc()

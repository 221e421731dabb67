"""The Prometheus metrics of commit-signal. Durations in seconds."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cutwater.core.protocol.commit import SignalState
from cutwater.core.protocol.records import Heartbeat, Milestone, StreamRecord

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        here: dict[str, Any] = {"registry": self.registry, "namespace": "cutwater", "subsystem": "signal"}
        self._milestones = Counter("milestones", "Milestones written.", **here)
        self._heartbeats = Counter("heartbeats", "Heartbeats forwarded.", **here)
        self._sequence = Gauge("sequence", "Sequence of the newest milestone.", **here)
        self._attempt = Gauge("attempt", "The driver's current attempt.", **here)
        self._prepared = Gauge("prepared", "1 while an epoch waits for Spark's commit.", **here)
        self._read = Gauge("read_offset", "The next offset of the barriers topic.", **here)
        hidden = "1 if the barriers cannot be read: the brokers do not answer, or a transaction is open."
        self._waiting = Gauge("waiting", hidden, **here)
        self._asking = Gauge(
            "waiting_for_region", "1 if another region, which may have taken over, does not answer.", **here
        )
        self._delay = Histogram(
            "delay", "Time from an epoch's barrier to its milestone.", unit="seconds", buckets=_SECONDS, **here
        )

    def took(self, state: SignalState, offset: int) -> None:
        """Show the state after the record at `offset` of the barriers topic."""
        self._read.set(offset + 1)
        self._attempt.set(state.attempt)
        self._prepared.set(state.prepared is not None)
        self._sequence.set(state.last.sequence if state.last else 0)

    def waiting(self, now: bool) -> None:
        self._waiting.set(now)

    def set_asking(self, now: bool) -> None:
        self._asking.set(now)

    def wrote(self, record: StreamRecord) -> None:
        if isinstance(record, Milestone):
            self._milestones.inc()
            self._delay.observe(max(0, record.committed_ms - record.written_ms) / 1000)
        elif isinstance(record, Heartbeat):
            self._heartbeats.inc()

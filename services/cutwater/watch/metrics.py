"""The watch's Prometheus metrics. Durations in seconds."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cutwater.core.monitoring.alerts import Alert
from cutwater.core.monitoring.job_status import JobStatus, drift
from cutwater.core.protocol.records import Milestone
from cutwater.core.tracing.trace_steps import trace_id

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_UNKNOWN = float("nan")


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        here: dict[str, Any] = {"registry": self.registry, "namespace": "cutwater", "subsystem": "watch"}
        self._epochs = Gauge("drift_epochs", "Epochs written that have no milestone yet.", **here)
        self._seconds = Gauge("drift_seconds", "Time from the newest milestone's to the newest barrier.", **here)
        self._events = Gauge(
            "drift_events", "Source offsets from the newest milestone's to the newest barrier's cut.", **here
        )
        self._waiting = Gauge("waiting_events", "Events that no barrier covers yet; NaN if unknown.", **here)
        self._unpublished = Gauge("unpublished_milestones", "Milestones not yet on the output topic.", **here)
        self._sequence = Gauge("sequence", "Sequence of the newest milestone.", **here)
        self._idle = Gauge("idle", "1 if the driver's newest signal reports no new events.", **here)
        self._steps = Histogram("step_seconds", "Time of each step.", ["step"], buckets=_SECONDS, **here)
        self._alert = Gauge("alert", "1 while an alert is on.", ["kind", "part"], **here)
        self._raised = Counter("alerts_raised", "Alerts raised by this process.", ["kind"], **here)
        self._unreadable = Gauge("unreadable_records", "Records with an unknown schema.", **here)
        self._full = Gauge(
            "disk_full_in_seconds",
            "Time until a disk is full at its present rate; NaN if unknown.",
            ["disk"],
            **here,
        )
        self._disks: set[str] = set()
        self._actions = Counter("actions", "Safe actions by kind and outcome.", ["kind", "outcome"], **here)
        self.blind = Gauge("blind", "1 if the brokers do not answer: no alert rule is evaluated.", **here)
        self.delivered = Counter("webhook_delivered", "Alerts accepted by the webhook.", **here)
        self.undelivered = Counter("webhook_undelivered", "Alerts not delivered after all tries.", **here)

    def milestone(self, one: Milestone, is_traced: bool = False) -> None:
        """Observe an epoch's steps: `process` ends with its barrier, `commit` with its milestone.

        `is_traced`: with its trace as exemplar, which scrapes in OpenMetrics get.
        """
        trace = _exemplar(one, is_traced)
        self._steps.labels("process").observe(max(0, one.written_ms - one.epoch_started_ms) / 1000, trace)
        self._steps.labels("commit").observe(max(0, one.committed_ms - one.written_ms) / 1000, trace)

    def published(self, one: Milestone, at_ms: int, is_traced: bool = False) -> None:
        """Observe the step `publish`: from a milestone's commit to its output."""
        seconds = max(0, at_ms - one.committed_ms) / 1000
        self._steps.labels("publish").observe(seconds, _exemplar(one, is_traced))

    def raised(self, alert: Alert) -> None:
        self._raised.labels(alert.kind).inc()

    def acted(self, kind: str, outcome: str) -> None:
        self._actions.labels(kind, outcome).inc()

    def show(self, state: JobStatus) -> None:
        now = drift(state)
        self._epochs.set(now.epochs)
        self._seconds.set(now.ms / 1000)
        self._events.set(now.events)
        self._waiting.set(_UNKNOWN if now.waiting is None else now.waiting)
        self._unpublished.set(now.unpublished)
        self._sequence.set(state.sequence)
        self._idle.set(state.idle)
        self._unreadable.set(state.unreadable)
        for gone in self._disks - state.disks.keys():
            self._full.remove(gone)
        self._disks = set(state.disks)
        for name, disk in state.disks.items():
            left_ms = disk.forecast.full_in_ms
            self._full.labels(name).set(_UNKNOWN if left_ms is None else left_ms / 1000)
        for (kind, part), one in state.alerts.items():
            self._alert.labels(kind, part).set(one.on)


def _exemplar(one: Milestone, is_traced: bool) -> dict[str, str] | None:
    return {"trace_id": f"{trace_id(one):032x}"} if is_traced else None

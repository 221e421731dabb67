"""What the rehydrator counts, for Prometheus. Durations in seconds, moments as Unix time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cutwater.core.bulk import Done
from cutwater.core.records import Milestone
from cutwater.views.applier import Applied
from cutwater.views.view import View

_APPLY_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class Metrics:
    """Implements `cutwater.views.follower.Observer`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        here: dict[str, Any] = {"registry": self.registry, "namespace": "cutwater", "subsystem": "view"}
        self._milestones = Counter("milestones_applied", "Milestones applied.", **here)
        self._records = Counter("records_applied", "Changelog records read below cuts.", **here)
        self._bytes = Counter("bytes_applied", "Bytes of their keys and values.", unit="bytes", **here)
        self._seconds = Histogram(
            "apply", "Time to apply a milestone.", unit="seconds", buckets=_APPLY_SECONDS, **here
        )
        self._retries = Counter("retries", "Times that the broker was away and was tried again.", **here)
        self._divergences = Counter("divergences", "Times that rows or chain contradicted a milestone.", **here)
        self._backlog = Gauge("backlog_milestones", "Milestones read and not applied yet.", **here)
        self.waiting = Gauge("waiting_requests", "Requests that wait for a milestone (at_least).", **here)
        self.passed_on = Counter("requests_passed_on", "Requests passed on to the peer that holds it.", **here)
        self.peer_failures = Counter("peer_failures", "Of those, the ones that the peer did not answer.", **here)
        self._loaded = Gauge("loaded_records", "Changelog records that a bulk restore has loaded.", **here)
        self._to_load = Gauge("to_load_records", "Of how many at most: compaction has left fewer.", **here)
        self._loaded_bytes = Gauge("loaded_bytes", "Bytes of their keys and values.", **here)
        self._here = here

    def watch(self, view: View, now_ms: Callable[[], int]) -> None:
        """Report what the view shows at the moment of each scrape."""

        def of(name: str, text: str, value: Callable[[Milestone], float]) -> None:
            def read() -> float:
                milestone = view.milestone
                return value(milestone) if milestone else float("nan")

            Gauge(name, text, **self._here).set_function(read)

        of("sequence", "Sequence of the milestone shown.", lambda shown: shown.sequence)
        of("watermark_timestamp_seconds", "Its watermark.", lambda shown: shown.watermark_ms / 1000)
        of("horizon_timestamp_seconds", "Its horizon.", lambda shown: shown.horizon_ms / 1000)
        of("age_seconds", "Its age.", lambda shown: view.age_ms(shown, now_ms()) / 1000)
        Gauge("ready", "1 when a milestone is shown and followed.", **self._here).set_function(
            lambda: float(view.ready)
        )

    def applied(self, milestone: Milestone, done: Applied) -> None:
        self._milestones.inc()
        self._records.inc(done.records)
        self._bytes.inc(done.bytes)
        self._seconds.observe(done.seconds)

    def loaded(self, done: Done, records_max: int) -> None:
        self._loaded.set(done.records)
        self._to_load.set(records_max)
        self._loaded_bytes.set(done.bytes)

    def backlog(self, milestones: int) -> None:
        self._backlog.set(milestones)

    def retried(self) -> None:
        self._retries.inc()

    def diverged(self) -> None:
        self._divergences.inc()

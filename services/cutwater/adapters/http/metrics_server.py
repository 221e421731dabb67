"""The Prometheus endpoint of a process, and the driver's metrics. Durations are in seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.http.access import (
    METRICS_PATH,
    OPEN_PATHS,
    Receive,
    Scope,
    Send,
    answer,
    guard,
    open_to_others,
    refuse,
)
from cutwater.adapters.http.server import CLOSE_S, METRICS_BOUNDS, HttpMetrics, HttpServer, listen
from cutwater.adapters.http.spark_metrics import SparkMetrics
from cutwater.core.access.roles import Tokens
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.errors import MachineError
from cutwater.core.events.rejection import REASONS
from cutwater.core.protocol.records import Barrier, Heartbeat, Signal, Start

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


def serve(registry: CollectorRegistry, settings: Settings, setting: str, log: Any) -> Callable[[], None]:
    """Serve `/metrics` until the returned function is called or the process ends; port 0 turns it off.

    `setting`: the setting of the port, such as CUTWATER_WATCH_PORT. Raises MachineError for a port in use.
    """
    port = int(getattr(settings, setting.removeprefix("CUTWATER_").lower()))
    if not port:
        return lambda: None
    try:
        listener = listen(settings.host, port)
    except OSError as error:
        raise MachineError(f"cannot listen on {settings.host}:{port} ({error.strerror}): set {setting}") from None
    address = listener.getsockname()[0]
    token = settings.metrics_token.get_secret_value()
    if open_to_others(address, token):
        log.warning("metrics are readable without a token: set CUTWATER_METRICS_TOKEN", host=settings.host)
    metrics = HttpMetrics(registry)
    app = guard(_Exposition(registry), address, Tokens(plain=token), settings.api_names, "CUTWATER_METRICS_TOKEN")
    server = HttpServer(app, listener, METRICS_BOUNDS, metrics)
    thread = threading.Thread(target=server.run, name="metrics", daemon=True)
    thread.start()

    def close() -> None:
        server.stop()
        thread.join(CLOSE_S)
        metrics.close()

    return close


class _Exposition:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await refuse(send, 405, "metrics are read-only", (b"allow", b"GET, HEAD"))
        elif scope["path"] in OPEN_PATHS:
            await answer(send, 200, b'{"status": "ok"}', "application/json")
        elif scope["path"] == METRICS_PATH:
            encode, content_type = choose_encoder(_accepted(scope))
            await answer(send, 200, encode(self._registry), content_type)
        else:
            await refuse(send, 404, f"only {METRICS_PATH} and {', '.join(sorted(OPEN_PATHS))} are served here")


def _accepted(scope: Scope) -> str:
    """Return what the client accepts; OpenMetrics has exemplars, too."""
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"), "")


class DriverMetrics:
    """Metrics of a driver since its start."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        here: dict[str, Any] = {"registry": self.registry, "namespace": "cutwater", "subsystem": "driver"}
        self._attempt = Gauge("attempt", "Number of this attempt.", **here)
        self._epoch = Gauge("epoch", "The newest epoch whose barrier is written.", **here)
        self._epochs = Counter("epochs", "Barriers written.", **here)
        self._events = Counter("events", "Events read, rejected ones included.", **here)
        self._rejected = Counter("rejected", "Events written to the dead letters.", **here)
        self._reasons = Counter(
            "rejected_by_reason", "The same by reason; docs/FORMAT.md lists the reasons.", ["reason"], **here
        )
        self._repeated = Counter(
            "repeated_names", "JSON events with a repeated name, whose last value counted.", **here
        )
        self._defaulted = Counter(
            "default_symbols",
            "Avro events with an enum symbol unknown to the job's schema; the enum's default counted.",
            **here,
        )
        self._left_out = Counter("left_out", "Events that the job's source.where leaves out.", **here)
        self._late = Counter("late", "Events that arrived too late.", **here)
        self._amended = Counter(
            "amended", "Rows of windows that had closed before, changed by later events.", **here
        )
        self._floor = Gauge(
            "floor_timestamp_seconds", "Events are late for windows that end at or below it.", **here
        )
        self._cleanings = Histogram(
            "cleaning", "Time of a cleaning of the state.", unit="seconds", buckets=_SECONDS, **here
        )
        self._rows = Counter("rows", "Rows written to the changelog and proved.", **here)
        self._tombstones = Counter("tombstones", "Windows below the horizon cleared.", **here)
        self._seconds = Histogram(
            "epoch", "Time from an epoch's start to its barrier.", unit="seconds", buckets=_SECONDS, **here
        )
        self._watermark = Gauge("watermark_timestamp_seconds", "Watermark of the newest barrier.", **here)
        self._skew = Gauge("skew_seconds", "Skew between the source partitions' newest event times.", **here)
        self._heartbeats = Counter("heartbeats", "Heartbeats of the idle job.", **here)
        self._restarts = Counter(
            "query_restarts",
            "Restarts of the query, because the leaders of the source changed.",
            **here,
        )
        self._rested = Counter("rested", "Pauses of a candidate between epochs.", unit="seconds", **here)
        self._yielded = Counter(
            "yielded",
            "Waits of the promoted driver before an epoch, for a slower candidate.",
            unit="seconds",
            **here,
        )
        self._events_max = Gauge(
            "epoch_events_max", "The most events of an epoch, by the cadence; NaN without objectives.", **here
        )
        self._interval = Gauge(
            "epoch_interval_seconds",
            "From an epoch's beginning to the next one's, by the cadence; NaN without objectives.",
            **here,
        )
        self._waiting_for_region = Gauge(
            "waiting_for_region", "1 while another region, which may have taken over, does not answer.", **here
        )
        self.spark = SparkMetrics(self.registry)
        self._seen = InputStats()
        self._rejected_for: Mapping[str, int] = {}
        for reason in REASONS:
            self._reasons.labels(reason)  # exported from 0 on, so that the first count is seen as an increase
        of_cadence = self._events_max, self._interval
        for unknown in (self._epoch, self._watermark, self._floor, self._skew, *of_cadence):
            unknown.set(float("nan"))  # a watermark of 1970 would raise an alert at each start

    def set_newest(self, newest: Barrier) -> None:
        """Set the gauges of the newest barrier: one just written, or the one before an attempt."""
        self._epoch.set(newest.epoch)
        self._watermark.set(newest.watermark_ms / 1000)
        self._floor.set(newest.floor_ms / 1000)
        self._skew.set(newest.skew_ms / 1000)

    def count_signal(self, signal: Signal) -> None:
        if isinstance(signal, Start):
            self._attempt.set(signal.attempt)
        elif isinstance(signal, Heartbeat):
            self._heartbeats.inc()
        elif isinstance(signal, Barrier):
            self._barrier(signal)

    def keep_input(self, seen: InputStats) -> None:
        """Keep the observed input of an epoch, to be counted with its barrier."""
        self._seen = seen

    def keep_reasons(self, rejected: Mapping[str, int]) -> None:
        """Keep the rejected events of an epoch by their reason, to be counted with its barrier."""
        self._rejected_for = rejected

    def count_restart(self) -> None:
        self._restarts.inc()

    def count_cleaning(self, seconds: float) -> None:
        self._cleanings.observe(seconds)

    def count_pause(self, seconds: float) -> None:
        self._rested.inc(seconds)

    def count_yield(self, seconds: float) -> None:
        self._yielded.inc(seconds)

    def set_cadence(self, events_max: int, interval_ms: int) -> None:
        """Set what is in force by a decision of the cadence controller."""
        self._events_max.set(events_max)
        self._interval.set(interval_ms / 1000)

    def waiting_for_region(self, now: bool) -> None:
        self._waiting_for_region.set(now)

    def _barrier(self, one: Barrier) -> None:
        self.set_newest(one)
        self._epochs.inc()
        self._events.inc(one.events)
        self._rejected.inc(one.rejected)
        self._late.inc(one.late)
        self._amended.inc(one.amended)
        for reason, count in self._rejected_for.items():
            self._reasons.labels(reason).inc(count)
        self._rejected_for = {}
        self._repeated.inc(self._seen.repeated)
        self._defaulted.inc(self._seen.defaulted)
        self._left_out.inc(self._seen.left_out)
        self._seen = InputStats()
        self._rows.inc(one.rows)
        self._tombstones.inc(one.tombstones)
        self._seconds.observe(max(0, one.written_ms - one.epoch_started_ms) / 1000)

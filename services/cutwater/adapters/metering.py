"""Prometheus metrics of a process: how they are served, and what a driver counts. Durations in seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from cutwater.core.errors import MachineError
from cutwater.core.records import Barrier, Heartbeat, Signal, Start

CLOSE_S = 5.0
_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


def serve(registry: CollectorRegistry, host: str, port: int, setting: str) -> Callable[[], None]:
    """Answer at `/metrics` until what is returned is called, or the process ends; port 0 turns it off.

    Raises MachineError for a port in use, naming the `setting` that it comes from.
    """
    if not port:
        return lambda: None
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise MachineError(f"{host}:{port} cannot be taken ({error.strerror}): set {setting}") from None

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join(CLOSE_S)

    return close


class DriverMetrics:
    """What a driver has told and met, since it was started."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        here: dict[str, Any] = {"registry": self.registry, "namespace": "cutwater", "subsystem": "driver"}
        self._attempt = Gauge("attempt", "Number of this attempt.", **here)
        self._epoch = Gauge("epoch", "The newest epoch whose barrier is written.", **here)
        self._epochs = Counter("epochs", "Barriers written.", **here)
        self._events = Counter("events", "Events read, rejected ones included.", **here)
        self._rejected = Counter("rejected", "Events that went to the dead letters.", **here)
        self._late = Counter("late", "(Event, window) pairs that came too late.", **here)
        self._rows = Counter("rows", "Rows written to the changelog and proved.", **here)
        self._tombstones = Counter("tombstones", "Windows below the horizon cleared.", **here)
        self._seconds = Histogram(
            "epoch", "From an epoch's start to its barrier.", unit="seconds", buckets=_SECONDS, **here
        )
        self._watermark = Gauge("watermark_timestamp_seconds", "Watermark of the newest barrier.", **here)
        self._skew = Gauge("skew_seconds", "Between the source partitions' newest event times.", **here)
        self._heartbeats = Counter("heartbeats", "Times that an idle job said so.", **here)
        self._restarts = Counter("query_restarts", "Times that Spark ended the query, to go on.", **here)
        self._rested = Counter("rested", "Rest of a candidate between epochs.", unit="seconds", **here)
        self._waiting_for_region = Gauge(
            "waiting_for_region", "1 while another region, which may have gone on, does not answer.", **here
        )
        for unknown in (self._epoch, self._watermark, self._skew):
            unknown.set(float("nan"))  # a watermark of 1970 would page somebody at each start

    def stands_at(self, newest: Barrier) -> None:
        """The newest barrier: one just written, or the one that an attempt begins behind."""
        self._epoch.set(newest.epoch)
        self._watermark.set(newest.watermark_ms / 1000)
        self._skew.set(newest.skew_ms / 1000)

    def told(self, signal: Signal) -> None:
        """A signal stands on the barriers topic."""
        if isinstance(signal, Start):
            self._attempt.set(signal.attempt)
        elif isinstance(signal, Heartbeat):
            self._heartbeats.inc()
        elif isinstance(signal, Barrier):
            self._barrier(signal)

    def restarted(self) -> None:
        self._restarts.inc()

    def rests(self, seconds: float) -> None:
        """A candidate rests so long, to leave the machine to others."""
        self._rested.inc(seconds)

    def waiting_for_region(self, now: bool) -> None:
        self._waiting_for_region.set(now)

    def _barrier(self, one: Barrier) -> None:
        self.stands_at(one)
        self._epochs.inc()
        self._events.inc(one.events)
        self._rejected.inc(one.rejected)
        self._late.inc(one.late)
        self._rows.inc(one.rows)
        self._tombstones.inc(one.tombstones)
        self._seconds.observe(max(0, one.written_ms - one.epoch_started_ms) / 1000)

"""The HTTP server of every port: uvicorn with additional limits.

One thread serves all connections. A request's head and body each have a time limit, and the head has a size limit.
`core.util.connection_limits` limits connections and concurrent requests. Health checks do not count as requests.
"""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cutwater.adapters.http.access import OPEN_PATHS, App, Receive, Scope, Send, refuse
from cutwater.core.util.connection_limits import Bounds, Connections

API_BOUNDS = Bounds(every=768, by_address=640, working=512, working_by_address=448)
METRICS_BOUNDS = Bounds(every=64, by_address=48, working=16, working_by_address=12)
BACKLOG = 512
HEAD_BYTES_MAX = 128 << 10
"""A key is part of the URL, of which httptools reads 64 KiB."""
PIPELINED_MAX = 16
CLOSE_S = 5.0
_FULL = "too many concurrent requests: {}. Retry in a moment"
REASONS = ("head-time", "head-size", "body-time", "stalled", "pushed-out", "busy", "malformed")


class Times(NamedTuple):
    """Time limits for a client, in seconds."""

    head_s: float = 10.0
    """From the connection, or the first byte after an answer, to the end of a request's head."""
    body_s: float = 30.0
    stalled_s: float = 3_600.0
    """Without reading the answer. An export waits for its reader, which may write to a disk meanwhile."""


class HttpMetrics:
    """Metrics of one port and of its process. `close` unregisters them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        here: dict[str, Any] = {"registry": registry, "namespace": "cutwater", "subsystem": "http"}
        self._registry = registry
        # CPU seconds, resident memory, open files: `process_*`, the names that dashboards know.
        self._process = ProcessCollector(registry=registry)
        self.open = Gauge("connections", "Open connections.", **here)
        self.working = Gauge("requests", "Requests in progress, health checks not counted.", **here)
        self._ended = Counter(
            "ended",
            "Connections and requests ended by a limit: of time (head-time, body-time, stalled), of size "
            "(head-size), of connections (pushed-out), of concurrent requests (busy); or not HTTP (malformed).",
            ["reason"],
            **here,
        )
        for reason in REASONS:
            self._ended.labels(reason)  # exported from 0: an alert does not see a first count

    def count_end(self, reason: str) -> None:
        self._ended.labels(reason).inc()

    def close(self) -> None:
        for one in (self.open, self.working, self._ended, self._process):
            self._registry.unregister(one)


class Port:
    def __init__(self, bounds: Bounds, times: Times, metrics: HttpMetrics) -> None:
        self.connections: Connections[_Connection] = Connections(bounds)
        self.times, self.metrics = times, metrics
        self.large_heads_bytes = 0
        metrics.open.set_function(lambda: len(self.connections))
        metrics.working.set_function(lambda: self.connections.working_count)


class _Connection(HttpToolsProtocol):
    """One connection. It overrides asyncio's protocol and the callbacks of httptools' parser."""

    def __init__(self, port: Port, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._port = port
        self._timer: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._in_head = True
        self._head_bytes = 0
        """Bytes of the head that is being received."""
        self._body_bytes = 0
        """Bytes of bodies among those that came last: they may end a body and begin a head."""
        self._application = self.app
        self.app = self._answer

    # --- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await("head", self._port.times.head_s)
        cut = self._port.connections.opened(self, self.client[0] if self.client else "")
        if cut is not None:
            cut.cut_off("pushed-out")

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        self._flowing()
        self._port.connections.remove(self)
        super().connection_lost(exc)

    def cut_off(self, reason: str) -> None:
        self._port.metrics.count_end(reason)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._body_bytes = 0
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        self._head_bytes += len(data) - self._body_bytes
        if self._head_bytes > HEAD_BYTES_MAX:
            self._send_last(431, "head-size", f"a request's head has at most {HEAD_BYTES_MAX:,} bytes")
        elif self._timer is None:
            self._await("head", self._port.times.head_s)  # bytes that start no request

    def send_400_response(self, msg: str) -> None:
        self._port.metrics.count_end("malformed")
        super().send_400_response(msg)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stall is None:
            self._await_reader()

    def resume_writing(self) -> None:
        self._flowing()
        super().resume_writing()

    # --- a request

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._await("head", self._port.times.head_s)

    def on_headers_complete(self) -> None:
        self._in_time()
        self._in_head, self._head_bytes = False, 0
        if len(self.pipeline) >= PIPELINED_MAX:
            self.transport.abort()
        if self.transport.is_closing():
            return
        self._await("body", self._port.times.body_s)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_time()
        self._in_head = True
        if not self.transport.is_closing():
            super().on_message_complete()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        application = cast(App, self._application)
        if scope["type"] == "http" and scope["path"] in OPEN_PATHS:
            await application(scope, receive, send)
            return
        if problem := self._port.connections.begin_request(self):
            self._port.metrics.count_end("busy")
            await refuse(send, 503, _FULL.format(problem), (b"retry-after", b"1"))
            return
        try:
            await application(scope, receive, send)
        finally:
            self._port.connections.end_request(self)

    # --- its times and sizes

    def _await(self, part: str, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._late, part, seconds)

    def _in_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self, part: str, seconds: float) -> None:
        self._timer = None
        if self.flow.read_paused:
            self._await(part, seconds)  # this server paused reading
        elif self._head_bytes or part == "body":
            self._send_last(408, f"{part}-time", f"a request's {part} must arrive within {seconds:g} s")
        else:
            self.cut_off(f"{part}-time")  # there is no request to answer

    def _send_last(self, status: int, reason: str, problem: str) -> None:
        """Send a last answer and close, unless a response has started."""
        if self.transport.is_closing():
            return
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.cut_off(reason)
            return
        self._port.metrics.count_end(reason)
        body = json.dumps({"detail": problem}).encode()
        head = f"HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        self.transport.close()

    def _await_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._stall = self.loop.call_later(self._port.times.stalled_s, self._stalled, left)

    def _stalled(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._await_reader()  # it reads, but slowly
        else:
            self.cut_off("stalled")

    def _flowing(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None


class HttpServer:
    """One application on one port. `run` in a thread; `stop` from any other."""

    def __init__(
        self, app: Any, listener: socket.socket, bounds: Bounds, metrics: HttpMetrics, times: Times | None = None
    ) -> None:
        _allow_files(bounds.every)
        self._listener = listener
        port = Port(bounds, times or Times(), metrics)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=cast("type[asyncio.Protocol]", partial(_Connection, port)),
                ws="none",
                log_level="error",  # malformed requests are counted, and must not fill the log
                access_log=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=1,
                lifespan="off",
            )
        )

    def run(self) -> None:
        self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        """End `run` within one or two seconds."""
        self._server.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Bind the port before the web server starts, which would print a stack trace. Raises OSError."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _allow_files(count: int) -> None:
    """Raise the soft limit of open files by `count`, up to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        more = soft + count if hard == resource.RLIM_INFINITY else min(soft + count, hard)
        with suppress(ValueError, OSError):  # the system may refuse in spite of an unlimited hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))

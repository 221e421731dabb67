"""A collector of traces: OpenTelemetry's protocol over HTTP, decoded by its own library."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Span(NamedTuple):
    service: str
    name: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    start_ns: int
    end_ns: int
    attributes: frozenset[str]


class Collector:
    """`requests`: path and authorization of each; `spans`: what they told."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.spans: list[Span] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                outer.take(ExportTraceServiceRequest.FromString(body))
                outer.requests.append((self.path, self.headers.get("authorization", "")))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, told: ExportTraceServiceRequest) -> None:
        self.spans += [
            Span(
                resource.resource.attributes[0].value.string_value,
                span.name,
                span.trace_id,
                span.span_id,
                span.parent_span_id,
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                frozenset(one.key for one in span.attributes),
            )
            for resource in told.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

"""Traces as a collector gets them: OpenTelemetry's protocol over HTTP, decoded by its own library."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from cutwater.adapters.http.trace_exporter import TraceExporter
from cutwater.core.errors import UsageError
from cutwater.core.monitoring.job_status import JobStatus, Reader
from cutwater.core.monitoring.job_status_fold import take_signal, take_stream
from cutwater.core.monitoring.trace_steps import trace_id
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Committed
from cutwater.watch.milestone_tracer import MilestoneTracer
from support.protocol_samples import GENERATION, JOB, milestone


class Collector:
    def __init__(self) -> None:
        self.requests: list[tuple[str, str, ExportTraceServiceRequest]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                told = ExportTraceServiceRequest.FromString(body)
                outer.requests.append((self.path, self.headers.get("authorization", ""), told))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def test_a_milestone_is_a_trace(collector: Collector) -> None:
    """One for each, with a span for each step, by service; the times are those of the records."""
    tracer = MilestoneTracer(TraceExporter(collector.url, "s3cret"), publishes=True, serves=False)
    state = JobStatus(JOB, GENERATION)
    one = milestone(1, epoch_started_ms=10_000, written_ms=10_400, committed_ms=10_500)
    hinted = take_signal(
        state, topics.barriers(JOB), 0, Committed(JOB, GENERATION, one.attempt, one.epoch, 10_450)
    )
    tracer.follow(state, hinted)
    after = take_stream(hinted, topics.milestones(JOB), 0, one)
    tracer.follow(hinted, after)
    published = replace(after, publisher=Reader(one.sequence, 10_620))
    tracer.follow(after, published)
    tracer.follow(published, published)
    tracer.close()
    ((path, token, told),) = collector.requests
    assert (path, token) == ("/v1/traces", "Bearer s3cret")
    spans = {
        span.name: (resource.resource.attributes[0].value.string_value, span)
        for resource in told.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    assert {name: service for name, (service, _) in spans.items()} == {
        "milestone": "cutwater",
        "epoch": "cutwater-driver",
        "checkpoint": "cutwater-driver",
        "commit": "cutwater-commit-signal",
        "publish": "cutwater-publisher",
    }
    assert {span.trace_id for _, span in spans.values()} == {trace_id(one).to_bytes(16, "big")}
    root = spans["milestone"][1]
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (10_000 * 10**6, 10_620 * 10**6)
    assert all(span.parent_span_id == root.span_id for name, (_, span) in spans.items() if name != "milestone")
    assert {one.key for one in root.attributes} >= {"cutwater.job", "cutwater.milestone", "cutwater.events"}


def test_a_collector_that_is_away_stops_nothing() -> None:
    tracer = MilestoneTracer(TraceExporter("http://127.0.0.1:9", ""), publishes=False, serves=False)
    state = JobStatus(JOB, GENERATION)
    tracer.follow(state, take_stream(state, topics.milestones(JOB), 0, milestone(1)))


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="CUTWATER_OTLP_URL"):
        TraceExporter("collector:4318", "")

"""What watch sends of milestones, as a collector gets it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cutwater.adapters.http.trace_exporter import TraceExporter
from cutwater.core.errors import UsageError
from cutwater.core.monitoring.job_status import JobStatus, Reader
from cutwater.core.monitoring.job_status_fold import take_signal, take_stream
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Committed
from cutwater.core.tracing.trace_steps import trace_id
from cutwater.watch.milestone_tracer import MilestoneTracer
from support.collector import Collector
from support.protocol_samples import GENERATION, JOB, milestone


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
    hint = Committed(JOB, GENERATION, one.attempt, one.epoch, 10_450)
    hinted = take_signal(state, topics.barriers(JOB), 0, hint)
    tracer.follow(state, hinted)
    after = take_stream(hinted, topics.milestones(JOB), 0, one)
    tracer.follow(hinted, after)
    published = replace(after, publisher=Reader(one.sequence, 10_620))
    tracer.follow(after, published)
    tracer.follow(published, published)
    tracer.close()
    assert collector.requests == [("/v1/traces", "Bearer s3cret")]
    spans = {span.name: span for span in collector.spans}
    assert {name: span.service for name, span in spans.items()} == {
        "milestone": "cutwater",
        "epoch": "cutwater-driver",
        "checkpoint": "cutwater-driver",
        "commit": "cutwater-commit-signal",
        "publish": "cutwater-publisher",
    }
    assert {span.trace_id for span in spans.values()} == {trace_id(one).to_bytes(16, "big")}
    root = spans["milestone"]
    assert (root.start_ns, root.end_ns) == (10_000 * 10**6, 10_620 * 10**6)
    assert all(span.parent_id == root.span_id for name, span in spans.items() if name != "milestone")
    assert root.attributes >= {"cutwater.job", "cutwater.milestone", "cutwater.events"}


def test_a_collector_that_is_away_stops_nothing() -> None:
    tracer = MilestoneTracer(TraceExporter("http://127.0.0.1:9", ""), publishes=False, serves=False)
    state = JobStatus(JOB, GENERATION)
    tracer.follow(state, take_stream(state, topics.milestones(JOB), 0, milestone(1)))


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="CUTWATER_OTLP_URL"):
        TraceExporter("collector:4318", "")

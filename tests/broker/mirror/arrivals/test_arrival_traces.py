"""A mirror with a collector: the steps of each milestone in the region that it is copied to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.exposition import choose_encoder

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.http.trace_exporter import TraceExporter
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Milestone
from cutwater.core.tracing.trace_steps import trace_id
from support.collector import Collector
from support.regions.mirroring import Events, arrivals, epoch, mirroring, read_all, wait_arrived
from support.views.changelogs import Writing


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def test_arrivals_are_steps_of_the_origin_s_traces(
    broker: Any, writing: Writing, events: Events, collector: Collector
) -> None:
    """Copy and arrival of each, without a gap, up to the time in its arrival; and the metrics name the trace."""
    exporter = TraceExporter(collector.url, "")
    with mirroring(broker.cluster, writing.cluster, writing.job, exporter=exporter, region="there") as mirror:
        for number in (1, 2):
            wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, number))
        encode, _ = choose_encoder("application/openmetrics-text; version=1.0.0")
        shown = encode(mirror.metrics.registry).decode()
    stream = [
        protocol_records.decode(one.value or b"")
        for one in read_all(writing.cluster, topics.milestones(writing.job.name), 0)
    ]
    milestones = [one for one in stream if isinstance(one, Milestone)]
    found = {(span.trace_id, span.name): span for span in collector.spans}
    assert len(found) == len(collector.spans) == 4
    for milestone, arrival in zip(milestones, arrivals(broker.cluster, writing.job), strict=True):
        number = trace_id(milestone).to_bytes(16, "big")
        copy, arrive = found[number, "copy"], found[number, "arrive"]
        assert copy.end_ns == arrive.start_ns
        assert arrive.end_ns == max(arrival.arrived_ms * 10**6, arrive.start_ns)
        assert copy.start_ns == milestone.committed_ms * 10**6
        assert copy.attributes == {"cutwater.region"}
        assert f'trace_id="{trace_id(milestone):032x}"' in shown or milestone is milestones[0]

"""What a driver tells beside the protocol: Spark's own figures as metrics, and the inside of epochs as traces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cutwater.core.tracing.trace_steps import milestone_trace, trace_id
from cutwater.local.machine.ports import free_ports
from support.collector import Collector, Span
from support.events import counting
from support.harness import Flow, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("shared_spark")]
INSIDE = ["clear", "rows", "prove", "list"]
PLAN = ["offsets", "write-ahead", "planning", "start"]


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def figures(port: int) -> dict[str, float]:
    """By name, with the value of the label if there is one: `state_task_seconds_total/commit`."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=20).text
    return {
        "/".join([one.name.removeprefix("cutwater_driver_"), *one.labels.values()]): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


@pytest.mark.slow
def test_spark_s_progress_is_told_as_metrics_and_as_steps(job: Flow, collector: Collector) -> None:
    """Of each epoch once. The steps cover the time from Spark's trigger to the barrier."""
    made, port = counting.events(4_000), free_ports(1)[0]
    job.produce(made)
    job.signal()
    driver = job.driver(CUTWATER_DRIVER_PORT=str(port), CUTWATER_OTLP_URL=collector.url)
    job.wait_committed()
    stream = [one for one, _ in job.milestones()]
    rows = sum(one.rows for one in stream)
    wait_until(lambda: figures(port)["state_updated_rows_total"] >= rows, "the progress of the last epoch")
    wait_until(lambda: figures(port)["jvm_jit_seconds_total"] > 0, "a look at the JVM")
    found = figures(port)
    assert found["state_updated_rows_total"] == rows
    assert found["rocksdb_puts_total"] >= rows
    assert found["state_memory_bytes"] > 0
    assert found["state_task_seconds_total/commit"] > 0
    assert found["spilled_bytes_total"] >= 0
    phases = {
        name.rpartition("/")[2]: each for name, each in found.items() if "spark_phase_seconds_total/" in name
    }
    whole = phases.pop("triggerExecution")
    assert 0.8 * whole < sum(phases.values()) <= whole
    driver.terminate()
    assert driver.wait(60) == 0
    spans = by_trace(collector)
    for one in stream[:-1]:
        mine = spans[trace_id(one).to_bytes(16, "big")]
        check_steps(mine, one)


def by_trace(collector: Collector) -> dict[bytes, dict[str, Span]]:
    found: dict[bytes, dict[str, Span]] = defaultdict(dict)
    for span in collector.spans:
        assert span.name not in found[span.trace_id], "told twice"
        found[span.trace_id][span.name] = span
    return found


def check_steps(spans: dict[str, Span], one: Any) -> None:
    """Chains without a gap, below the spans that watch sends."""
    assert set(spans) == {*INSIDE, "barrier", "plan", *PLAN, "commit-log"}
    root, epoch = milestone_trace(one, None, None, None).steps[:2]
    ms = 10**6
    for names, begin, end, parent in (
        (INSIDE, one.epoch_started_ms * ms, one.written_ms * ms, epoch.span_id.to_bytes(8, "big")),
        (PLAN, spans["plan"].start_ns, one.epoch_started_ms * ms, spans["plan"].span_id),
    ):
        ends = [spans[name].end_ns for name in names]
        assert [spans[name].start_ns for name in names] == [begin, *ends[:-1]]
        assert {spans[name].parent_id for name in names} == {parent}
        assert ends[-1] == end
    assert spans["plan"].end_ns == one.epoch_started_ms * ms
    assert spans["barrier"].start_ns == one.written_ms * ms
    for name in ("plan", "barrier", "commit-log"):
        assert spans[name].parent_id == root.span_id.to_bytes(8, "big")
    assert one.written_ms * ms <= spans["commit-log"].end_ns <= (one.committed_ms + 1_000) * ms

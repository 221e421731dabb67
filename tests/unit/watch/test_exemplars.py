"""Metrics name the trace of what they count, to those who ask for OpenMetrics."""

from __future__ import annotations

from prometheus_client.exposition import choose_encoder

from cutwater.core.tracing.trace_steps import trace_id
from cutwater.watch.metrics import Metrics
from support.protocol_samples import milestone

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def exposed(accept: str, is_traced: bool) -> str:
    metrics = Metrics()
    metrics.milestone(milestone(1), is_traced)
    metrics.published(milestone(1), 0, is_traced)
    encode, _ = choose_encoder(accept)
    return encode(metrics.registry).decode()


def test_an_exemplar_is_the_milestone_s_trace() -> None:
    wanted = f'trace_id="{trace_id(milestone(1)):032x}"'
    assert exposed(OPEN_METRICS, True).count(wanted) == 3
    assert wanted not in exposed(OPEN_METRICS, False)
    assert wanted not in exposed("text/plain", True)

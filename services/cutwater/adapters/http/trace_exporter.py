"""Sends traces to a collector by OpenTelemetry's protocol over HTTP."""

from __future__ import annotations

from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.core.errors import MachineError, UsageError
from cutwater.core.tracing.trace_steps import Step, Trace

SENT_S = 5.0
"""The longest time for what is left at the end."""
QUEUE_MAX = 4_096
"""Spans that wait for the collector; more are dropped, which the library logs."""
_PATH = "/v1/traces"


class TraceExporter:
    """Sends traces in a thread of its own: a collector that is away stops nothing.

    Raises MachineError if OpenTelemetry is not installed, UsageError for an invalid URL.
    """

    def __init__(self, url: str, token: str) -> None:
        """`url`: of the collector, without the path of traces."""
        if not url.startswith(("http://", "https://")):
            raise UsageError("CUTWATER_OTLP_URL: it must start with http:// or https://")
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import ReadableSpan
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace import SpanContext, TraceFlags
        except ImportError as error:
            raise MachineError(f"traces need OpenTelemetry ({error}): pip install 'cutwater[otel]'") from None
        headers = {"authorization": f"Bearer {token}"} if token else {}
        exporter = OTLPSpanExporter(endpoint=url.rstrip("/") + _PATH, headers=headers, timeout=SENT_S)
        self._sending: Any = BatchSpanProcessor(exporter, max_queue_size=QUEUE_MAX)
        self._span, self._context, self._resource = ReadableSpan, SpanContext, Resource
        self._flags = TraceFlags(TraceFlags.SAMPLED)

    def send(self, trace: Trace) -> None:
        for step in trace.steps:
            self._sending.on_end(self._as_span(trace, step))

    def close(self) -> None:
        """Send what is left, for at most some seconds."""
        self._sending.force_flush(int(SENT_S * 1_000))
        self._sending.shutdown()

    def _as_span(self, trace: Trace, step: Step) -> Any:
        def context(number: int) -> Any:
            return self._context(trace.trace_id, number, is_remote=False, trace_flags=self._flags)

        return self._span(
            name=step.name,
            context=context(step.span_id),
            parent=None if step.parent_id is None else context(step.parent_id),
            resource=self._resource({"service.name": step.service}),
            attributes=step.attributes,
            start_time=step.start_ms * 1_000_000,
            end_time=step.end_ms * 1_000_000,
        )


def exporter_of(settings: Settings) -> TraceExporter | None:
    """Return the exporter to the collector of the settings; None if there is none. Raises as the class does."""
    if not settings.otlp_url:
        return None
    return TraceExporter(settings.otlp_url, settings.otlp_token.get_secret_value())

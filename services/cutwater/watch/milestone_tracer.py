"""Follows the states of a job and sends the trace of each milestone once its last step is known."""

from __future__ import annotations

from cutwater.adapters.http.trace_exporter import TraceExporter
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.tracing.milestone_traces import OpenTraces


class MilestoneTracer:
    def __init__(self, exporter: TraceExporter, publishes: bool, serves: bool) -> None:
        """`publishes`, `serves`: whether there will be an output, a view."""
        self._exporter = exporter
        self._open = OpenTraces(publishes, serves)

    def follow(self, before: JobStatus, after: JobStatus) -> None:
        """Take what a record, or a look at the view, has changed."""
        committed, view = after.committed, after.view
        if after.hint is not None and after.hint is not before.hint:
            self._open = self._open.hint(after.hint)
        if committed is not None and committed is not before.committed:
            self._open = self._open.add(committed)
        if after.publisher is not before.publisher and after.publisher.sequence != before.publisher.sequence:
            self._open = self._open.publish(after.publisher.sequence, after.publisher.moved_ms)
        if view is not None and view.sequence != (before.view.sequence if before.view else 0):
            self._open = self._open.apply(view.sequence, view.moved_ms)
        self._open, finished = self._open.take_finished()
        for one in finished:
            self._exporter.send(one)

    def close(self) -> None:
        """Send what is left, for at most some seconds."""
        self._exporter.close()

"""Sends the steps of a milestone's trace in this region: it is copied, and then complete."""

from __future__ import annotations

from collections.abc import Callable

from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.mirror_records import Arrival
from cutwater.core.protocol.records import Milestone
from cutwater.core.tracing.trace_steps import Trace, arrival_trace

OPEN_MAX = 1_000
"""Copied milestones that have not arrived; the oldest gets no steps if there are more, as in a resync."""


class ArrivalTracer:
    """`send`: takes a trace without waiting. `region`: the name of this region."""

    def __init__(self, send: Callable[[Trace], None], region: str) -> None:
        self._send = send
        self._region = region
        self._copied: dict[Token, tuple[Milestone, int]] = {}

    def copied(self, milestone: Milestone, at_ms: int) -> None:
        """Keep when a milestone was found among the copies."""
        while len(self._copied) >= OPEN_MAX:
            del self._copied[next(iter(self._copied))]
        self._copied[milestone.token] = milestone, at_ms

    def arrived(self, arrival: Arrival) -> Trace | None:
        """Send an arrival's steps, and return them. None for a milestone that is not known here any more."""
        known = self._copied.pop(arrival.token, None)
        if known is None:
            return None
        trace = arrival_trace(known[0], self._region, known[1], arrival.arrived_ms)
        self._send(trace)
        return trace

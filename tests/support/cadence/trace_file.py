"""A trace that a real driver left, to be played again under any setting.

`make bench B=cadence` writes such a file. So does `benchmarks.cadence.outcome.trace` of any commit stream's
milestones (`epoch_started_ms`, `committed_ms`, `events`) and the times of the source's records.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cutwater.core.job.job import Objectives
from support.cadence.traces import OfTime, Trace, steady

CHANGING = Path(__file__).with_name("changing.json")
"""`make demo-change`: flights, while a candidate, a canary and a preview of the job run beside it."""
READABLE_MS = 6_000
"""Its epochs take one to three seconds."""
EVENTS_REACHED = 16_000
"""No epoch of it has more events, under any setting but the longest intervals."""


class Cost(NamedTuple):
    """Of epochs that begin at this moment or later. Seconds."""

    at_s: float
    fixed_s: float
    event_s: float


class Run(NamedTuple):
    """What came and what epochs cost in some seconds, the first of which is 0."""

    events: Sequence[float]
    """Of each second."""
    costs: Sequence[Cost]
    """In the order of their moments."""


def read_run(file: Path) -> Run:
    """What came in each second, and what the driver's epochs cost at their moments."""
    found = json.loads(file.read_text(encoding="utf-8"))
    costs = [Cost(one["at_s"], one["fixed_s"], one["event_us"] / 1e6) for one in found["epochs"]]
    return Run(found["events_of_second"], costs)


def trace_of(name: str, run: Run) -> Trace:
    moments = [one.at_s for one in run.costs]
    return Trace(
        name,
        Objectives(readable_p99_ms=READABLE_MS),
        lambda at_s: float(run.events[min(int(at_s), len(run.events) - 1)]),
        fixed_s=_newest(moments, [one.fixed_s for one in run.costs]),
        event_s=_newest(moments, [one.event_s for one in run.costs]),
        largest=steady(0.0),  # as it was: the costs are those of whole epochs
        lasts_s=float(len(run.events)),
    )


def recorded(file: Path) -> Trace:
    return trace_of(file.stem, read_run(file))


def _newest(moments: Sequence[float], values: Sequence[float]) -> OfTime:
    """The value of the last moment, or of the first one before it."""
    return lambda at_s: values[max(bisect_right(moments, at_s) - 1, 0)]

"""A trace that a real driver left, to be played again under any setting.

`make bench B=cadence` writes such a file. So does `benchmarks.cadence.outcome.trace` of any commit stream's
milestones (`epoch_started_ms`, `committed_ms`, `events`) and the times of the source's records.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from cutwater.core.job.job import Objectives
from support.cadence.traces import OfTime, Trace, steady

CHANGING = Path(__file__).with_name("changing.json")
"""`make demo-change`: flights, while a candidate, a canary and a preview of the job run beside it."""
READABLE_MS = 6_000
"""Its epochs take one to three seconds."""


def recorded(file: Path) -> Trace:
    """What came in each second, and what the driver's epochs cost at their moments."""
    found = json.loads(file.read_text(encoding="utf-8"))
    events, epochs = found["events_of_second"], found["epochs"]
    moments = [one["at_s"] for one in epochs]
    return Trace(
        file.stem,
        Objectives(readable_p99_ms=READABLE_MS),
        lambda at_s: float(events[min(int(at_s), len(events) - 1)]),
        fixed_s=_newest(moments, [one["fixed_s"] for one in epochs]),
        event_s=_newest(moments, [one["event_us"] / 1e6 for one in epochs]),
        largest=steady(0.0),  # as it was: the costs are those of whole epochs
        lasts_s=float(len(events)),
    )


def _newest(moments: Sequence[float], values: Sequence[float]) -> OfTime:
    """The value of the last moment, or of the first one before it."""
    return lambda at_s: values[max(bisect_right(moments, at_s) - 1, 0)]

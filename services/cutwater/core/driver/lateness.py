"""When windows close: by Spark's own watermark, or by a floor that lags behind the job's watermark.

Spark drops events of closed windows and evicts their rows. It looks for them by a walk over the whole state, in
each epoch. With a floor the query has no watermark: it drops the events of windows below the floor, and only a
*cleaning* raises the floor and evicts rows. So an event may come between floor and
watermark: it amends a window that was told as final.

A cleaning costs two starts of the query and one walk over the state. Until then closed rows stay in the state. So
it is due once the closed part of the state is as long, in event time, as the part that must stay; and not again
within some time, which is longer in a backlog. What stays is bounded by that time and the rate of events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cutwater.core.driver.input_stats import InputStats
from cutwater.core.generations.start_state import StartState
from cutwater.core.protocol.cuts import EpochPlan, Range
from cutwater.core.protocol.records import Barrier

SHARE = 0.5
"""The share of closed event time in the state from which a cleaning is worth its cost."""
BACKLOG = 5.0
"""In a backlog the least time between two cleanings is longer by this factor."""


class Closing(Protocol):
    """How the windows of one query close."""

    def range(self, plan: EpochPlan, before: EpochPlan | None) -> Range:
        """Return an epoch's offsets, and up to where windows are closed for its events. `before`: the plan of the
        epoch before."""

    def watermark_ms(self, plan: EpochPlan, before: Barrier | None, seen: InputStats) -> int:
        """Return the watermark of an epoch's barrier. `before`: the barrier of the epoch before."""

    def floor_ms(self, watermark_ms: int) -> int:
        """Return the floor of an epoch's barrier."""


@dataclass(frozen=True)
class ByWatermark:
    """Spark closes windows by the watermark of its plans."""

    origin: StartState

    def range(self, plan: EpochPlan, before: EpochPlan | None) -> Range:
        return self.origin.range(plan, before)

    def watermark_ms(self, plan: EpochPlan, before: Barrier | None, seen: InputStats) -> int:
        stands = before.watermark_ms if before else 0  # higher if the job's windows closed by a floor before
        return max(self.origin.watermark_ms(plan), stands)

    def floor_ms(self, watermark_ms: int) -> int:
        return watermark_ms


@dataclass(frozen=True)
class ByFloor:
    """The floor closes windows. It is the same for all epochs of a query, and stored before the query starts."""

    origin: StartState
    floor: int
    lateness_ms: int

    def range(self, plan: EpochPlan, before: EpochPlan | None) -> Range:
        return Range(before.source_cut if before else self.origin.source_cut, plan.source_cut, self.floor)

    def watermark_ms(self, plan: EpochPlan, before: Barrier | None, seen: InputStats) -> int:
        """Return the newest event time less the lateness; it never goes back.

        Of a backlog the partitions may be far apart in event time: the one that is furthest behind counts there.
        """
        stands = max(self.floor, before.watermark_ms if before else self.origin.first_watermark_ms)
        if not seen.newest_ms:
            return stands
        newest = seen.newest_ms.values()
        return max(stands, (min(newest) if seen.full else max(newest)) - self.lateness_ms)

    def floor_ms(self, watermark_ms: int) -> int:
        return self.floor


class StateSpan(NamedTuple):
    """The event time that the state covers, in ms."""

    cleaned_ms: int
    """The state has no window that ends at or below it."""
    watermark_ms: int
    newest_ms: int
    """The newest event time; at least the watermark."""


def due_floor(span: StateSpan, amend_for_ms: int, rested_s: float, rest_s: float, backlog: bool) -> int | None:
    """Return the floor to raise to; None if no cleaning is due.

    `rested_s`: the time since the last one. `rest_s`: the least time between two.
    """
    wanted = span.watermark_ms - amend_for_ms
    closed, stays = wanted - span.cleaned_ms, span.newest_ms - wanted
    if closed <= 0 or closed < SHARE / (1 - SHARE) * stays:
        return None
    return wanted if rested_s >= rest_s * (BACKLOG if backlog else 1) else None

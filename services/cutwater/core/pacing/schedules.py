"""Schedules: when a candidate may work, how fast it may read, and how long the promoted driver may wait for it.

A schedule bounds a planned hand-over and nothing else: a rollback and a failover are remedies, so none applies to
them. Its record is on the topic of candidates, beside the claim, so driver and commit-signal on any machine know
it. The newest record counts. A promotion may take any time to catch up, so a schedule breaks no invariant.
"""

from __future__ import annotations

from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import Candidate
from cutwater.core.generations.holds import may_be_held
from cutwater.core.job.job import Objectives
from cutwater.core.pacing.maintenance_windows import MaintenanceWindows
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Schedule
from cutwater.core.util.timestamps import iso

YIELD_MS_MAX = 300_000
"""Readers of the promoted generation wait for so much longer at most."""
RATE_MAX = 1_000_000_000
BOUND_USED = 0.7
"""A candidate that reads more than this share of its bound is slow because of the bound: the start of each epoch
takes time too."""
AIM = 0.95
"""The share of an objective that is aimed at, as by the cadence."""
SHOWN_S = 0.3
"""From an epoch's end to a view that shows it."""


class WorkBounds(NamedTuple):
    """What an operator asks for."""

    windows: MaintenanceWindows = MaintenanceWindows()
    max_events_per_s: int = 0
    """0: as fast as it can."""
    yield_ms: int = 0
    """By so much later may rows of the promoted generation become readable; 0: not at all."""

    def record(self, job: str, generation: Generation, by: str, at_ms: int) -> Schedule:
        """Return the record. Raises UsageError for a number out of its range."""
        if not 0 <= self.max_events_per_s <= RATE_MAX:
            raise UsageError(f"--max-rate is 0 to {RATE_MAX:,} events/s")
        if not 0 <= self.yield_ms <= YIELD_MS_MAX:
            raise UsageError(f"--yield is at most {YIELD_MS_MAX // 60_000} m: readers wait for it")
        named = tuple(map(str, self.windows.windows))
        return Schedule(job, generation, named, self.windows.zone, self.max_events_per_s, self.yield_ms, by, at_ms)

    def __str__(self) -> str:
        rate = f"at most {self.max_events_per_s:,} events/s" if self.max_events_per_s else "no bound on its rate"
        yields = f"; the promoted driver yields {self.yield_ms / 1_000:g} s" if self.yield_ms else ""
        return f"{self.windows}; {rate}{yields}"


UNBOUND = WorkBounds()


def bounds_of(candidate: Candidate) -> WorkBounds:
    """Return what applies to a candidate: nothing if it has no schedule, is given up, or is a remedy."""
    one = candidate.schedule
    if one is None or not candidate.open or not may_be_held(candidate.claim):
        return UNBOUND
    windows = MaintenanceWindows.parse(one.windows, one.zone)
    return WorkBounds(windows, one.max_events_per_s, one.yield_ms)


def closed_text(candidate: Candidate, now_ms: int) -> str:
    """Return that a candidate waits for its window, and until when; empty if it need not wait."""
    windows = bounds_of(candidate).windows
    if windows.is_open(now_ms):
        return ""
    opens_ms = windows.next_change_ms(now_ms)
    until = f"until {iso(opens_ms)}" if opens_ms is not None else "for more than four days"
    return f"it waits {until}: its windows are {windows}"


def yield_s(bounds: WorkBounds, objectives: Objectives, epoch_s: float) -> float:
    """Return how long the promoted driver may wait before an epoch for a candidate with these bounds.

    An event that arrives during such a wait waits for this epoch and for the next one, so it is half of what was
    asked for. With an objective for readers it is at most what the objective leaves behind two epochs.
    `epoch_s`: the time of one epoch.
    """
    wait_s = bounds.yield_ms / 2_000
    if objectives.readable_p99_ms is not None:
        wait_s = min(wait_s, (AIM * objectives.readable_p99_ms / 1_000 - SHOWN_S - 2 * epoch_s) / 2)
    return max(wait_s, 0.0)

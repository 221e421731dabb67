"""Estimate of a candidate's catch-up with the newest milestone: lag, rates and remaining time.

The candidate's rate is measured between its two newest milestones, the promoted generation's between the parent
and the newest milestone of the commit stream, since the target moves meanwhile. With maintenance windows only the
time within them counts for the candidate, and the promoted generation goes on outside of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cutwater.core.generations.candidates import Candidate, events_behind
from cutwater.core.pacing.maintenance_windows import DAY_MS, MaintenanceWindows
from cutwater.core.pacing.schedules import BOUND_USED, WorkBounds, bounds_of
from cutwater.core.protocol.records import Milestone

FORECAST_DAYS = 14
SPARE = 1.2
"""A bound that is proposed is so many times what would just do."""


class Approach(NamedTuple):
    """The progress of a candidate that has not reached the newest milestone."""

    events: int
    """Events left to read."""
    reads_per_s: float
    """While its windows are open."""
    comes_per_s: float
    """Average rate of events that the promoted generation has read since the parent."""

    @property
    def left_s(self) -> float | None:
        """Remaining time without windows; None if the candidate does not catch up."""
        nearer = self.reads_per_s - self.comes_per_s
        return self.events / nearer if nearer > 0 else None

    def __str__(self) -> str:
        left = f"about {self.left_s:,.0f} s left" if self.left_s is not None else "it does not catch up"
        return f"it reads {self.reads_per_s:,.0f} events/s and {self.comes_per_s:,.0f} arrive: {left}"


def approach(candidate: Candidate, parent: Milestone, last: Milestone) -> Approach | None:
    """Return the progress; None if nothing is left, no catch-up is needed, or two milestones are missing."""
    claim = candidate.claim
    if candidate.newest is None or candidate.before is None or claim.rewinds_to or claim.origin:
        return None
    left, reads = events_behind(candidate.newest, last), read_rate(candidate)
    if not left or reads is None:
        return None
    return Approach(left, reads, _per_s(parent, last, MaintenanceWindows()) or 0.0)


def read_rate(candidate: Candidate) -> float | None:
    """Return the events per second between its two newest milestones; None if it has not got two."""
    if candidate.newest is None or candidate.before is None:
        return None
    return _per_s(candidate.before, candidate.newest, bounds_of(candidate).windows)


def forecast_s(one: Approach, windows: MaintenanceWindows, now_ms: int) -> float | None:
    """Return the time until the candidate has caught up; None if it does not within two weeks.

    Its lag grows while windows are closed by what arrives, and shrinks within them if it reads more than that.
    """
    if not windows.windows:
        return one.left_s
    left = float(one.events)
    nearer = one.reads_per_s - one.comes_per_s
    for is_open, begin_ms, end_ms in windows.spans(now_ms, now_ms + FORECAST_DAYS * DAY_MS):
        seconds = (end_ms - begin_ms) / 1_000
        if is_open and nearer > 0 and left <= nearer * seconds:
            return (begin_ms - now_ms) / 1_000 + left / nearer
        left = max(left - nearer * seconds, 0.0) if is_open else left + one.comes_per_s * seconds
    return None


def needed_per_s(comes_per_s: float, windows: MaintenanceWindows, now_ms: int) -> float:
    """Return the rate within the windows at which a candidate just keeps up with what arrives all the time.

    Infinite if the windows do not open within a week.
    """
    week_ms = 7 * DAY_MS
    opened_ms = windows.open_ms(now_ms, now_ms + week_ms) if windows.windows else week_ms
    return comes_per_s * week_ms / opened_ms if opened_ms else math.inf


def approach_text(one: Approach, bounds: WorkBounds, command: str, now_ms: int) -> str:
    """Return rates and time left, or why it does not catch up and what to run."""
    left_s = forecast_s(one, bounds.windows, now_ms)
    within = " within its windows" if bounds.windows.windows else ""
    rates = f"it reads {one.reads_per_s:,.0f} events/s{within} and {one.comes_per_s:,.0f} arrive"
    if left_s is None:
        return f"{rates}: {too_slow_text(one, bounds, command, now_ms)}"
    return f"{rates}: about {left_s:,.0f} s left"


def too_slow_text(one: Approach, bounds: WorkBounds, command: str, now_ms: int) -> str:
    """Return why a candidate never catches up, and what to run; empty if it does.

    `command`: changes its schedule.
    """
    if forecast_s(one, bounds.windows, now_ms) is not None:
        return ""
    needed = needed_per_s(one.comes_per_s, bounds.windows, now_ms)
    within = " within its windows" if bounds.windows.windows else ""
    if bounds.max_events_per_s and one.reads_per_s >= BOUND_USED * bounds.max_events_per_s:
        return (
            f"it does not catch up with at most {bounds.max_events_per_s:,} events/s: it needs more than "
            f"{needed:,.0f}{within}. Run '{command} --max-rate {math.ceil(SPARE * needed)}'"
        )
    if one.reads_per_s > one.comes_per_s:
        return (
            f"it does not catch up: it needs more than {needed:,.0f} events/s{within}. Name longer windows: "
            f"'{command} --window ...', or '{command} --always'"
        )
    if not bounds.yield_ms:
        return (
            "it does not catch up: it is slower than what arrives. Let the promoted driver wait for it: "
            f"'{command} --yield 10s', or give its driver more cores"
        )
    return (
        "it does not catch up, although the promoted driver yields: give its driver more cores, or "
        f"'{command} --yield' more"
    )


def rate_warning(bounds: WorkBounds, comes_per_s: float, now_ms: int) -> str:
    """Return that a bound on the rate is too low for what arrives; empty if it is not, or nothing is known."""
    if not bounds.max_events_per_s or not comes_per_s:
        return ""
    needed = needed_per_s(comes_per_s, bounds.windows, now_ms)
    if bounds.max_events_per_s > needed:
        return ""
    within = " within its windows" if bounds.windows.windows else ""
    return (
        f"{comes_per_s:,.0f} events/s arrive now, so with at most {bounds.max_events_per_s:,} events/s it will "
        f"not catch up: it needs more than {needed:,.0f}{within}"
    )


def _per_s(earlier: Milestone, later: Milestone, windows: MaintenanceWindows) -> float | None:
    took_ms = later.committed_ms - earlier.committed_ms
    if took_ms > 0 and windows.windows:
        took_ms = windows.open_ms(earlier.committed_ms, later.committed_ms)
    return later.source_cut.records_since(earlier.source_cut) * 1_000 / took_ms if took_ms > 0 else None

"""What a job did about faults, by looks at it: its lag, the alerts, and when it had recovered.

The lag at a look is the time since the source had as many events as the newest milestone has read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.chaos.plan import LINK, ChaosPlan, Fault


class Look(NamedTuple):
    at_s: float
    """From the plan's start."""
    produced: int
    """Records on the source topic. Unchanged if the brokers do not answer."""
    read: int
    """Records below the source cut of the newest milestone. Unchanged if the brokers do not answer."""
    alerts: frozenset[str]
    """Names of the active alerts: kind and part."""
    answers: bool = True
    """Whether the brokers answer."""
    region_lag_s: float | None = None
    """Of another region: from its newest arrival's commit to that of the newest milestone. None without one."""


@dataclass(frozen=True)
class Reaction:
    """What happened behind one fault."""

    fault: Fault
    alert: str
    """The first alert raised behind its begin and before the next fault; empty if there was none."""
    alerted_s: float | None
    """From the fault's begin to that alert."""
    lag_max_s: float
    """Until the next fault."""
    recovered_s: float | None
    """From the fault's end until the lag was at most the bound, and the brokers answered; None if never."""
    in_time: bool


def lags(looks: Sequence[Look]) -> list[float]:
    """Return the lag at each look, seconds. `looks` are in their order, and counts never fall."""
    produced = [one.produced for one in looks]
    found = []
    for one in looks:
        if one.read >= one.produced:
            found.append(0.0)
            continue
        # The first look at which more had been produced than is read by now.
        at = bisect_left(produced, one.read + 1)
        found.append(one.at_s - looks[at].at_s)
    return found


def reactions(plan: ChaosPlan, looks: Sequence[Look]) -> list[Reaction]:
    """Return what happened behind each fault of the plan. `looks`: from before the first fault on."""
    found, of_job, of_region = [], lags(looks), [one.region_lag_s or 0.0 for one in looks]
    for number, fault in enumerate(plan.faults):
        series = list(zip(looks, of_region if fault.process == LINK else of_job, strict=True))
        following = plan.faults[number + 1].at_s if number + 1 < len(plan.faults) else float("inf")
        within = [(look, lag) for look, lag in series if fault.at_s <= look.at_s < following]
        known = _alerts_before(looks, fault.at_s)
        alert, alerted_s = _first_alert(within, known, fault)
        recovered_s = _recovered_s(series, fault, following, plan.lag_bound_s)
        in_time = recovered_s is not None and recovered_s <= plan.recovery_s
        lag_max_s = max((lag for _, lag in within), default=0.0)
        found.append(Reaction(fault, alert, alerted_s, lag_max_s, recovered_s, in_time))
    return found


def _alerts_before(looks: Sequence[Look], at_s: float) -> frozenset[str]:
    before = [one.alerts for one in looks if one.at_s < at_s]
    return before[-1] if before else frozenset()


def _first_alert(
    within: Sequence[tuple[Look, float]], known: frozenset[str], fault: Fault
) -> tuple[str, float | None]:
    for look, _ in within:
        if fresh := look.alerts - known:
            return min(fresh), look.at_s - fault.at_s
        known &= look.alerts  # one that was resolved may be raised again
    return "", None


def _recovered_s(
    series: Sequence[tuple[Look, float]], fault: Fault, following_s: float, bound_s: float
) -> float | None:
    """Return the time from the fault's end to the first look from which on a milestone had followed it.

    A milestone that was under way at the fault follows it, too. So a look does not count if a longer lag begins
    within the bound behind it, unless that may be of the next fault.
    """
    begun = next((look for look, _ in series if look.at_s >= fault.at_s), None)
    if begun is None:
        return None
    found: Look | None = None
    for look, lag in series:
        if found is None:
            moved = look.read > begun.read or look.read >= look.produced
            if look.at_s >= max(fault.end_s, begun.at_s) and look.answers and moved and lag <= bound_s:
                found = look
        elif _is_still_behind(look, lag, bound_s, min(found.at_s, following_s - 2 * bound_s) + bound_s):
            found = None
    return None if found is None else max(0.0, found.at_s - fault.end_s)


def _is_still_behind(look: Look, lag: float, bound_s: float, until_s: float) -> bool:
    """Return whether the lag is above the bound and began before `until_s`."""
    return lag > bound_s and look.at_s - lag < until_s

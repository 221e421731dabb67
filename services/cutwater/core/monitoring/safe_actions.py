"""What watch does by itself about an alert, if the settings allow it: a pure policy with bounds.

Each action is safe: a killed process loses nothing (invariant I4), a paused mirror continues at its position, a
promotion that is held waits for an hour at most, and fewer epochs change no row. So the danger is not one action,
but many: a process that is restarted again and again never ends a long epoch. Therefore an alert leads to at most
one action of a kind, an action is not repeated within a bound, and all of them together are limited by the hour.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alerts import HOLD, PAUSE_MIRROR, RESTART, SHED, Alert, Key
from cutwater.core.monitoring.capacity_rules import FREE_SHARE_MIN
from cutwater.core.monitoring.job_status import JobStatus

HOUR_MS = 3_600_000
HOURLY_MAX = 3
"""Of all kinds together."""
KEPT_MAX = 100
PAUSE_WITHIN_MS = 2 * HOUR_MS
"""A mirror is paused if a disk is full so soon."""
SHED_FACTOR = 4
SHED_LEAST_MS, SHED_MOST_MS = 2_000, 10_000
"""Of the time between two epochs."""
PROCESS_OF = {
    (alerts.STUCK_EPOCH, alerts.DRIVER): "driver",
    (alerts.SILENT, alerts.DRIVER): "driver",
    (alerts.SILENT, alerts.SIGNAL): "commit-signal",
    (alerts.SILENT, alerts.PUBLISHER): "publisher",
    (alerts.SILENT, alerts.VIEW): "rehydrator",
}
"""The process that an alert says to be stuck."""
DOUBTFUL = (alerts.DIVERGENCE, alerts.DEAD_LETTERS, alerts.LATE, alerts.STUCK_WATERMARK)
"""Kinds of alerts that doubt the rows: a hand-over now would make the way back longer. What is slow or silent is
not among them, since a hand-over may cure it."""
HOLD_MS = 3_600_000
"""A hold of watch ends by itself after this."""
SLOW_COMMITS: tuple[Key, ...] = ((alerts.GROWING_DRIFT, alerts.SIGNAL), (alerts.SLOWER, alerts.SIGNAL))
"""With fewer epochs there are fewer commits."""


@dataclass(frozen=True)
class ActionRules:
    """What is allowed. Times in ms."""

    allowed: frozenset[str] = frozenset()
    """Some of `alerts.SAFE_ACTIONS`; none by default."""
    after_ms: int = 300_000
    """How long an alert must be on before something is done about it."""
    apart_ms: int = 1_800_000
    """The least time between two actions of one kind on one target."""
    origin: str = ""
    """The region that a mirror here copies; empty if there is none."""
    trigger_ms: int = 500
    """The least time between two epochs, by the settings."""


class SafeAction(NamedTuple):
    """One action, and the alert that it is about."""

    kind: str
    target: str
    """A process, a region, or a candidate."""
    alert: str
    """The alert's name: it is the same until the alert is resolved."""
    at_ms: int
    value: int = 0
    """Of `shed`: the new time between two epochs, ms. Of `hold`: how long it lasts, ms."""


def decide_action(
    state: JobStatus, rules: ActionRules, done: Sequence[SafeAction], now_ms: int
) -> SafeAction | None:
    """Return what to do now; None for nothing. `done`: earlier actions, begun or ended, oldest first."""
    recent = [one for one in done if abs(now_ms - one.at_ms) < HOUR_MS]
    if len(recent) >= HOURLY_MAX:
        return None
    return next((one for one in _wished(state, rules, done, now_ms) if _may(one, rules, done)), None)


def _may(wish: SafeAction, rules: ActionRules, done: Collection[SafeAction]) -> bool:
    if wish.kind not in rules.allowed:
        return False
    same = [one for one in done if one.kind == wish.kind]
    # A clock that was set back must not allow a repetition: the distance counts in both directions.
    return not any(
        one.alert == wish.alert or (one.target == wish.target and abs(wish.at_ms - one.at_ms) < rules.apart_ms)
        for one in same
    )


def _wished(state: JobStatus, rules: ActionRules, done: Sequence[SafeAction], now_ms: int) -> Iterator[SafeAction]:
    """Yield an action for each alert that has been on for long enough, oldest alert first."""
    for alert in alerts.on(state.alerts):
        if now_ms - alert.raised_ms < rules.after_ms:
            continue
        if (process := PROCESS_OF.get(alert.key)) and _is_stuck(state, alert):
            yield SafeAction(RESTART, process, alert.name, now_ms)
        if alert.kind == alerts.FILLING_DISK and rules.origin and _is_nearly_full(state):
            yield SafeAction(PAUSE_MIRROR, rules.origin, alert.name, now_ms)
        if alert.kind in DOUBTFUL and state.candidate is not None:
            yield SafeAction(HOLD, str(state.candidate), alert.name, now_ms, HOLD_MS)
        if alert.key in SLOW_COMMITS and (slower_ms := _slower_trigger_ms(rules, done)):
            yield SafeAction(SHED, "driver", alert.name, now_ms, slower_ms)


def _is_stuck(state: JobStatus, alert: Alert) -> bool:
    # A view that shows nothing yet is restoring, and a restart would begin that again.
    return alert.part != alerts.VIEW or (state.view is not None and state.view.sequence > 0)


def _is_nearly_full(state: JobStatus) -> bool:
    return any(
        disk.newest.free_bytes < FREE_SHARE_MIN * disk.total_bytes
        or (disk.forecast.full_in_ms is not None and disk.forecast.full_in_ms < PAUSE_WITHIN_MS)
        for disk in state.disks.values()
    )


def _slower_trigger_ms(rules: ActionRules, done: Sequence[SafeAction]) -> int:
    """Return the next longer time between two epochs; 0 if it is the longest already."""
    now_ms = max([rules.trigger_ms, *(one.value for one in done if one.kind == SHED)])
    longer_ms = min(SHED_MOST_MS, max(SHED_LEAST_MS, SHED_FACTOR * now_ms))
    return longer_ms if longer_ms > now_ms else 0

"""The bound and the interval of epochs that suit a load: formulas, without any memory.

With a fixed cost a, a cost b for each event, r events a second and an interval i, an epoch takes a + b·r·i, and
the oldest of its events waits i besides. The longest interval that an objective allows follows from that, with
a and b so many times larger as the slowest of the last epochs has shown. For that it is at most halved, and epochs
cost at most twice as much. Epochs that are slower than any interval allows count for nothing.

The larger the epochs of a backlog, the sooner its last event is read: each adds a. From 20·a on there is little to
gain, and readers wait for the end of an epoch.

After a kill at the end of an epoch of t seconds, with a start of s seconds and a load of u (the share of the time
that the events of one second take), a driver has read what came after (s + t·(1 + u)) / (1 - u). Then its last
epoch may wait for an interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from cutwater.core.job.job import Objectives

AIM = 0.95
"""The share of an objective that is aimed at; slow epochs come besides."""
SHOWN_S = 0.3
"""From an epoch's end to a view that shows it: Spark's commit, the milestone, and its rows in the view."""
POLL_S = 0.1
"""A driver with an objective for readers looks for new events so often."""
SLOW_SHARE = 0.5
"""Of the interval without slow epochs: they make it no shorter."""
LEAST_EVENTS = 1_000
"""No objective makes an epoch smaller: what it costs then is its own."""
FIXED_SHARE = 0.05
"""The share of its time that an epoch of a backlog may spend on what is fixed."""
SPARE = 1.5
"""An epoch at rest may take so many times what the events of an interval take: they do not come evenly."""
BUSY_MAX = 0.95
"""A load above this share counts as this share: behind it nothing is ever read."""
STEP_MS = 50
LEAST_EPOCH_S = 1.0
"""No objective for recovery makes an epoch or an interval shorter: what it takes then is the start."""


class Setting(NamedTuple):
    events_max: int
    """The most events of an epoch."""
    interval_ms: int
    """From the beginning of an epoch to that of the next one, unless `events_max` events wait before."""


class DriverLoad(NamedTuple):
    """What a driver has to do, what it can do, and its bounds."""

    events_per_s: float
    fixed_s: float
    event_s: float
    stretches: Sequence[float]
    """How many times as long as usual epochs like the last ones may take."""
    paused_s: float
    start_s: float
    events_max: int
    interval_ms: int


class SettingChoice(NamedTuple):
    setting: Setting
    why_interval: str
    why_events: str


def choose_setting(objectives: Objectives, load: DriverLoad) -> SettingChoice:
    """Return what suits the load."""
    interval_ms, why_interval = _interval(objectives, load)
    events_max, why_events = _events(objectives, load, interval_ms / 1_000)
    return SettingChoice(Setting(events_max, interval_ms), why_interval, why_events)


def stepped(events: float) -> int:
    """Return the largest bound that is no larger: bounds differ by a factor of the root of two."""
    steps = math.floor(2 * math.log2(max(events / LEAST_EVENTS, 1.0)) + 1e-6)
    return round(LEAST_EVENTS * 2 ** (steps / 2))


def _busy(load: DriverLoad) -> float:
    return min(load.events_per_s * load.event_s, BUSY_MAX)


def _left_s(objectives: Objectives, load: DriverLoad) -> float:
    """Return what a recovery leaves for epochs and an interval; negative if the start alone takes too long."""
    if objectives.recovery_ms is None:
        return math.inf
    return AIM * objectives.recovery_ms / 1_000 - load.start_s / (1 - _busy(load))


def _repeated(load: DriverLoad) -> float:
    """Return how much longer a recovery takes for each second of an epoch."""
    return (1 + _busy(load)) / (1 - _busy(load))


def _interval(objectives: Objectives, load: DriverLoad) -> tuple[int, str]:
    if objectives.readable_p99_ms is None:
        return load.interval_ms, "the job file has no readable_p99"
    readable_s, busy = objectives.readable_p99_ms / 1_000, _busy(load)
    left_s = AIM * readable_s - SHOWN_S - POLL_S - load.paused_s
    if left_s <= load.fixed_s:
        return 0, (
            f"an epoch takes {load.fixed_s + load.paused_s:.2f} s before its first event: readable within "
            f"{readable_s:g} s is out of reach, so epochs follow each other without a pause"
        )
    slowest = max((1.0, *(one for one in load.stretches if one * load.fixed_s < left_s)))
    usual_s, slow_s = ((left_s - times * load.fixed_s) / (1 + times * busy) for times in (1.0, slowest))
    interval_s, repeated = max(slow_s, SLOW_SHARE * usual_s), _repeated(load)
    recoverable_s = (_left_s(objectives, load) - load.fixed_s * repeated) / (1 + busy * repeated)
    if recoverable_s < interval_s:
        interval_s, why = (
            max(recoverable_s, min(interval_s, LEAST_EPOCH_S)),
            "with a longer interval a recovery would take too long",
        )
    else:
        took_s = load.fixed_s + interval_s * busy
        takes = f"epochs take {took_s:.2f} s, and slow ones {took_s * slowest:.2f} s"
        why = f"{takes}, so with this interval events are readable within {readable_s:g} s"
        if slow_s < interval_s:
            why = f"{takes}: the interval is half of what it is without slow ones, whose events may be late"
    interval_ms = min(int(interval_s * 1_000) // STEP_MS * STEP_MS, objectives.readable_p99_ms)
    return interval_ms, why


def _events(objectives: Objectives, load: DriverLoad, interval_s: float) -> tuple[int, str]:
    resting_s = SPARE * (load.fixed_s + interval_s * _busy(load))
    allowed_s = max(load.fixed_s / FIXED_SHARE, resting_s)
    why = f"an epoch of a backlog may take {allowed_s:.1f} s, since {load.fixed_s:.2f} s are fixed"
    longest_s = (_left_s(objectives, load) - interval_s) / _repeated(load)
    if longest_s < allowed_s:
        allowed_s = max(longest_s, LEAST_EPOCH_S)
        why = f"an epoch of more than {allowed_s:.1f} s would take too long to repeat after a crash"
        if longest_s < LEAST_EPOCH_S:
            why = (
                f"a start takes {load.start_s:.1f} s and the load is {_busy(load):.0%}: the objective for "
                f"recovery is out of reach, so an epoch may take {LEAST_EPOCH_S:g} s"
            )
    events = stepped((allowed_s - load.fixed_s) / load.event_s)
    if events > load.events_max:
        return load.events_max, "the job file allows no more (max_events_per_epoch)"
    return events, why

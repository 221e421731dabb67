"""The bound and the interval of a driver's epochs, for a job's objectives.

An epoch has a fixed cost, so a long interval is cheap, and a large epoch reads a backlog soonest. Two things limit
them. Events wait for the interval and for their epoch, and shall be readable in time. A killed epoch is repeated,
and what came meanwhile is read behind it.

What is in force changes by decisions. They are few: a change must be worth it, several epochs must want it, and
their rate is bounded. `epoch_setting` says what is right, `EpochCadence` when to change.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cutwater.core.cadence.decisions import EPOCHS, Allowance, Decision
from cutwater.core.cadence.epoch_costs import EpochCosts
from cutwater.core.cadence.epoch_setting import DriverLoad, Setting, SettingChoice, choose_setting, stepped
from cutwater.core.driver.admission import FIRST, EventBytes
from cutwater.core.job.job import Objectives

WARM_EPOCHS = 2
"""Epochs of a driver in which the JVM compiles: their time says nothing about the next ones."""
FULL = 0.9
"""The share of its bound from which an epoch has read all that it may. Shares of partitions are rounded."""
RATE_S = 3.0
"""About the time that the rate of events is taken over."""
BACKLOG = 0.1
"""If more events wait than this share of those that an epoch reads, there is a backlog."""
GUESSED_BUSY = 0.5
"""Of a driver that has read nothing yet."""
SHORTER, LONGER = 0.9, 1.1
"""An interval that is wanted within these factors of the one in force changes nothing."""
NEAR_MS = 50
"""Nor one so near to it."""
NEAR_EVENTS = 1.9
"""Nor a bound within this factor: two steps are worth a decision."""
SOON, LATER = 2, 8
"""Epochs that must want the same: what protects an objective, and what saves."""


class EpochBounds(NamedTuple):
    """What no decision leaves."""

    events_max: int
    bytes_max: int
    interval_ms: int
    """The interval without an objective for readers."""
    start_s: float
    """From a driver's start to its first epoch."""


class Epoch(NamedTuple):
    """One epoch, as its driver saw it. Seconds are of a monotonic clock."""

    planned_s: float
    """When its events were chosen."""
    events: int
    size: int
    """The bytes of the events' values; 0 if unknown."""
    waiting: int
    """Events that had come by then, beyond those that it reads."""
    seconds: float
    """From planning to commit, without pauses."""
    write_s: float = 0.0
    """Of these, the action that reads, groups and writes."""
    paused_s: float = 0.0
    """Before it could begin: a candidate's rests, another epoch's lock."""


class EpochCadence:
    """The cadence of one driver. Call `begin`, then `epoch_took` for each epoch; `setting` is in force."""

    def __init__(self, objectives: Objectives, bounds: EpochBounds) -> None:
        self._objectives, self._bounds = objectives, bounds
        self._costs, self._event_bytes, self._allowance = EpochCosts(), EventBytes(), Allowance()
        self._events_per_s = self._paused_s = 0.0
        self._before: Epoch | None = None
        self._count = 0
        self._shorter = self._longer = self._other = 0
        self._least_ms = 0
        """The least interval that epochs in a row have wanted, which want a longer one."""
        first = choose_setting(objectives, self._load()._replace(events_per_s=GUESSED_BUSY / self._costs.event_s))
        self.setting = Setting(min(stepped(FIRST), bounds.events_max), first.setting.interval_ms)

    def begin(self) -> Decision:
        """Return the first decision: what is in force before any epoch."""
        self._allowance.take(0.0)
        return Decision(EPOCHS, self.setting._asdict(), "the driver starts: nothing is known yet")

    @property
    def limit(self) -> int:
        """The events that the next epoch may read. The bound on bytes holds at once, without a decision."""
        fitting = self._event_bytes.events_of(self._bounds.bytes_max)
        limit = self.setting.events_max if fitting is None else min(self.setting.events_max, int(fitting))
        return max(limit, 1)

    def is_full(self, events: int) -> bool:
        """Return whether an epoch of so many events has read about as many as it may."""
        return events >= FULL * self.limit

    def epoch_took(self, epoch: Epoch) -> Decision | None:
        """Take an epoch; return the decision that changes `setting` for the next one, None if nothing changes."""
        self._observe(epoch)
        if self._count <= WARM_EPOCHS:
            return None
        found = choose_setting(self._objectives, self._load())
        changed = self._changed(found.setting, epoch)
        if changed == self.setting or not self._allowance.take(epoch.planned_s + epoch.seconds):
            return None
        return self._decide(changed, found, epoch)

    def _observe(self, epoch: Epoch) -> None:
        before, self._before = self._before, epoch
        self._count += 1
        if epoch.events:
            self._event_bytes.add(epoch.events, epoch.size)
        if self._count > WARM_EPOCHS:
            self._costs.add(epoch.events, max(epoch.seconds, 0.0))
        self._paused_s += (epoch.paused_s - self._paused_s) / 4
        if before is None or epoch.planned_s <= before.planned_s:
            return
        took_s = epoch.planned_s - before.planned_s
        came = max(epoch.events + epoch.waiting - before.waiting, 0) / took_s
        share = 1 - math.exp(-took_s / RATE_S) if self._count > WARM_EPOCHS else 1.0
        self._events_per_s += share * (came - self._events_per_s)

    def _load(self) -> DriverLoad:
        costs, bounds = self._costs, self._bounds
        return DriverLoad(
            events_per_s=self._events_per_s,
            fixed_s=costs.fixed_s,
            event_s=costs.event_s,
            stretches=costs.stretches,
            paused_s=self._paused_s,
            start_s=bounds.start_s,
            events_max=bounds.events_max,
            interval_ms=bounds.interval_ms,
        )

    def _changed(self, found: Setting, epoch: Epoch) -> Setting:
        """Return the setting behind an epoch.

        One that reads less than it may says nothing about a larger one. In a backlog the interval does not matter.
        """
        events_max, interval_ms = self.setting
        if self.is_full(epoch.events) or epoch.events > found.events_max:
            events_max = self._events_max(found.events_max)
        if epoch.waiting <= BACKLOG * epoch.events:
            interval_ms = self._interval_ms(found.interval_ms)
        return Setting(events_max, interval_ms)

    def _events_max(self, events: int) -> int:
        now = self.setting.events_max
        self._other = self._other + 1 if max(events, now) >= NEAR_EVENTS * min(events, now) else 0
        if self._other < SOON:
            return now
        self._other = 0
        return events

    def _interval_ms(self, interval_ms: int) -> int:
        """Return the interval of the next epochs: soon a shorter one, later a longer one."""
        now = self.setting.interval_ms
        self._shorter = self._shorter + 1 if interval_ms < min(SHORTER * now, now - NEAR_MS) else 0
        self._longer = self._longer + 1 if interval_ms > max(LONGER * now, now + NEAR_MS) else 0
        self._least_ms = min(self._least_ms, interval_ms) if self._longer > 1 else interval_ms
        if self._shorter >= SOON:
            self._shorter = 0
            return interval_ms
        if self._longer >= LATER:
            self._longer = 0
            return self._least_ms
        return now

    def _decide(self, changed: Setting, found: SettingChoice, epoch: Epoch) -> Decision:
        before, self.setting = self.setting, changed
        reasons = [
            reason
            for reason, is_new in (
                (found.why_interval, changed.interval_ms != before.interval_ms),
                (found.why_events, changed.events_max != before.events_max),
            )
            if is_new
        ]
        inputs = {
            "waiting": epoch.waiting,
            "events_per_s": self._events_per_s,
            "epoch_s": epoch.seconds,
            "write_s": epoch.write_s,
            "fixed_s": self._costs.fixed_s,
            "event_us": self._costs.event_s * 1e6,
            "slowest": max(self._costs.stretches),
            "paused_s": self._paused_s,
        }
        return Decision(EPOCHS, changed._asdict(), "; ".join(reasons), before._asdict(), inputs)

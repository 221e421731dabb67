"""Simulated drivers: arrivals, costs and a sink that change with time, under a fixed setting or the controller."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from cutwater.core.cadence.decisions import Decision
from cutwater.core.cadence.epoch_cadence import Epoch, EpochBounds, EpochCadence
from cutwater.core.cadence.epoch_setting import Setting
from cutwater.core.job.job import Objectives

SLOT_S = 10.0
TICK_S = 0.1
"""Arrivals are counted in such steps; the source is looked at as often."""
SHOWN_S = 0.2
NOISE = 0.1
EVENTS_MAX, BYTES_MAX, INTERVAL_MS, EVENT_BYTES = 1_000_000, 512 << 20, 500, 100
PARTS = 8
"""An epoch's events, by when they came."""
UNREAD_PIECES = 200
"""What is unread at the end may have come in all of the time."""

OfTime = Callable[[float], float]


def steady(value: float) -> OfTime:
    return lambda _: value


def between(since_s: float, until_s: float, value: float, other: float) -> OfTime:
    """`value` in that time, `other` before and behind it."""
    return lambda at_s: value if since_s <= at_s < until_s else other


_FIXED_S, _EVENT_S, _LARGEST = steady(0.4), steady(5e-6), steady(0.25)


@dataclass(frozen=True)
class Trace:
    """A job's day, in short: what comes, and what it costs. The times of all are from its start."""

    name: str
    objectives: Objectives
    events_per_s: OfTime
    fixed_s: OfTime = _FIXED_S
    event_s: OfTime = _EVENT_S
    """On all cores together."""
    largest: OfTime = _LARGEST
    """The share of events in the largest partition, which one core reads."""
    cores: int = 2
    lasts_s: float = 600.0
    killed_s: float | None = None
    """When the driver is killed, at the end of its epoch."""
    start_s: float = 12.0

    def epoch_s(self, events: float, at_s: float) -> float:
        slowest = max(1.0, self.largest(at_s) * self.cores)
        return self.fixed_s(at_s) + events * self.event_s(at_s) * slowest


class Result(NamedTuple):
    p99_s: float
    missed_s: float
    """How long the objective of readers was missed: slots of time in which it was, for one event of a hundred."""
    recovery_s: float
    """From the kill until all events of an epoch are readable in time again; 0 without a kill."""
    busy: float
    """The share of the time in which epochs ran."""
    decisions: tuple[Decision, ...] = ()


@dataclass
class Source:
    """Events come evenly within a tick."""

    trace: Trace
    came: list[float] = field(default_factory=lambda: [0.0])
    read: float = 0.0

    def until(self, at_s: float) -> float:
        tick = int(at_s / TICK_S)
        while len(self.came) <= tick + 1:
            at = (len(self.came) - 1) * TICK_S
            self.came.append(self.came[-1] + self.trace.events_per_s(at) * TICK_S)
        return self.came[tick] + (at_s / TICK_S - tick) * (self.came[tick + 1] - self.came[tick])

    def moment(self, number: float) -> float:
        """When so many had come."""
        at = max(bisect_left(self.came, number), 1)
        step = self.came[at] - self.came[at - 1]
        return (at - 1 + ((number - self.came[at - 1]) / step if step else 0.0)) * TICK_S


class _Ages:
    """How old events were when they could be read, with their weights, by the slot in which they came."""

    def __init__(self) -> None:
        self._slots: dict[int, list[tuple[float, float]]] = {}

    def add(self, source: Source, events: float, readable_s: float) -> None:
        """The next events of a source, which nobody could read before."""
        for part in range(PARTS):
            came = source.moment(source.read + (part + 0.5) / PARTS * events)
            self._slots.setdefault(int(came / SLOT_S), []).append((readable_s - came, events))

    def missed_s(self, readable_s: float) -> float:
        return sum(SLOT_S for ages in self._slots.values() if _p99(ages) > readable_s)

    def p99_s(self) -> float:
        return _p99([age for ages in self._slots.values() for age in ages])


def _p99(values: list[tuple[float, float]]) -> float:
    total, seen = sum(weight for _, weight in values), 0.0
    for value, weight in sorted(values):
        seen += weight
        if seen >= 0.99 * total:
            return value
    return math.inf


Policy = Callable[[Epoch], Setting]
"""What is in force behind an epoch."""
Begins = Callable[[Source, Setting, float, float], bool]
"""Whether an epoch begins: the setting in force, when the epoch before was planned, and the time."""


def by_setting(source: Source, setting: Setting, planned_s: float, now_s: float) -> bool:
    """As a driver does."""
    waiting = source.until(now_s) - source.read
    return waiting >= setting.events_max or now_s >= planned_s + setting.interval_ms / 1_000


def simulate(trace: Trace, setting: Setting, policy: Policy, seed: int, begins: Begins = by_setting) -> Result:
    """Play the trace. The noise is the seed's: every policy meets the same. Ages are those before a kill."""
    chance, source, ages = random.Random(seed), Source(trace), _Ages()
    readable_s = (trace.objectives.readable_p99_ms or 0) / 1_000
    now, planned, busy_s, killed_s, recovery_s = 0.0, 0.0, 0.0, 0.0, 0.0
    while now < trace.lasts_s:
        if not begins(source, setting, planned, now):
            now += TICK_S
            continue
        waiting = source.until(now) - source.read
        events = int(min(waiting, setting.events_max))
        took_s = trace.epoch_s(events, now) * (1 + NOISE * chance.uniform(-1, 1))
        planned, busy_s, now = now, busy_s + took_s, now + took_s
        if trace.killed_s and not killed_s and now >= trace.killed_s:
            killed_s = now
            now += trace.start_s
            continue
        oldest_s = now + SHOWN_S - source.moment(source.read)
        if not killed_s:
            ages.add(source, events, now + SHOWN_S)
        elif not recovery_s and oldest_s <= readable_s:
            recovery_s = now - killed_s
        source.read += events
        setting = policy(Epoch(planned, events, events * EVENT_BYTES, int(waiting) - events, took_s))
    unread = 0.0 if killed_s else source.until(now) - source.read
    for _ in range(UNREAD_PIECES if unread else 0):
        ages.add(source, unread / UNREAD_PIECES, now)
        source.read += unread / UNREAD_PIECES
    unrecovered = trace.lasts_s if killed_s and not recovery_s else 0.0
    return Result(ages.p99_s(), ages.missed_s(readable_s), recovery_s or unrecovered, busy_s / now)


def fixed(trace: Trace, setting: Setting, seed: int = 1) -> Result:
    """Play the trace under one setting."""
    return simulate(trace, setting, lambda _: setting, seed)


def controlled(trace: Trace, seed: int = 1) -> Result:
    """Play the trace under the controller."""
    cadence = EpochCadence(trace.objectives, EpochBounds(EVENTS_MAX, BYTES_MAX, INTERVAL_MS, trace.start_s))
    decisions = [cadence.begin()]

    def behind(epoch: Epoch) -> Setting:
        decision = cadence.epoch_took(epoch)
        if decision is not None:
            decisions.append(decision)
        return cadence.setting._replace(events_max=cadence.limit)

    done = simulate(trace, cadence.setting, behind, seed)
    return done._replace(decisions=tuple(decisions))


def foreseeing(trace: Trace, spare_s: float, seed: int = 1) -> Result:
    """Play the trace as one who knows what an epoch costs that begins now, but nothing of later.

    It begins when its oldest event would be readable with no more than `spare_s` to spare.
    """
    latest_s = (trace.objectives.readable_p99_ms or 0) / 1_000 - SHOWN_S - spare_s

    def begins(source: Source, _: Setting, __: float, now_s: float) -> bool:
        waiting = source.until(now_s) - source.read
        return now_s + trace.epoch_s(waiting, now_s) - source.moment(source.read) >= latest_s

    all_that_waits = Setting(EVENTS_MAX, 0)
    return simulate(trace, all_that_waits, lambda _: all_that_waits, seed, begins)


EVENTS_GRID = (4_000, 16_000, 64_000, 250_000, 1_000_000)
INTERVAL_GRID = (0, 250, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000, 14_000, 20_000)


def grid(events_max: int = EVENTS_MAX) -> Iterator[Setting]:
    """Every fixed setting that the controller stands beside, up to a bound that no epoch reaches."""
    for events in EVENTS_GRID:
        for interval in INTERVAL_GRID:
            if events <= events_max:
                yield Setting(events, interval)


READABLE = Objectives(readable_p99_ms=2_000)
TRACES = (
    Trace("steady", READABLE, steady(20_000)),
    Trace("spike", READABLE, between(200, 260, 250_000, 10_000), fixed_s=steady(0.25)),
    Trace(
        "slow sink",
        READABLE,
        steady(20_000),
        fixed_s=between(200, 320, 0.8, 0.3),
        event_s=between(200, 320, 6e-5, 5e-6),
    ),
    Trace("pauses", READABLE, steady(20_000), fixed_s=lambda at_s: 5.4 if at_s > 60 and at_s % 60 < 1.5 else 0.4),
    Trace("skew", READABLE, steady(50_000), fixed_s=steady(0.5), largest=between(150, 450, 0.9, 0.25)),
    Trace("recovery target", Objectives(readable_p99_ms=20_000, recovery_ms=40_000), steady(60_000), killed_s=400),
)

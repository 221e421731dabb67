"""A job's epochs one after the other: how long each takes, and how late its events can be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from cutwater.core.job.job import Job
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.machine import Machine
from cutwater.core.sizing.recommendation import Sizing, event_us, row_us, rows_of
from cutwater.core.sizing.skew import Chance

PHASE_S = 600.0
"""Of mean load, then of the peak; behind it comes mean load until the backlog is read."""
EPOCHS_OF_PHASE = 50
"""A phase has at least so many."""
PATIENCE = 6
"""Phases behind the peak after which a backlog counts as endless."""
PARTS = (0.125, 0.375, 0.625, 0.875)
"""Of an epoch's events, by when they came."""


@dataclass(frozen=True)
class Course:
    """Of a simulated job, from mean load over a peak to mean load."""

    epochs: int
    p50_s: float
    p99_s: float
    """From an event's arrival to its epoch's milestone, each epoch weighing as many events as it has."""
    backlog_max: float
    """Events."""
    rows_per_s: float
    """Rows that the epochs change at the peak."""
    busy: float
    """The share of the driver's cores that is in use at the peak."""
    keeps_up: bool
    """Whether the backlog of the peak is read."""


class _Arrivals(NamedTuple):
    """Events come evenly, at the peak faster."""

    mean: float
    peak: float
    phase_s: float

    def until(self, at_s: float) -> float:
        """Return how many have come."""
        peak_s = min(max(at_s - self.phase_s, 0.0), self.phase_s)
        return (at_s - peak_s) * self.mean + peak_s * self.peak

    def moment(self, number: float) -> float:
        """Return when so many have come."""
        before, behind = self.phase_s * self.mean, self.phase_s * (self.mean + self.peak)
        if number <= before:
            return number / self.mean
        if number <= behind:
            return self.phase_s + (number - before) / self.peak
        return 2 * self.phase_s + (number - behind) / self.mean


def simulate(job: Job, demand: Demand, machine: Machine, sizing: Sizing, chance: Chance) -> Course:
    """Play epochs with the cores and partitions of `sizing`. A partition is one task at a time.

    An epoch reads the oldest events, at most `max_events_per_epoch`. The next one begins `epoch_gap_ms` after its
    end, and `demand.epoch_s` after its begin at the earliest.
    """
    phase_s = max(PHASE_S, EPOCHS_OF_PHASE * demand.epoch_s)
    arrivals = _Arrivals(demand.events_per_s, demand.peak_events_per_s, phase_s)
    cores = int(sizing["driver_cores"])
    largest = max(demand.keys.shares(int(sizing["source_partitions"]), chance))
    rows_by_events = cache(lambda events: rows_of(job, demand, events, demand.epoch_s))
    fixed_s = machine.least_epoch_s(cores)
    now, read, most, epochs, keeps_up = demand.epoch_s, 0.0, 0.0, 0, False
    busy_s = rows_of_peak = 0.0
    ages: list[tuple[float, float]] = []
    while now < (2 + PATIENCE) * phase_s and not keeps_up:
        backlog = arrivals.until(now) - read
        events = min(backlog, float(job.max_events_per_epoch))
        rows = rows_by_events(_rounded(events))
        work = (events * event_us(job, machine) + rows * row_us(job, machine)) / 1e6
        took = fixed_s + max(work / cores, work * largest)
        shown = now + took + machine.commit_ms / 1_000
        ages += [(shown - arrivals.moment(read + part * events), events) for part in PARTS]
        if phase_s <= now < 2 * phase_s:
            busy_s += min(work + machine.epoch_ms / 1_000, took * cores)
            rows_of_peak += rows
        read, most, epochs = read + events, max(most, backlog), epochs + 1
        keeps_up = now >= 2 * phase_s and read >= arrivals.until(now)
        now += max(took + machine.epoch_gap_ms / 1_000, demand.epoch_s)
    p50_s, p99_s = (weighed_quantile(ages, one) for one in (0.5, 0.99))
    busy = min(busy_s / phase_s / cores, 1.0)
    return Course(epochs, p50_s, p99_s, most, rows_of_peak / phase_s, busy, keeps_up)


def _rounded(events: float) -> float:
    """Return the number to a hundredth, so that few numbers are looked up."""
    return events and math.exp(round(math.log(events), 2))


def weighed_quantile(values: Sequence[tuple[float, float]], quantile: float) -> float:
    """Return the quantile of values that have weights; 0.0 of none."""
    total, seen = sum(weight for _, weight in values), 0.0
    for value, weight in sorted(values):
        seen += weight
        if seen >= quantile * total:
            return value
    return 0.0

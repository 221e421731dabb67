"""A job's epochs one after the other: how long each takes, and how late its events can be read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from cutwater.core.job.job import Job
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.epoch_work import beside_cores, epoch_ms, epoch_times, left_cores, rows_of, work_s
from cutwater.core.sizing.figures import Sizing
from cutwater.core.sizing.machine import Machine
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


class Arrivals(NamedTuple):
    """Events come evenly, at the peak faster: a phase of mean load, one of the peak, then mean load."""

    mean: float
    peak: float
    phase_s: float
    end_s: float = math.inf
    """From then on none comes."""

    def until(self, at_s: float) -> float:
        """Return how many have come."""
        at_s = min(at_s, self.end_s)
        peak_s = min(max(at_s - self.phase_s, 0.0), self.phase_s)
        return max(at_s - peak_s, 0.0) * self.mean + peak_s * self.peak

    def moment(self, number: float) -> float:
        """Return when so many have come."""
        before, behind = self.phase_s * self.mean, self.phase_s * (self.mean + self.peak)
        if number <= before:
            return number / self.mean
        if number <= behind:
            return self.phase_s + (number - before) / self.peak
        return 2 * self.phase_s + (number - behind) / self.mean

    def rate(self, at_s: float) -> float:
        """Return the events per second at a moment."""
        if at_s >= self.end_s:
            return 0.0
        return self.peak if self.phase_s <= at_s < 2 * self.phase_s else self.mean


class SimulatedEpoch(NamedTuple):
    """Times in seconds from the load's start."""

    begin_s: float
    end_s: float
    shown_s: float
    """Its milestone's moment."""
    period_s: float
    """From its begin to the next one's."""
    first: float
    """The number of its first event."""
    events: float
    rows: float
    cpu_s: float
    """Of the driver, no more than its cores have."""
    backlog: float
    """Events that waited when it asked for them."""

    def ages(self, arrivals: Arrivals) -> list[tuple[float, float]]:
        """Return times from arrival to milestone of some of its events, with their weights."""
        return [(self.shown_s - arrivals.moment(self.first + part * self.events), self.events) for part in PARTS]


def simulate(job: Job, demand: Demand, machine: Machine, sizing: Sizing, chance: Chance) -> Course:
    """Play epochs with the cores and partitions of `sizing`: mean load, a peak, and until its backlog is read."""
    phase_s = max(PHASE_S, EPOCHS_OF_PHASE * demand.epoch_s)
    arrivals = Arrivals(demand.events_per_s, demand.peak_events_per_s, phase_s)
    most, epochs, keeps_up, busy_s, rows_of_peak = 0.0, 0, False, 0.0, 0.0
    ages: list[tuple[float, float]] = []
    for one in play(job, demand, machine, sizing, chance, arrivals):
        if one.begin_s >= (2 + PATIENCE) * phase_s:
            break
        ages += one.ages(arrivals)
        if phase_s <= one.begin_s < 2 * phase_s:
            busy_s += one.cpu_s
            rows_of_peak += one.rows
        most, epochs = max(most, one.backlog), epochs + 1
        keeps_up = one.begin_s >= 2 * phase_s and one.events >= one.backlog
        if keeps_up:
            break
    p50_s, p99_s = (weighed_quantile(ages, one) for one in (0.5, 0.99))
    busy = min(busy_s / phase_s / _cores(demand, machine, sizing), 1.0)
    return Course(epochs, p50_s, p99_s, most, rows_of_peak / phase_s, busy, keeps_up)


def _cores(demand: Demand, machine: Machine, sizing: Sizing) -> int:
    """Return the driver's cores; of one machine all, which it shares."""
    return machine.cores if demand.one_machine else int(sizing["driver_cores"])


def play(
    job: Job, demand: Demand, machine: Machine, sizing: Sizing, chance: Chance, arrivals: Arrivals
) -> Iterator[SimulatedEpoch]:
    """Yield epochs for ever. A partition is one task at a time.

    An epoch has asked for the oldest events, at most `max_events_per_epoch`, `read_ms` before its begin. The next
    one begins `epoch_gap_ms` after its end, and `demand.epoch_s` after its begin at the earliest. On one machine
    the others' work of an epoch before takes cores from the next one.
    """
    whole = _cores(demand, machine, sizing)
    largest = max(demand.keys.shares(int(sizing["source_partitions"]), chance))
    rows_by_events = cache(lambda events: rows_of(job, demand, events, demand.epoch_s))
    now, read, rows, period_s = demand.epoch_s, 0.0, 0.0, demand.epoch_s
    while True:
        cores = float(whole)
        if demand.one_machine:
            beside = beside_cores(job, machine, arrivals.rate(now), rows / period_s, 1 / period_s)
            cores = left_cores(whole, beside)
        backlog = max(arrivals.until(now - machine.read_ms / 1_000) - read, 0.0)
        events = min(backlog, float(job.max_events_per_epoch))
        rows = rows_by_events(_rounded(events))
        work = work_s(job, machine, events, rows)
        times = epoch_times(job, machine, cores, work, largest)
        period_s = max(times.took_s + times.gap_s, demand.epoch_s)
        end_s = now + times.took_s
        cpu_s = min(work + epoch_ms(job, machine) / 1_000, period_s * cores)
        yield SimulatedEpoch(
            now, end_s, end_s + machine.commit_ms / 1_000, period_s, read, events, rows, cpu_s, backlog
        )
        read += events
        now += period_s


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

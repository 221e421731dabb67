"""A job's epochs one after the other: how long each takes, and how late its events can be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from cutwater.core.job.job import Job
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.machine import Machine
from cutwater.core.sizing.recommendation import Sizing, event_us
from cutwater.core.sizing.skew import Chance

MEAN_S, PEAK_S = 600.0, 600.0
"""Of mean load before the peak, and of the peak."""
EPOCHS_MAX = 100_000
PARTS = (0.125, 0.375, 0.625, 0.875)
"""Of an epoch's events, by when they came."""
ENDLESS_S = 3_600.0
"""A backlog that takes longer to read is one that grows."""


@dataclass(frozen=True)
class Course:
    """Of twenty minutes, the second half at the peak, and of the time until the backlog is read."""

    epochs: int
    p50_s: float
    p99_s: float
    """From an event's arrival to the end of its epoch, each epoch weighing as many events as it has."""
    backlog_max: float
    """Events."""
    busy: float
    """The share of the driver's cores over the peak."""
    keeps_up: bool


def simulate(job: Job, demand: Demand, machine: Machine, sizing: Sizing, chance: Chance) -> Course:
    """Play epochs with the cores and partitions of `sizing`. A partition is one task at a time.

    Epochs begin as soon as the one before has ended, `demand.epoch_s` after its begin at the earliest.
    """
    cores, partitions = int(sizing["driver_cores"]), int(sizing["source_partitions"])
    touched = cache(demand.keys.touched)
    largest = max(demand.keys.shares(partitions, chance))
    now, read_s, backlog, peak_busy_s = 0.0, 0.0, 0.0, 0.0
    ages: list[tuple[float, float]] = []
    most, epochs = 0.0, 0
    while (now < MEAN_S + PEAK_S or backlog > 0) and now < ENDLESS_S and epochs < EPOCHS_MAX:
        arrived = _arrived(demand, read_s, now)
        backlog += chance.gauss(arrived, math.sqrt(arrived)) if arrived > 0 else 0.0
        read_s, most = now, max(most, backlog)
        events = max(0.0, min(backlog, float(job.max_events_per_epoch)))
        rows = touched(_rounded(events)) * job.row_windows.per_event_max
        work = (events * event_us(job, machine) + rows * machine.row_us) / 1e6
        took = machine.epoch_ms / 1_000 / min(cores, 2) + max(work / cores, work * largest)
        waited = backlog / max(_rate(demand, now), 1e-9)
        ages += [(min(waited, now) * part + took, events) for part in PARTS]
        if now >= MEAN_S:
            peak_busy_s += min(work + machine.epoch_ms / 1_000, took * cores)
        backlog, epochs = backlog - events, epochs + 1
        now += max(took, demand.epoch_s)
    spent = max(now - MEAN_S, 1e-9)
    return Course(
        epochs, _weighed(ages, 0.5), _weighed(ages, 0.99), most, peak_busy_s / spent / cores, now < ENDLESS_S
    )


def _rounded(events: float) -> float:
    """Return the number to a hundredth, so that few numbers are looked up."""
    return events and math.exp(round(math.log(events), 2))


def _rate(demand: Demand, at_s: float) -> float:
    return demand.events_per_s if at_s < MEAN_S else demand.peak_events_per_s


def _arrived(demand: Demand, since_s: float, until_s: float) -> float:
    """Return the events between two moments; none come behind the peak."""
    end = MEAN_S + PEAK_S
    mean = min(until_s, MEAN_S) - min(since_s, MEAN_S)
    peak = min(max(until_s, MEAN_S), end) - min(max(since_s, MEAN_S), end)
    return mean * demand.events_per_s + peak * demand.peak_events_per_s


def _weighed(values: Sequence[tuple[float, float]], quantile: float) -> float:
    total, seen = sum(weight for _, weight in values), 0.0
    for value, weight in sorted(values):
        seen += weight
        if seen >= quantile * total:
            return value
    return 0.0

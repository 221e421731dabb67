"""What an epoch has, what it takes, and what runs beside it on the same machine."""

from __future__ import annotations

from typing import NamedTuple

from cutwater.core.job.job import Job
from cutwater.core.job.measures import PLAIN
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.machine import Machine

PLANNERS = 2
"""Cores that an epoch's fixed work can use: one plans, others compile, collect garbage and run small tasks."""
BEHIND_SHARE = 0.25
"""Of the cores, what a driver has at least: by its niceness of 5 it has a weight of 335 beside others' 1,024."""
EPOCH_STEPS = 20
"""Steps in which the length of an epoch is found: of a driver that keeps up each halves the rest, or more."""
_LIGHT = PLAIN | {"avg"}


class EpochTimes(NamedTuple):
    """Seconds."""

    took_s: float
    """From its begin to its barrier."""
    gap_s: float
    """From there to the next one's begin, if events wait."""


def heavy_measures(job: Job) -> int:
    """Return how many measures keep more than a number."""
    return sum(one.kind not in _LIGHT for one in job.counted_measures)


def event_us(job: Job, machine: Machine) -> float:
    """Return the driver's CPU time for an event, without the rows that it changes."""
    heavy = heavy_measures(job)
    return machine.event_us + machine.measure_us * (len(job.counted_measures) - heavy) + machine.sketch_us * heavy


def row_us(job: Job, machine: Machine) -> float:
    """Return the driver's CPU time for a row that an epoch changes."""
    return machine.row_us + machine.sketch_row_us * heavy_measures(job)


def epoch_ms(job: Job, machine: Machine) -> float:
    """Return the driver's CPU time for an epoch, however few events it has."""
    return machine.epoch_ms + machine.measure_epoch_ms * len(job.counted_measures)


def rows_of(job: Job, demand: Demand, events: float, span_s: float) -> float:
    """Return the rows that events change that came within so many seconds: of each window those of its keys."""
    windows = max(1.0, span_s * 1_000 / job.row_windows.slide_ms)
    return windows * demand.keys.touched(events / windows) * job.row_windows.size_ms / job.row_windows.slide_ms


def work_s(job: Job, machine: Machine, events: float, rows: float) -> float:
    """Return the driver's CPU time for events and changed rows."""
    return (events * event_us(job, machine) + rows * row_us(job, machine)) / 1e6


def epoch_times(job: Job, machine: Machine, cores: float, work: float, largest: float = 0.0) -> EpochTimes:
    """Return what an epoch takes with so many cores. `work`: CPU time of its events and rows, in seconds, of which
    one task has the share `largest`.

    Its fixed time is stretched if its CPU time does not fit into it.
    """
    wall_s = (machine.epoch_wall_ms + machine.measure_wall_ms * len(job.counted_measures)) / 1_000
    gap_s = machine.epoch_gap_ms / 1_000
    stretch = max(1.0, epoch_ms(job, machine) / 1_000 / min(cores, PLANNERS) / (wall_s + gap_s))
    return EpochTimes(wall_s * stretch + max(work / cores, work * largest), gap_s * stretch)


def beside_cores(job: Job, machine: Machine, events_per_s: float, rows_per_s: float, epochs_per_s: float) -> float:
    """Return the cores that brokers, services and producers take, if they are on the driver's machine."""
    published = 0.0 if job.output.mode == "none" else machine.output_row_us
    per_row = machine.beside_row_us + published
    return (
        machine.beside_cores
        + (events_per_s * machine.beside_event_us + rows_per_s * per_row) / 1e6
        + epochs_per_s * machine.beside_epoch_ms / 1_000
    )


def left_cores(cores: float, beside: float) -> float:
    """Return what a driver has of so many cores beside others."""
    return max(cores - beside, cores * BEHIND_SHARE)


def epoch_s_of(job: Job, demand: Demand, machine: Machine, cores: float) -> float:
    """Return the time from an epoch's begin to the next one's at the mean rate: at least `demand.epoch_s`.

    A longer epoch has more events, and changes fewer rows for each of them. `cores`: of the driver, or of the
    machine that it shares.
    """
    found = demand.epoch_s
    for _ in range(EPOCH_STEPS):
        events = min(demand.events_per_s * found, float(job.max_events_per_epoch))
        rows = rows_of(job, demand, events, found)
        left = cores
        if demand.one_machine:
            left = left_cores(cores, beside_cores(job, machine, demand.events_per_s, rows / found, 1 / found))
        times = epoch_times(job, machine, left, work_s(job, machine, events, rows))
        found = max(demand.epoch_s, times.took_s + times.gap_s)
    return found

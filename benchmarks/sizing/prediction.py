"""What `cutwater size --one-machine` predicts for a stack and its load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from benchmarks.sizing.figures import Figures
from cutwater.adapters.config.settings import load_settings
from cutwater.core.checks.capacity import VIEW_LESS_BYTES, row_bytes_of
from cutwater.core.job.job import Job
from cutwater.core.load.value_draw import TEXTS
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.epoch_work import beside_cores
from cutwater.core.sizing.figures import Sizing
from cutwater.core.sizing.machine import Machine
from cutwater.core.sizing.recommendation import size_job
from cutwater.core.sizing.row_sizes import sizes_of_events
from cutwater.core.sizing.simulation import Arrivals, play, weighed_quantile
from cutwater.core.sizing.skew import KeySkew
from cutwater.local.calibration.load import Work

EVENT_BYTES = 80


def predict(
    job: Job, keys: KeySkew, rate: float, seconds: float, figures: Machine, before: Sequence[Work]
) -> Figures:
    """Return the figures for so many seconds of the rate. `before`: all that was sent, for the view.

    Epochs are simulated with the partitions and cores that the stack has, since it is the one measured.
    """
    demand = _demand(keys, rate)
    sizing = _as_run(size_job(job, demand, figures), job)
    arrivals = Arrivals(rate, rate, seconds, seconds)
    cpu_s = rows = 0.0
    epochs, ages = 0, list[tuple[float, float]]()
    for one in play(job, demand, figures, sizing, Random(0), arrivals):
        ages += one.ages(arrivals)
        cpu_s += one.cpu_s * min(max(seconds - one.begin_s, 0.0) / one.period_s, 1.0)
        if one.end_s <= seconds:
            rows, epochs = rows + one.rows, epochs + 1
        if one.first + one.events >= rate * seconds:
            break
    return Figures(
        cpu_s / seconds,
        weighed_quantile(ages, 0.5),
        rows / seconds,
        view_bytes(job, demand, before) / 1e6,
        beside_cores(job, figures, rate, rows / seconds, epochs / seconds),
    )


def _demand(keys: KeySkew, rate: float) -> Demand:
    return Demand(
        rate,
        keys,
        event_bytes=EVENT_BYTES,
        peak=1.0,
        epoch_s=load_settings().trigger_ms / 1_000,
        values=TEXTS,
        one_machine=True,
    )


def _as_run(sizing: Sizing, job: Job) -> Sizing:
    """Return the sizing with the partitions of the job file."""
    known = {"source_partitions": float(job.shards.partitions)}
    return replace(sizing, figures=[one._replace(value=known.get(one.name, one.value)) for one in sizing.figures])


def view_bytes(job: Job, demand: Demand, works: Sequence[Work]) -> float:
    """Return keys and values of a view behind these loads, whose events are in the windows of their moments."""
    found = 0.0
    for events in _by_window(job, works).values():
        row_bytes = row_bytes_of(job, sizes_of_events(job, demand, events)) - VIEW_LESS_BYTES
        found += demand.keys.touched(events) * row_bytes
    return found


def _by_window(job: Job, works: Sequence[Work]) -> Counter[int]:
    """Return the number of events by window."""
    size_s, found = job.row_windows.size_ms / 1_000, Counter[int]()
    for one in works:
        spent_s = max(one.ended_s - one.began_s, 1e-3)
        for number in range(int(one.began_s // size_s), int(one.ended_s // size_s) + 1):
            inside_s = min(one.ended_s, (number + 1) * size_s) - max(one.began_s, number * size_s)
            found[number] += round(one.events * min(inside_s / spent_s, 1.0))
    return found

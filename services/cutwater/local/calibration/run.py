"""A calibration: each job's stack gets small epochs, large ones of few keys, and large ones of many keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from cutwater.adapters.config.settings import Settings
from cutwater.core.sizing.calibration import (
    DriverCosts,
    EpochSpan,
    Phase,
    fit_beside,
    fit_driver,
    fit_view_row_us,
    fit_walls,
)
from cutwater.core.sizing.machine import Machine
from cutwater.core.sizing.skew import KeySkew
from cutwater.local.calibration.jobs import JOBS, CalibrationJob
from cutwater.local.calibration.load import DRIVER, FAST, PATIENCE_S, REHYDRATOR, Load, Work, loading, warm_up
from cutwater.local.stack.stack import Stack

SMALL_RATE, SMALL_S = 1_000.0, 15.0
"""Events per second at which an epoch is small, and for how long."""
LARGE_EVENTS = 100_000
FEW_KEYS, MANY_KEYS = 200, 50_000
"""A row is usually there when an event changes it. With many more, small epochs would run beside a large state."""
IDLE_S = 5.0
LEAST = 0.001
"""A cost that is found to be 0 is written so: figures are above 0."""

SMALL = Load(SMALL_RATE, SMALL_S, KeySkew(FEW_KEYS))
FEW = Load(FAST, PATIENCE_S, KeySkew(FEW_KEYS), LARGE_EVENTS)
MANY = Load(FAST, PATIENCE_S, KeySkew(MANY_KEYS), LARGE_EVENTS)
ROUND = (FEW, MANY, SMALL)


class Measured(NamedTuple):
    """Of one job's stack."""

    job: CalibrationJob
    start_s: float
    works: Sequence[Work]
    """Of a warm driver: those of `ROUND`."""
    idle: Work


class Calibration(NamedTuple):
    machine: Machine
    phases: Sequence[Phase]
    measured: Sequence[Measured]


def calibrate(settings: Settings, folder: Path, say: Callable[[str], None]) -> Calibration:
    """Return this machine's figures; those that are not measured have their defaults. `folder`: a new one.

    Raises UnavailableError if a job does not keep up for minutes, and as `Stack` does.
    """
    measured = []
    for job in JOBS:
        say(f"measuring {job.light} light and {job.heavy} heavy measures")
        measured.append(_measure(job, settings, folder / job.name, say))
    return Calibration(figures_of(measured, psutil.cpu_count() or 1), phases_of(measured), measured)


def figures_of(measured: Sequence[Measured], cores: int) -> Machine:
    """Return what explains the measured times best."""
    phases = phases_of(measured)
    costs = fit_driver([one for one in phases if one.epochs])
    small = [(one.job, one.works[ROUND.index(SMALL)]) for one in measured]
    walls = fit_walls([_span(job, work, costs, cores) for job, work in small])
    found = {
        **costs._asdict(),
        **fit_beside(phases)._asdict(),
        **walls._asdict(),
        "epoch_gap_ms": median(wait for _, work in small for wait in work.waits_ms()),
        "read_ms": median(asked for _, work in small for asked in work.asked_ms()),
        "view_row_us": fit_view_row_us([one for one in phases if one.epochs]),
    }
    return replace(
        Machine(),
        cores=cores,
        memory_gb=round(psutil.virtual_memory().total / 1e9, 1),
        start_s=median(one.start_s for one in measured),
        commit_ms=median(
            milestone.committed_ms - milestone.written_ms
            for one in measured
            for work in one.works
            for milestone in work.milestones
        ),
        **{name: max(value, LEAST) for name, value in found.items()},
    )


def phases_of(measured: Sequence[Measured]) -> list[Phase]:
    return [_phase(one.job, work) for one in measured for work in (*one.works, one.idle)]


def _phase(job: CalibrationJob, work: Work) -> Phase:
    return Phase(
        job.light,
        job.heavy,
        len(work.milestones),
        work.events,
        work.rows,
        work.seconds,
        job.published,
        work.cpu_s[DRIVER],
        work.cpu_s[REHYDRATOR],
        work.beside_s,
    )


def _span(job: CalibrationJob, work: Work, costs: DriverCosts, cores: int) -> EpochSpan:
    """Return the time of small epochs without what their events and rows take, which the model adds again."""
    per_event = costs.event_us + costs.measure_us * job.light + costs.sketch_us * job.heavy
    per_row = costs.row_us + costs.sketch_row_us * job.heavy
    left = [
        one.written_ms - one.epoch_started_ms - (one.events * per_event + one.rows * per_row) / 1_000 / cores
        for one in work.milestones
    ]
    return EpochSpan(job.light + job.heavy, max(median(left), LEAST))


def _measure(job: CalibrationJob, settings: Settings, folder: Path, say: Callable[[str], None]) -> Measured:
    own = settings.model_copy(update={"data_dir": folder / "data", "snapshots": ""})
    with loading(Stack(job.write(folder), own, say)) as loads:
        start_s = loads.first_epoch_s()
        return Measured(job, start_s, warm_up(loads, ROUND), loads.idle(IDLE_S))

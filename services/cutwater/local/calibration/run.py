"""A calibration: each job's stack gets small epochs, large ones of few keys, and large ones of many keys.

What Java compiles on the way is no part of a job that has run for long. So the same work comes once before it
counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

import psutil

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import UnavailableError
from cutwater.core.load.load_draw import LoadDraw
from cutwater.core.load.rate_profile import RateProfile
from cutwater.core.protocol.records import Milestone
from cutwater.core.sizing.calibration import Phase, fit_driver, fit_view_row_us
from cutwater.core.sizing.machine import Machine
from cutwater.core.sizing.skew import KeySkew
from cutwater.local.background_stack import Background
from cutwater.local.calibration.jobs import JOBS, CalibrationJob
from cutwater.local.stack import Stack, start_stack
from cutwater.operations.load_sender import LoadPlan, send_load

SMALL_RATE, SMALL_S = 1_000, 10.0
"""Events per second at which an epoch is small, and for how long."""
LARGE_EVENTS, LARGE_RATE = 300_000, 1e6
"""Events that are sent as fast as this machine can."""
FEW_KEYS, MANY_KEYS = 200, 1_000_000
PATIENCE_S = 300.0
LEAST = 0.001
"""A cost that is found to be 0 is written so: figures are above 0."""
SETTLE_S = 0.5
"""The rehydrator may be a little behind the milestone that the driver has reached."""
_LOOK_S = 0.1


class Load(NamedTuple):
    rate: float
    seconds: float
    keys: int
    events: int | None


SMALL = Load(SMALL_RATE, SMALL_S, FEW_KEYS, None)
FEW = Load(LARGE_RATE, PATIENCE_S, FEW_KEYS, LARGE_EVENTS)
MANY = Load(LARGE_RATE, PATIENCE_S, MANY_KEYS, LARGE_EVENTS)
ROUND = (FEW, MANY, SMALL)


class Calibration(NamedTuple):
    machine: Machine
    phases: Sequence[Phase]


def calibrate(settings: Settings, folder: Path, say: Callable[[str], None]) -> Calibration:
    """Return this machine's figures; those that are not measured have their defaults. `folder`: a new one.

    Raises UnavailableError if a job does not keep up for minutes, and as `Stack` does.
    """
    measured, starts, commits, small, gaps = [], [], [], [], []
    for job in JOBS:
        say(f"measuring {job.light} light and {job.heavy} heavy measures")
        found = _measure(job, settings, folder / job.name, say)
        measured += found.phases
        starts.append(found.start_s)
        commits.append(found.commit_ms)
        small.append(found.small_epoch_ms)
        gaps.append(found.gap_ms)
    costs = fit_driver(measured)
    machine = replace(
        Machine(),
        cores=psutil.cpu_count() or 1,
        memory_gb=round(psutil.virtual_memory().total / 1e9, 1),
        start_s=median(starts),
        commit_ms=median(commits),
        epoch_wall_ms=median(small),
        epoch_gap_ms=max(median(gaps), LEAST),
        view_row_us=fit_view_row_us(measured),
        **{name: max(cost, LEAST) for name, cost in costs._asdict().items()},
    )
    return Calibration(machine, measured)


class _Measured(NamedTuple):
    phases: list[Phase]
    start_s: float
    commit_ms: float
    small_epoch_ms: float
    """The time that an epoch of few events takes."""
    gap_ms: float
    """Between two epochs while events wait."""


def _measure(job: CalibrationJob, settings: Settings, folder: Path, say: Callable[[str], None]) -> _Measured:
    own = settings.model_copy(update={"data_dir": folder / "data", "snapshots": ""})
    stack = Stack(job.write(folder), own, say)
    with start_stack(stack, threading.Event()), Background(stack) as background:
        load = _Loading(stack, background)
        start_s = load.first_epoch_s()
        for one in ROUND:
            load.run(one, job)
        phases, commits, small, gaps = [], [], [], []
        for one in ROUND:
            phase, milestones = load.run(one, job)
            phases.append(phase)
            commits += [milestone.committed_ms - milestone.written_ms for milestone in milestones]
            if one.rate == SMALL_RATE:
                small += [milestone.written_ms - milestone.epoch_started_ms for milestone in milestones]
            else:
                gaps += [after.epoch_started_ms - before.written_ms for before, after in pairwise(milestones)]
        return _Measured(phases, start_s, median(commits), median(small), median(gaps) if gaps else 0.0)


class _Loading:
    """Sends loads to a stack and counts what its processes take for them."""

    def __init__(self, stack: Stack, background: Background) -> None:
        self._stack, self._background = stack, background
        self._writer = EventWriter(stack.cluster, stack.job)
        self._sent = 0
        self._began_s = time.monotonic()

    def first_epoch_s(self) -> float:
        """Send one event; return the time from the driver's start to the end of its first epoch, about."""
        driver = next(one.child for one in self._stack.supervisor.members if one.child.name == "driver")
        began_s = psutil.Process(driver.pid).create_time()
        self._send(Load(1_000, 1.0, 1, 1))
        self._wait()
        return self._newest()[-1].written_ms / 1_000 - began_s

    def run(self, load: Load, job: CalibrationJob) -> tuple[Phase, list[Milestone]]:
        """Send the load, wait until it is in milestones, and return what it took, and those."""
        before, cpu = len(self._newest()), self._cpu_s()
        self._send(load)
        self._wait()
        time.sleep(SETTLE_S)
        after, new = self._cpu_s(), self._newest()[before:]
        phase = Phase(
            job.light,
            job.heavy,
            len(new),
            sum(one.events for one in new),
            sum(one.rows for one in new),
            after["driver"] - cpu["driver"],
            after["rehydrator"] - cpu["rehydrator"],
        )
        return phase, new

    def _send(self, load: Load) -> None:
        draw = LoadDraw(self._stack.job, KeySkew(load.keys), Random(load.keys))
        plan = LoadPlan(RateProfile(load.rate), load.seconds, load.events)
        self._sent += send_load(self._writer, draw, plan, lambda _count: None).events

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            newest = commit_stream.milestones(self._stack.cluster, self._stack.job.name, 1)
            if newest and newest[0][0].source_cut.records >= self._sent:
                return
            self._background.raise_error()
            time.sleep(_LOOK_S)
        name, logs = self._stack.job.name, self._stack.data_dir / "logs"
        raise UnavailableError(f"job {name} has not read {self._sent:,} events in {PATIENCE_S:.0f} s; see {logs}")

    def _newest(self) -> list[Milestone]:
        return [one for one, _ in commit_stream.milestones(self._stack.cluster, self._stack.job.name)]

    def _cpu_s(self) -> dict[str, float]:
        """Return the CPU time of each member with all that it has started."""
        found = {}
        for member in self._stack.supervisor.members:
            total = 0.0
            for pid in member.child.pids():
                try:
                    times = psutil.Process(pid).cpu_times()
                except psutil.Error:
                    continue
                total += times.user + times.system
            found[member.child.name] = total
        return found

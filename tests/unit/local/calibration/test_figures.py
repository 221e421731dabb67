"""A machine's figures from loads whose epochs are made by known ones, and when a driver is warm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cutwater.core.protocol.cuts import Cut
from cutwater.core.sizing.machine import Machine
from cutwater.core.sizing.skew import KeySkew
from cutwater.local.calibration.jobs import JOBS, CalibrationJob
from cutwater.local.calibration.load import DRIVER, REHYDRATOR, ROUNDS_MAX, SENDER, Load, Work, warm_up
from cutwater.local.calibration.run import FEW, MANY, ROUND, SMALL, Measured, figures_of
from support import protocol_samples

BEGAN_S, BEFORE, CORES = 1_800_000_000.0, 7_000, 2
TRUE = replace(
    Machine(),
    event_us=9.0,
    measure_us=0.8,
    sketch_us=2.5,
    row_us=30.0,
    sketch_row_us=5.0,
    epoch_ms=700.0,
    measure_epoch_ms=20.0,
    epoch_wall_ms=500.0,
    measure_wall_ms=15.0,
    epoch_gap_ms=250.0,
    read_ms=180.0,
    commit_ms=90.0,
    beside_cores=0.2,
    beside_event_us=35.0,
    beside_row_us=12.0,
    output_row_us=18.0,
    beside_epoch_ms=40.0,
    view_row_us=6.0,
    start_s=20.0,
)
SHAPES = {FEW: (3, 50_000, 200), MANY: (3, 50_000, 48_000), SMALL: (12, 1_000, 195)}
"""Epochs, and events and rows of each."""


def work(job: CalibrationJob, load: Load) -> Work:
    count, events, rows = SHAPES[load]
    own_us = TRUE.event_us + TRUE.measure_us * job.light + TRUE.sketch_us * job.heavy
    row_us = TRUE.row_us + TRUE.sketch_row_us * job.heavy
    work_ms = (events * own_us + rows * row_us) / 1_000
    fixed_ms, measures = TRUE.epoch_wall_ms, job.light + job.heavy
    took_ms = fixed_ms + TRUE.measure_wall_ms * measures + work_ms / CORES
    milestones = []
    for number in range(count):
        # Each has asked `read_ms` before its begin; events come evenly until then.
        asked_ms = (number + 1) * events / load.rate * 1_000
        if load is SMALL:
            begin_ms = BEGAN_S * 1_000 + asked_ms + TRUE.read_ms
        else:
            begin_ms = BEGAN_S * 1_000 + number * (took_ms + TRUE.epoch_gap_ms)
        milestones.append(
            protocol_samples.milestone(
                number,
                events=events,
                rows=rows,
                source_cut=Cut.of_topic("calibrate.events", [BEFORE + (number + 1) * events]),
                epoch_started_ms=begin_ms,
                written_ms=begin_ms + took_ms,
                committed_ms=begin_ms + took_ms + TRUE.commit_ms,
            )
        )
    driver_s = count * (work_ms + TRUE.epoch_ms + TRUE.measure_epoch_ms * measures) / 1_000
    others_s = (events * TRUE.beside_event_us + rows * _beside_row_us(job)) / 1e6 + TRUE.beside_epoch_ms / 1_000
    seconds = {FEW: 9.0, MANY: 14.0, SMALL: 13.0}[load] + measures / 7
    beside_s = count * others_s + seconds * TRUE.beside_cores
    view_s = count * rows * TRUE.view_row_us / 1e6 + count * 0.002
    cpu_s = {DRIVER: driver_s, REHYDRATOR: view_s, SENDER: 0.1, "broker": beside_s - view_s - 0.1}
    return Work(load, BEFORE, BEGAN_S, BEGAN_S + seconds, seconds, milestones, cpu_s)


def _beside_row_us(job: CalibrationJob) -> float:
    return TRUE.beside_row_us + TRUE.output_row_us * job.published


def measured(job: CalibrationJob) -> Measured:
    cpu_s = {DRIVER: 0.3, REHYDRATOR: 0.05, "broker": 5 * TRUE.beside_cores - 0.05}
    idle = Work(Load(0.0, 5.0, KeySkew(1)), BEFORE, BEGAN_S, BEGAN_S, 5.0, [], cpu_s)
    return Measured(job, TRUE.start_s, [work(job, one) for one in ROUND], idle)


def test_figures_are_those_that_made_the_epochs() -> None:
    """The gap is that of the small epochs, whose period is a second here."""
    found = figures_of([measured(one) for one in JOBS], CORES)
    kept = ("memory_gb", "epoch_gap_ms")
    for name in (one for one in Machine.__dataclass_fields__ if one not in kept):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=0.02), name
    small = work(JOBS[1], SMALL).milestones
    assert found.epoch_gap_ms == small[1].epoch_started_ms - small[0].written_ms


def test_what_an_epoch_has_asked_for_is_told_by_what_was_due() -> None:
    """But for the last one, which has all."""
    assert work(JOBS[0], SMALL).asked_ms() == pytest.approx([TRUE.read_ms] * 11)


@pytest.mark.parametrize(
    ("rounds", "number"), [([9, 9.5], 2), ([9, 5, 4.6], 3), ([9, 7, 5, 4, 3], ROUNDS_MAX), ([9, 8.2, 1], 2)]
)
def test_loads_come_again_until_the_driver_takes_no_less(rounds: list[float], number: int) -> None:
    class Loads:
        def __init__(self) -> None:
            self.seeds: list[int] = []

        def run(self, load: Load, seed: int = 0) -> Any:
            self.seeds.append(seed)
            return work(JOBS[0], load)._replace(cpu_s={DRIVER: rounds[seed] / 2})

    loads: Any = Loads()
    last = warm_up(loads, (FEW, SMALL))
    assert loads.seeds == [one for one in range(number) for _ in range(2)]
    assert sum(one.cpu_s[DRIVER] for one in last) == rounds[number - 1]

"""What an epoch takes alone and beside others, and what others take."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.job.job import Output
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.epoch_work import beside_cores, epoch_ms, epoch_s_of, epoch_times, left_cores
from cutwater.core.sizing.machine import Machine
from cutwater.core.sizing.recommendation import size_job
from cutwater.core.sizing.simulation import Arrivals, play, simulate
from cutwater.core.sizing.skew import KeySkew

FLIGHTS = load_job(Path(__file__).parents[4] / "deploy/jobs/flights.yaml")
QUIET = replace(FLIGHTS, output=Output(mode="none"))
MACHINE = Machine()
DEMAND = Demand(500, KeySkew(3_000, 0.5), peak=1.0)
SHARED = replace(DEMAND, one_machine=True)


def test_what_others_take_by_hand() -> None:
    """For nothing, for events, for rows that are published or not, and for epochs."""
    machine = replace(
        MACHINE, beside_cores=0.1, beside_event_us=40, beside_row_us=10, output_row_us=5, beside_epoch_ms=20
    )
    assert beside_cores(QUIET, machine, 0, 0, 0) == pytest.approx(0.1)
    assert beside_cores(QUIET, machine, 1_000, 300, 2) == pytest.approx(0.1 + 0.04 + 0.003 + 0.04)
    assert beside_cores(FLIGHTS, machine, 1_000, 300, 2) == pytest.approx(0.1 + 0.04 + 0.0045 + 0.04)


def test_a_driver_has_a_quarter_of_the_cores_at_least() -> None:
    assert left_cores(4, 1.5) == 2.5
    assert left_cores(4, 3.5) == left_cores(4, 99) == 1


def test_an_epochs_fixed_time_is_stretched_if_its_cpu_time_does_not_fit() -> None:
    """With 300 ms and a gap of 100 ms, two cores have 800 ms of CPU time for it, one core has 400."""
    machine = replace(
        MACHINE, epoch_ms=600, measure_epoch_ms=0, epoch_wall_ms=300, measure_wall_ms=0, epoch_gap_ms=100
    )
    assert epoch_times(QUIET, machine, 2, 0.4) == pytest.approx((0.3 + 0.2, 0.1))
    assert epoch_times(QUIET, machine, 8, 0.4, largest=0.5) == pytest.approx((0.3 + 0.2, 0.1))
    assert epoch_times(QUIET, machine, 1, 0.4) == pytest.approx((0.45 + 0.4, 0.15))
    assert epoch_ms(QUIET, replace(machine, measure_epoch_ms=10)) == 600 + 10 * len(QUIET.counted_measures)


@given(st.floats(1, 20_000), st.floats(0, 100), st.floats(0, 3_000))
def test_what_runs_beside_a_driver_never_makes_it_faster(rate: float, event_us: float, epoch: float) -> None:
    machine = replace(MACHINE, beside_event_us=event_us, beside_epoch_ms=epoch)
    alone, shared = replace(DEMAND, events_per_s=rate), replace(SHARED, events_per_s=rate)
    # The first has its cores to itself; what others take is then no matter.
    assert epoch_s_of(FLIGHTS, alone, machine, 2) == epoch_s_of(FLIGHTS, alone, MACHINE, 2)
    assert epoch_s_of(FLIGHTS, shared, machine, 2) >= epoch_s_of(FLIGHTS, alone, machine, 2) * 0.999


def test_two_cores_that_others_need_are_too_few() -> None:
    """A rate that the driver alone keeps up with: beside a busy broker it does not, and that is told."""
    busy = replace(MACHINE, event_us=30, beside_event_us=220)
    demand = replace(DEMAND, events_per_s=8_000)
    job = replace(FLIGHTS, max_events_per_epoch=20_000)
    for shared, fits in ((False, True), (True, False)):
        asked = replace(demand, one_machine=shared)
        sizing = size_job(job, asked, busy)
        cores = [one._replace(value=2.0) if one.name == "driver_cores" else one for one in sizing.figures]
        assert simulate(job, asked, busy, replace(sizing, figures=cores), Random(0)).keeps_up == fits
        assert any("yields to the others" in one for one in sizing.warnings) != fits
        assert ("beside_cores" in [one.name for one in sizing.figures]) == shared


def test_epochs_read_what_had_come_when_they_asked() -> None:
    """A thousand events a second, an epoch a second, which has asked 200 ms before its begin."""
    machine = replace(MACHINE, read_ms=200, epoch_wall_ms=0.001, epoch_ms=0.001, event_us=0.001, row_us=0.001)
    demand = replace(DEMAND, events_per_s=1_000, epoch_s=1.0)
    sizing = size_job(QUIET, demand, machine)
    arrivals = Arrivals(1_000, 1_000, 600)
    first, second, *_ = islice(play(QUIET, demand, machine, sizing, Random(0), arrivals), 2)
    assert (first.begin_s, first.events) == (1.0, pytest.approx(800))
    assert (second.begin_s, second.first, second.events) == (2.0, pytest.approx(800), pytest.approx(1_000))
    ages = [age for age, _ in second.ages(arrivals)]
    assert ages[0] - ages[-1] == pytest.approx(0.75)
    assert ages[-1] == pytest.approx(second.shown_s - second.begin_s + 0.2 + 0.125, abs=1e-6)


def test_a_load_ends_and_its_events_are_read() -> None:
    arrivals = Arrivals(1_000, 1_000, 10, end_s=10)
    assert arrivals.until(5) == 5_000
    assert arrivals.until(99) == 10_000
    assert (arrivals.rate(9), arrivals.rate(10)) == (1_000, 0)
    demand = replace(DEMAND, events_per_s=1_000)
    sizing = size_job(QUIET, demand, MACHINE)
    epochs = list(islice(play(QUIET, demand, MACHINE, sizing, Random(0), arrivals), 40))
    assert sum(one.events for one in epochs) == pytest.approx(10_000)
    assert epochs[-1].events == 0

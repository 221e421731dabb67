"""What a job needs for a load: more for more, and enough."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.job.windows import WindowSpec
from cutwater.core.sizing.costs import MONTH_S, Prices, monthly_amounts
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.epoch_work import epoch_ms, epoch_s_of, event_us, row_us, rows_of
from cutwater.core.sizing.machine import Machine
from cutwater.core.sizing.recommendation import size_job
from cutwater.core.sizing.rehydrators import VIEW_START_S
from cutwater.core.sizing.simulation import simulate
from cutwater.core.sizing.skew import KeySkew

HOUR = 3_600_000
FLIGHTS = load_job(Path(__file__).parents[4] / "deploy/jobs/flights.yaml")
SIZED = replace(
    FLIGHTS,
    measures=FLIGHTS.measures[:3],
    window=WindowSpec(HOUR, HOUR),
    lateness_ms=2 * HOUR,
    retention_ms=10 * HOUR,
    max_events_per_epoch=100_000_000,
)
MACHINE = Machine()
DEMAND = Demand(20_000, KeySkew(1_000_000, 0.8))
RATES = st.floats(1, 1e7)
KEYS = st.integers(1, 10**10)


def figures(demand: Demand, machine: Machine = MACHINE) -> dict[str, float]:
    return {one.name: one.value for one in size_job(SIZED, demand, machine).figures}


@given(RATES, KEYS, st.floats(1, 4))
def test_more_load_needs_no_less(rate: float, keys: int, more: float) -> None:
    """Each figure grows with the rate, but for the time between snapshots."""
    demand = Demand(rate, KeySkew(keys))
    one, other = figures(demand), figures(replace(demand, events_per_s=rate * more))
    for name in ("driver_cores", "source_partitions", "rehydrators", "broker_disk_gb", "broker_network_mb_per_s"):
        assert other[name] >= one[name] * 0.999, name


@given(RATES, KEYS, st.floats(2, 3_600))
def test_a_restore_is_in_time_or_it_is_told(rate: float, keys: int, recovery: float) -> None:
    sizing = size_job(SIZED, Demand(rate, KeySkew(keys), recovery_s=recovery), MACHINE)
    late = [one for one in sizing.warnings if "a restore takes" in one]
    assert bool(late) == (sizing["restore_s"] > recovery)
    assert sizing["rehydrators"] <= 10_000 or not late, "nobody starts ten thousand of them in vain"
    assert sizing["changelog_partitions"] >= sizing["rehydrators"], "one partition is served by one of them"
    assert sizing["restore_s"] >= VIEW_START_S


@settings(max_examples=25)
@given(st.floats(100, 1e6), st.integers(1_000, 10**9), st.floats(0, 1.2), st.integers(0, 99))
def test_a_job_of_this_size_keeps_up(rate: float, keys: int, exponent: float, seed: int) -> None:
    """In a simulation that places the frequent keys by chance, if no key is too hot for a partition."""
    demand = Demand(rate, KeySkew(keys, exponent))
    sizing = size_job(SIZED, demand, MACHINE)
    if any("hottest key" in one for one in sizing.warnings):
        return
    course = simulate(SIZED, demand, MACHINE, sizing, Random(seed))
    assert course.keeps_up
    assert course.p50_s <= course.p99_s
    assert 0 < course.busy <= 1


def test_with_a_tenth_of_the_cores_it_does_not_keep_up() -> None:
    """So the simulation would tell."""
    demand = replace(DEMAND, events_per_s=500_000, epoch_s=5)
    sizing = size_job(SIZED, demand, MACHINE)
    tenth = max(1, sizing["driver_cores"] // 10)
    few = [one._replace(value=tenth) if one.name == "driver_cores" else one for one in sizing.figures]
    assert simulate(SIZED, demand, MACHINE, sizing, Random(0)).keeps_up
    assert not simulate(SIZED, demand, MACHINE, replace(sizing, figures=few), Random(0)).keeps_up


def test_hundreds_of_terabytes_in_ten_thousand_partitions() -> None:
    """A bounded number of steps, whatever the size."""
    demand = Demand(2e7, KeySkew(10**10, 0.5), event_bytes=1_000, recovery_s=300)
    sizing = size_job(SIZED, demand, MACHINE)
    assert sizing["broker_disk_gb"] > 200_000
    assert 2_000 < sizing["changelog_partitions"] <= 10_000
    assert simulate(SIZED, demand, MACHINE, sizing, Random(1)).keeps_up


def test_a_key_that_no_partition_can_hold_is_told() -> None:
    """More partitions are not recommended than the others need."""
    hot = replace(DEMAND, events_per_s=500_000, keys=KeySkew(1_000_000, 1.5))
    sizing = size_job(SIZED, hot, MACHINE)
    assert any("the hottest key has 38" in one for one in sizing.warnings)
    assert sizing["source_partitions"] < 100


def test_an_epoch_that_the_job_file_bounds_is_told() -> None:
    """And the simulation shows it."""
    few = replace(SIZED, max_events_per_epoch=1_000)
    sizing = size_job(few, DEMAND, MACHINE)
    assert any("max_events_per_epoch is 1,000" in one for one in sizing.warnings)
    assert not simulate(few, DEMAND, MACHINE, sizing, Random(0)).keeps_up
    assert not any("max_events" in one for one in size_job(SIZED, DEMAND, MACHINE).warnings)


def test_a_backlog_of_the_peak_waits_as_long_as_by_arithmetic() -> None:
    """An epoch a second reads 15,000 of 20,000 events at the peak, of 10,000 at other times.

    So the last event of the peak waits for 600 * 5,000 others at 15,000 a second.
    """
    demand = Demand(10_000, KeySkew(1), epoch_s=1)
    machine = replace(MACHINE, epoch_ms=0.002, epoch_wall_ms=0.001)
    few = replace(SIZED, max_events_per_epoch=15_000)
    sizing = size_job(few, demand, machine)
    course = simulate(few, demand, machine, sizing, Random(0))
    assert course.keeps_up
    assert course.backlog_max == pytest.approx(3_000_000, rel=0.02)
    assert 190 < course.p99_s < 203


def test_rows_are_of_every_window_of_an_epoch() -> None:
    """An epoch of a minute over windows of ten seconds writes six rows of a key that has events all the time."""
    job = replace(SIZED, window=WindowSpec(10_000, 10_000))
    demand = Demand(1_000, KeySkew(10), epoch_s=60)
    assert rows_of(job, demand, 60_000, 60) == pytest.approx(60)
    assert rows_of(SIZED, demand, 60_000, 60) == pytest.approx(10)
    assert rows_of(replace(job, window=WindowSpec(10_000, 2_000)), demand, 60_000, 60) == pytest.approx(300)


def test_what_cannot_be_had_is_told_and_not_recommended() -> None:
    """A target that no number of rehydrators meets, and a partition's bytes beyond the most partitions."""
    slow = replace(MACHINE, replay_rows_per_s=1.0)
    sizing = size_job(SIZED, replace(DEMAND, recovery_s=2), slow)
    assert sizing["rehydrators"] == 1
    assert any("No number of rehydrators is enough" in one for one in sizing.warnings)
    wide = size_job(SIZED, Demand(1e6, KeySkew(10**7), event_bytes=2_000_000), MACHINE)
    assert wide["source_partitions"] == 10_000
    assert any("more than 10,000 partitions are not recommended" in one for one in wide.warnings)


def test_a_view_with_a_bound_takes_no_more_than_it() -> None:
    bounded = replace(SIZED, max_bytes=10**8)
    free, sizing = (size_job(one, replace(DEMAND, events_per_s=1e6), MACHINE) for one in (SIZED, bounded))
    assert sizing["rehydrators"] <= free["rehydrators"]
    assert sizing["rehydrator_disk_gb"] == pytest.approx(0.2)
    assert any("max_bytes is" in one for one in sizing.warnings)


def test_each_figure_says_where_it_comes_from() -> None:
    sizing = size_job(SIZED, replace(DEMAND, mirrored=True), MACHINE)
    names = [one.name for one in sizing.figures]
    assert len(set(names)) == len(names)
    assert all(one.why and one.unit for one in sizing.figures)
    cores = next(one for one in sizing.figures if one.name == "driver_cores")
    assert f"40,000 events/s at the peak * {event_us(SIZED, MACHINE):.2f} µs" in cores.why
    assert "region_network_mb_per_s" in names
    assert "region_network_mb_per_s" not in figures(DEMAND)


def test_a_month_costs_what_its_amounts_cost() -> None:
    """By a price list in which one kind has a price at a time."""
    demand = replace(DEMAND, mirrored=True, remote_checkpoint=True)
    sizing = size_job(SIZED, demand, MACHINE)
    free = {one.name: one for one in monthly_amounts(sizing, demand, Prices())}
    assert sum(one.cost for one in free.values()) == 0
    assert free["source read"].value == pytest.approx(20_000 * 220 * MONTH_S / 1e9)
    for price, priced in (
        (Prices(core_hour=2), {"cores"}),
        (Prices(memory_gb_hour=2), {"memory"}),
        (Prices(disk_gb_month=2), {"disk"}),
        (Prices(region_gb=2), {"to the other region"}),
        (Prices(object_gb_month=2), {"snapshots kept"}),
        (Prices(get_1000=2_000), {"restores, one a day"}),
        (Prices(put_1000=2_000), {"snapshot writes", "checkpoint writes"}),
    ):
        found = {one.name: one.cost for one in monthly_amounts(sizing, demand, price) if one.cost}
        assert found == {name: pytest.approx(2 * free[name].value) for name in priced}


def test_rows_are_those_of_epochs_as_long_as_they_take() -> None:
    """A machine whose epochs take four times as long as wanted changes fewer rows a second, and says so."""
    slow, keys = replace(MACHINE, epoch_wall_ms=2_000), KeySkew(3_000, 0.5)
    demand = Demand(8_000, keys, peak=1.0)
    fast, sizing = size_job(SIZED, demand, MACHINE), size_job(SIZED, demand, slow)
    assert sizing.estimate.rows_per_s < 0.6 * fast.estimate.rows_per_s
    assert any("it will be longer than 0.5 s" in one for one in sizing.warnings)
    assert not any("it will be longer" in one for one in fast.warnings)
    for machine, of in ((MACHINE, fast), (slow, sizing)):
        course = simulate(SIZED, demand, machine, of, Random(0))
        assert course.rows_per_s == pytest.approx(of.estimate.rows_per_s, rel=0.1), "the simulation agrees"


@given(st.floats(1, 1e5), st.integers(1, 10**7), st.floats(0, 5_000), st.integers(1, 16))
def test_an_epoch_takes_what_its_events_and_rows_take(rate: float, keys: int, wall: float, cores: int) -> None:
    """Where the driver keeps up; otherwise it is as long as the steps that are tried."""
    machine, demand = replace(MACHINE, epoch_wall_ms=wall), Demand(rate, KeySkew(keys))
    found = epoch_s_of(SIZED, demand, machine, cores)
    events = rate * found
    rows = rows_of(SIZED, demand, events, found)
    measures = len(SIZED.counted_measures)
    fixed = (machine.epoch_wall_ms + machine.measure_wall_ms * measures + machine.epoch_gap_ms) / 1_000
    fixed = max(fixed, epoch_ms(SIZED, machine) / 1_000 / min(cores, 2))
    took = fixed + (events * event_us(SIZED, machine) + rows * row_us(SIZED, machine)) / (1e6 * cores)
    assert found >= demand.epoch_s
    if (events * event_us(SIZED, machine) + rows * row_us(SIZED, machine)) / 1e6 / cores < found / 2:
        assert found == pytest.approx(max(demand.epoch_s, took), rel=0.01)


def test_a_load_beyond_every_job_is_told_by_what_it_needs() -> None:
    """And not by a setting of the job file that is right."""
    demand = Demand(1e9, KeySkew(10**12), peak=1_000, epoch_s=0.1)
    with pytest.raises(UsageError, match=r"needs [0-9,]+ partitions of the changelog, .* at most 65,536") as told:
        size_job(FLIGHTS, demand, MACHINE)
    assert "--recovery" not in str(told.value), (
        "as many rehydrators follow the rows, however long a restore may take"
    )

"""Coefficients from phases whose costs are known."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.sizing.calibration import (
    BesideCosts,
    DriverCosts,
    EpochSpan,
    Phase,
    fit_beside,
    fit_driver,
    fit_view_row_us,
    fit_walls,
    least_squares,
)

SHAPES = [
    (1, 0, 20, 20_000, 400),
    (1, 0, 5, 500_000, 1_000),
    (1, 0, 5, 500_000, 450_000),
    (6, 0, 5, 500_000, 1_000),
    (6, 4, 5, 500_000, 1_000),
    (6, 0, 20, 20_000, 400),
    (6, 4, 6, 500_000, 450_000),
    (6, 4, 20, 20_000, 400),
    (6, 0, 5, 500_000, 450_000),
]
"""Light and heavy measures, epochs, events, rows: as `cutwater calibrate` runs them."""
SECONDS = [12.0, 8.0, 14.0, 9.0, 11.0, 13.0, 17.0, 12.5, 15.0]
COST = st.floats(0.05, 50)
DRIVER = DriverCosts(4, 0.5, 3, 15, 7, 400, 12)
BESIDE = BesideCosts(0.1, 40, 12, 25, 30)


def phase(
    costs: DriverCosts, shape: tuple[int, int, int, int, int], noise: float = 1.0, beside: BesideCosts = BESIDE
) -> Phase:
    light, heavy, epochs, events, rows = shape
    per_event = costs.event_us + costs.measure_us * light + costs.sketch_us * heavy
    took = (events * per_event + rows * (costs.row_us + costs.sketch_row_us * heavy)) / 1e6
    took += epochs * (costs.epoch_ms + costs.measure_epoch_ms * (light + heavy)) / 1e3
    seconds, published = SECONDS[SHAPES.index(shape)] if shape in SHAPES else 5.0, light > 1
    per_row = beside.beside_row_us + beside.output_row_us * published
    others = seconds * beside.beside_cores + (events * beside.beside_event_us + rows * per_row) / 1e6
    others += epochs * beside.beside_epoch_ms / 1e3
    return Phase(*shape, seconds, published, took * noise, (rows * 5.0) / 1e6 + epochs * 0.002, others * noise)


@given(st.tuples(COST, COST, COST, COST, COST, st.floats(1, 2_000), st.floats(1, 200)))
def test_exact_phases_give_their_costs(costs_of: tuple[float, ...]) -> None:
    costs = DriverCosts(*costs_of)
    found = fit_driver([phase(costs, shape) for shape in SHAPES])
    assert found == pytest.approx(costs, rel=1e-3)


@given(st.tuples(st.floats(0.01, 1), COST, COST, COST, st.floats(1, 200)))
def test_exact_phases_give_what_others_cost(costs_of: tuple[float, ...]) -> None:
    """With a phase without events, which tells what they take for nothing."""
    costs = BesideCosts(*costs_of)
    shapes = [*SHAPES, (1, 0, 0, 0, 0), (6, 4, 0, 0, 0)]
    found = fit_beside([phase(DRIVER, shape, beside=costs) for shape in shapes])
    assert found == pytest.approx(costs, rel=1e-3)


def test_a_longer_plan_takes_longer() -> None:
    """Of small epochs of three jobs; no time falls with the number of measures."""
    spans = [EpochSpan(measures, 300 + 12.0 * measures) for measures in (1, 6, 10)]
    assert fit_walls(spans) == pytest.approx((300, 12))
    assert fit_walls([EpochSpan(1, 400), EpochSpan(6, 390), EpochSpan(10, 380)]).measure_wall_ms == 0


@pytest.mark.parametrize("seed", range(5))
def test_noise_moves_what_it_predicts_by_as_much(seed: int) -> None:
    """Costs may differ by more, as some are small beside others; the CPU time of any of the shapes does not."""
    chance = random.Random(seed)
    found = fit_driver([phase(DRIVER, shape, chance.uniform(0.95, 1.05)) for shape in SHAPES])
    assert min(found) >= 0
    for shape in SHAPES:
        assert phase(found, shape).driver_s == pytest.approx(phase(DRIVER, shape).driver_s, rel=0.07)


def test_a_view_has_the_cost_of_its_rows() -> None:
    assert fit_view_row_us([phase(DRIVER, shape) for shape in SHAPES]) == pytest.approx(5.0)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10), st.floats(0.1, 10)), min_size=1, max_size=8))
def test_no_coefficient_is_negative(made: list[tuple[float, float, float]]) -> None:
    """Also of columns that depend on each other, or that are 0."""
    found = least_squares([one[:2] for one in made], [one[2] for one in made])
    assert len(found) == 2
    assert min(found) >= 0

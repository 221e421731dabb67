"""Coefficients from phases whose costs are known."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.sizing.calibration import DriverCosts, Phase, fit_driver, fit_view_row_us, least_squares

SHAPES = [
    (1, 0, 20, 20_000, 400),
    (1, 0, 5, 500_000, 1_000),
    (1, 0, 5, 500_000, 450_000),
    (6, 0, 5, 500_000, 1_000),
    (1, 4, 5, 500_000, 1_000),
    (6, 0, 20, 20_000, 400),
    (1, 4, 6, 500_000, 450_000),
    (1, 4, 20, 20_000, 400),
    (6, 0, 5, 500_000, 450_000),
]
"""Light and heavy measures, epochs, events, rows: as `cutwater calibrate` runs them."""
COST = st.floats(0.05, 50)


def phase(costs: DriverCosts, shape: tuple[int, int, int, int, int], noise: float = 1.0) -> Phase:
    light, heavy, epochs, events, rows = shape
    per_event = costs.event_us + costs.measure_us * light + costs.sketch_us * heavy
    took = (
        events * per_event + rows * (costs.row_us + costs.sketch_row_us * heavy)
    ) / 1e6 + epochs * costs.epoch_ms / 1e3
    return Phase(*shape, took * noise, (rows * 5.0) / 1e6 + epochs * 0.002)


@given(st.tuples(COST, COST, COST, COST, COST, st.floats(1, 2_000)))
def test_exact_phases_give_their_costs(costs_of: tuple[float, ...]) -> None:
    costs = DriverCosts(*costs_of)
    found = fit_driver([phase(costs, shape) for shape in SHAPES])
    assert found == pytest.approx(costs, rel=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_noise_moves_what_it_predicts_by_as_much(seed: int) -> None:
    """Costs may differ by more, as some are small beside others; the CPU time of any of the shapes does not."""
    chance = random.Random(seed)
    costs = DriverCosts(4, 0.5, 3, 15, 7, 400)
    found = fit_driver([phase(costs, shape, chance.uniform(0.95, 1.05)) for shape in SHAPES])
    assert min(found) >= 0
    for shape in SHAPES:
        assert phase(found, shape).driver_s == pytest.approx(phase(costs, shape).driver_s, rel=0.07)


def test_a_view_has_the_cost_of_its_rows() -> None:
    costs = DriverCosts(4, 0.5, 3, 15, 7, 400)
    assert fit_view_row_us([phase(costs, shape) for shape in SHAPES]) == pytest.approx(5.0)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10), st.floats(0.1, 10)), min_size=1, max_size=8))
def test_no_coefficient_is_negative(made: list[tuple[float, float, float]]) -> None:
    """Also of columns that depend on each other, or that are 0."""
    found = least_squares([one[:2] for one in made], [one[2] for one in made])
    assert len(found) == 2
    assert min(found) >= 0

"""Bytes of rows by frequent and rare keys, against rows that are drawn event by event."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.checks.capacity import Load, estimate, row_bytes_of, sizes_of
from cutwater.core.checks.sketch_sizes import sketch_bytes
from cutwater.core.job.measures import THETA
from cutwater.core.job.windows import WindowSpec
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.row_sizes import row_sizes, sizes_of_events
from cutwater.core.sizing.skew import KeySkew

FLIGHTS = load_job(Path(__file__).parents[4] / "deploy/jobs/flights.yaml")
HOUR_S = 3_600


def drawn(keys: int, exponent: float, values: int, events: int, seed: int) -> dict[int, set[int]]:
    """Return the different values of each key that has any."""
    rng, rows = Random(seed), dict[int, set[int]]()
    weights = [rank**-exponent for rank in range(1, keys + 1)]
    for key in rng.choices(range(keys), weights, k=events):
        rows.setdefault(key, set()).add(rng.randrange(values))
    return rows


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.2])
@pytest.mark.parametrize(("keys", "values", "events"), [(500, 50, 800), (300, 50, 15_000), (50, 10**9, 40_000)])
def test_sketches_of_a_window_are_as_of_drawn_events(keys: int, exponent: float, values: int, events: int) -> None:
    rows = [one for seed in range(3) for one in drawn(keys, exponent, values, events, seed).values()]
    true = fmean(sketch_bytes(len(one)) for one in rows)
    demand = Demand(1.0, KeySkew(keys, exponent), values=None if values == 10**9 else values)
    assert sizes_of_events(FLIGHTS, demand, events).sketches["carriers"] == pytest.approx(true, rel=0.12)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.2])
def test_a_few_events_count_one_by_one(exponent: float) -> None:
    """Each value of a theta sketch has some eight bytes."""
    job = replace(FLIGHTS, measures=tuple(replace(one, sketch=one.sketch and THETA) for one in FLIGHTS.measures))
    rows = [one for seed in range(5) for one in drawn(500, exponent, 10**9, 900, seed).values()]
    true = fmean(sketch_bytes(len(one), THETA) for one in rows)
    demand = Demand(1.0, KeySkew(500, exponent))
    assert sizes_of_events(job, demand, 900).sketches["carriers"] == pytest.approx(true, rel=0.03)


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_rows_are_written_while_they_grow(exponent: float) -> None:
    """The mean over all epochs of a window, of the rows that each of them writes."""
    rate, keys, values, epoch_s = 4.0, 120, 50, 10.0
    rng, rows, written = Random(3), dict[int, set[int]](), list[int]()
    weights = [rank**-exponent for rank in range(1, keys + 1)]
    for _ in range(int(HOUR_S / epoch_s)):
        touched = Counter(rng.choices(range(keys), weights, k=int(rate * epoch_s)))
        for key, count in touched.items():
            rows.setdefault(key, set()).update(rng.randrange(values) for _ in range(count))
        written += [sketch_bytes(len(rows[key])) for key in touched]
    demand = Demand(rate, KeySkew(keys, exponent), epoch_s=epoch_s, values=values)
    state, growing = row_sizes(FLIGHTS, demand, rate)
    assert growing.sketches["carriers"] == pytest.approx(fmean(written), rel=0.12)
    if not exponent:
        assert growing.sketches["carriers"] < state.sketches["carriers"]


def test_few_events_make_small_rows() -> None:
    """A view of an event a row is a tenth of one whose sketches are full; a bound on values bounds it."""
    sizes = {
        (events, values): row_bytes_of(
            FLIGHTS, sizes_of_events(FLIGHTS, Demand(1, KeySkew(100), values=values), events)
        )
        for events, values in ((10, None), (10**7, None), (10**7, 50))
    }
    assert sizes[10, None] < 280
    assert sizes[10**7, None] > 4_136
    assert sizes[10**7, 50] < 800


def test_a_pane_has_fewer_events_than_a_window() -> None:
    panes = replace(FLIGHTS, window=WindowSpec(3_600_000, 60_000))
    demand = Demand(1_000.0, KeySkew(1_000), values=None)
    one, other = (row_sizes(job, demand, 1_000.0)[0].sketches["carriers"] for job in (FLIGHTS, panes))
    assert other < one / 4


def test_an_estimate_of_a_view_is_its_keys_and_values() -> None:
    """Without what the changelog's records have around them."""
    sizes = sizes_of(FLIGHTS)
    found = estimate(FLIGHTS, Load())
    assert found.view_bytes == pytest.approx(found.live_rows * found.view_row_bytes)
    assert sizes.row - found.view_row_bytes == 52

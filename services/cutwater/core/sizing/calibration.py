"""Coefficients of a machine from what a driver and a rehydrator took for known work."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

_PIVOT_MIN = 1e-12


class Phase(NamedTuple):
    """Work of one kind and what it took."""

    light: int
    """Measures of the job that are counts, sums, extremes or means."""
    heavy: int
    """Its other measures."""
    epochs: int
    events: int
    rows: int
    """That the epochs changed, each epoch's counted."""
    seconds: float
    """From the first event's sending to the last one's milestone."""
    published: bool
    """Whether rows come on an output, too."""
    driver_s: float
    """CPU time of the driver with its JVM."""
    view_s: float
    """CPU time of the rehydrator."""
    beside_s: float
    """CPU time of all but the driver: broker, services, and what sends the events."""


class DriverCosts(NamedTuple):
    """As in `cutwater.core.sizing.machine.Machine`."""

    event_us: float
    measure_us: float
    sketch_us: float
    row_us: float
    sketch_row_us: float
    epoch_ms: float
    measure_epoch_ms: float


class BesideCosts(NamedTuple):
    """The same, of what may run beside a driver."""

    beside_cores: float
    beside_event_us: float
    beside_row_us: float
    output_row_us: float
    beside_epoch_ms: float


class EpochSpan(NamedTuple):
    """Of small epochs of one job."""

    measures: int
    wall_ms: float
    """The time from begin to end, without what events and rows took of it."""


class WallTimes(NamedTuple):
    epoch_wall_ms: float
    measure_wall_ms: float


def fit_driver(phases: Sequence[Phase]) -> DriverCosts:
    """Return the costs, none below 0, with the least sum of squares of relative errors.

    Phases must differ in events, rows, epochs and both numbers of measures, so at least seven.
    """
    rows = [
        [
            phase.events / 1e6,
            phase.events * phase.light / 1e6,
            phase.events * phase.heavy / 1e6,
            phase.rows / 1e6,
            phase.rows * phase.heavy / 1e6,
            phase.epochs / 1e3,
            phase.epochs * (phase.light + phase.heavy) / 1e3,
        ]
        for phase in phases
    ]
    return DriverCosts(*least_squares(rows, [phase.driver_s for phase in phases]))


def fit_beside(phases: Sequence[Phase]) -> BesideCosts:
    """Return the costs of all but the driver. Phases must have and not have events, rows, epochs and an output."""
    rows = [
        [
            phase.seconds,
            phase.events / 1e6,
            phase.rows / 1e6,
            phase.rows * phase.published / 1e6,
            phase.epochs / 1e3,
        ]
        for phase in phases
    ]
    return BesideCosts(*least_squares(rows, [phase.beside_s for phase in phases]))


def fit_walls(spans: Sequence[EpochSpan]) -> WallTimes:
    return WallTimes(*least_squares([[1.0, one.measures] for one in spans], [one.wall_ms for one in spans]))


def fit_view_row_us(phases: Sequence[Phase]) -> float:
    """Return the CPU time of a rehydrator for a row. What it takes for a milestone is a second coefficient."""
    rows = [[phase.rows / 1e6, phase.epochs / 1e3] for phase in phases]
    return least_squares(rows, [phase.view_s for phase in phases])[0]


def least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Return coefficients of at least 0 with the least sum of squares of errors, each by its value.

    `values` are above 0. Every set of coefficients that are not 0 is tried: there are few.
    """
    relative = [[one / value for one in row] for row, value in zip(rows, values, strict=True)]
    count = len(relative[0])
    best, least = [0.0] * count, float(len(relative))
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            found = _solved([[row[at] for at in chosen] for row in relative])
            if found is None or min(found) < 0:
                continue
            made = [0.0] * count
            for at, one in zip(chosen, found, strict=True):
                made[at] = one
            error = sum((sum(a * b for a, b in zip(row, made, strict=True)) - 1) ** 2 for row in relative)
            if error < least:
                best, least = made, error
    return best


def _solved(rows: Sequence[Sequence[float]]) -> list[float] | None:
    """Return the solution of the normal equations for values of 1; None if the columns depend on each other."""
    size = len(rows[0])
    scale = [max(abs(row[at]) for row in rows) or 1.0 for at in range(size)]
    scaled = [[row[at] / scale[at] for at in range(size)] for row in rows]
    matrix = [
        [sum(row[a] * row[b] for row in scaled) for b in range(size)] + [sum(row[a] for row in scaled)]
        for a in range(size)
    ]
    for at in range(size):
        pivot = max(range(at, size), key=lambda one: abs(matrix[one][at]))
        if abs(matrix[pivot][at]) < _PIVOT_MIN:
            return None
        matrix[at], matrix[pivot] = matrix[pivot], matrix[at]
        for other in range(size):
            if other != at:
                factor = matrix[other][at] / matrix[at][at]
                matrix[other] = [a - factor * b for a, b in zip(matrix[other], matrix[at], strict=True)]
    return [matrix[at][size] / matrix[at][at] / scale[at] for at in range(size)]

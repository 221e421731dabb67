"""Bytes of rows by how many events they get: of frequent keys more than of rare ones.

The events of a key in a window are a Poisson number. A row is there from its first event on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from statistics import NormalDist
from typing import NamedTuple

from cutwater.core.checks.capacity import TEXT_BYTES
from cutwater.core.checks.event_sample import RowSizes
from cutwater.core.checks.sketch_sizes import values_bytes
from cutwater.core.job.job import Job
from cutwater.core.job.measures import Measure
from cutwater.core.sizing.demand import Demand

EXACT_MAX = 4.0
"""Up to this mean a number's chances are summed; above, it has the quantiles of a normal one."""
_SUMMED = 20
"""Events up to which they are summed."""
_QUANTILES = tuple(NormalDist().inv_cdf((one + 0.5) / 9) for one in range(9))
_MOMENTS = (1 / 6, 1 / 2, 5 / 6)
"""Of a window, at which an epoch writes its rows."""
_STEPS = 50
"""Means and large numbers of events are rounded to so many steps for each e-fold, so that few are looked up."""


class _Rows(NamedTuple):
    """Some rows with the mean number of their events."""

    weight: float
    events: float


def row_sizes(job: Job, demand: Demand, events_per_s: float) -> tuple[RowSizes, RowSizes]:
    """Return the sizes of rows with all events of their windows, and of rows as epochs write them."""
    in_window = events_per_s * job.row_windows.size_ms / 1_000
    per_epoch = events_per_s * demand.epoch_s
    groups = [(one.keys, one.share) for one in demand.keys.groups]
    written = (
        _Rows(keys * -math.expm1(-share * per_epoch), share * (in_window * moment + per_epoch))
        for keys, share in groups
        for moment in _MOMENTS
    )
    return sizes_of_events(job, demand, in_window), _sizes(job, demand, written)


def sizes_of_events(job: Job, demand: Demand, events: float) -> RowSizes:
    """Return the sizes of the rows of one window that has so many events, of all keys."""
    groups = demand.keys.groups
    rows = (_Rows(one.keys * -math.expm1(-one.share * events), one.share * events) for one in groups)
    return _sizes(job, demand, rows)


def _sizes(job: Job, demand: Demand, rows: Iterable[_Rows]) -> RowSizes:
    sized = [one for one in job.counted_measures if values_bytes(one, 1, demand.values, TEXT_BYTES) is not None]
    if not sized:
        return RowSizes()
    means: dict[float, float] = {}
    for one in rows:
        mean = _rounded(one.events)
        means[mean] = means.get(mean, 0.0) + one.weight
    chances: dict[int, float] = {}
    for mean, weight in means.items():
        for number, chance in _numbers(mean):
            chances[number] = chances.get(number, 0.0) + weight * chance
    total = sum(chances.values()) or 1.0

    def mean_bytes(measure: Measure) -> float:
        sizes = (
            chance * (values_bytes(measure, number, demand.values, TEXT_BYTES) or 0.0)
            for number, chance in chances.items()
        )
        return sum(sizes) / total

    return RowSizes(sketches={one.name: mean_bytes(one) for one in sized})


def _numbers(mean: float) -> Iterator[tuple[int, float]]:
    """Yield numbers of events, of at least one, with their chances, which add up to one."""
    if mean > EXACT_MAX:
        for one in _QUANTILES:
            yield max(1, round(_rounded(mean + one * math.sqrt(mean)))), 1 / len(_QUANTILES)
        return
    # Of a mean near 0 the chance of one event is 1.
    chance, all_of_them = mean * math.exp(-mean), -math.expm1(-mean)
    for number in range(1, _SUMMED + 1):
        yield number, chance / all_of_them if all_of_them else float(number == 1)
        chance *= mean / (number + 1)


def _rounded(number: float) -> float:
    return math.exp(round(math.log(number) * _STEPS) / _STEPS) if number > 0 else 0.0

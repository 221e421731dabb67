"""The controller beside every fixed setting of a grid, on one trace."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from cutwater.core.cadence.epoch_setting import Setting
from support.cadence.traces import Result, Trace, controlled, fixed, grid

SEEDS = (1, 2)
WITHIN = 1.1
"""What is asked of the controller, beside the best fixed setting."""
SLOT_S = 1.0
"""So that nothing missed can be compared."""
MEASURES = ("recovery", "missed", "p99", "busy")
"""What counts, the most important first."""


def mean(results: list[Result]) -> Result:
    return Result(*(fmean(one[at] for one in results) for at in range(4)))


def _measures(trace: Trace) -> list[Callable[[Result], float]]:
    """In the order of MEASURES. What is better than an objective counts as much as the objective."""
    readable_s = (trace.objectives.readable_p99_ms or 0) / 1_000
    recovery_s = (trace.objectives.recovery_ms or 0) / 1_000
    return [
        lambda one: max(one.recovery_s, recovery_s, SLOT_S),
        lambda one: one.missed_s + SLOT_S,
        lambda one: max(one.p99_s, readable_s),
        lambda one: one.busy,
    ]


def best_of(trace: Trace) -> tuple[Setting, Result]:
    """The fixed setting that misses least; of those about as good the one that costs least."""
    left = [(setting, mean([fixed(trace, setting, seed) for seed in SEEDS])) for setting in grid()]
    for measure in _measures(trace):
        least = min(measure(one) for _, one in left)
        left = [(setting, one) for setting, one in left if measure(one) <= WITHIN * least]
    return min(left, key=lambda one: one[1].busy)


def ratios(trace: Trace) -> tuple[dict[str, float], Setting]:
    """The controller's measures, each over that of the best fixed setting; and that setting."""
    setting, best = best_of(trace)
    done = mean([controlled(trace, seed) for seed in SEEDS])
    found = {name: of(done) / of(best) for name, of in zip(MEASURES, _measures(trace), strict=True)}
    print(f"{trace.name}: { {name: round(one, 3) for name, one in found.items()} } of {setting}")
    return found, setting

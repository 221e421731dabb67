"""The controller beside every fixed setting of a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from cutwater.core.cadence.epoch_setting import Setting
from support.cadence.traces import Result, Trace, controlled, fixed

SEEDS = (1, 2)
WITHIN = 1.1
"""What is asked of the controller, beside the best fixed setting."""
SLOT_S = 1.0
"""So that nothing missed can be compared."""
MEASURES = ("recovery", "missed", "p99", "busy")
"""What counts, the most important first."""


class Beside(NamedTuple):
    """One trace under the controller, and under the best fixed setting."""

    trace: Trace
    controller: Result
    best: Result
    setting: Setting | None = None


def mean(results: Iterable[Result]) -> Result:
    found = list(results)
    return Result(*(fmean(one[at] for one in found) for at in range(4)))


def measured(trace: Trace, result: Result) -> list[float]:
    """In the order of MEASURES. What is better than an objective counts as much as the objective."""
    return [measure(result) for measure in _measures(trace)]


def _measures(trace: Trace) -> list[Callable[[Result], float]]:
    readable_s = (trace.objectives.readable_p99_ms or 0) / 1_000
    recovery_s = (trace.objectives.recovery_ms or 0) / 1_000
    return [
        lambda one: max(one.recovery_s, recovery_s, SLOT_S),
        lambda one: one.missed_s + SLOT_S,
        lambda one: max(one.p99_s, readable_s),
        lambda one: one.busy,
    ]


def best_of(trace: Trace, settings: Iterable[Setting], seeds: Sequence[int]) -> Setting:
    """The fixed setting that misses least; of those about as good the one that costs least."""
    left = [(setting, mean(fixed(trace, setting, seed) for seed in seeds)) for setting in settings]
    for measure in _measures(trace):
        least = min(measure(one) for _, one in left)
        left = [(setting, one) for setting, one in left if measure(one) <= WITHIN * least]
    return min(left, key=lambda one: one[1].busy)[0]


def beside(
    trace: Trace, settings: Iterable[Setting], chosen_by: Sequence[int] = SEEDS, played: Sequence[int] = SEEDS
) -> Beside:
    """Choose the best setting by some seeds, and play it and the controller with the others.

    Equal seeds make the choice with hindsight. On a trace with rare misses it is then one of luck.
    """
    setting = best_of(trace, settings, chosen_by)
    done = mean(controlled(trace, seed) for seed in played)
    return Beside(trace, done, mean(fixed(trace, setting, seed) for seed in played), setting)


def ratios(found: Sequence[Beside]) -> dict[str, float]:
    """The controller's measures in all, each over that of the best fixed settings."""
    mine = [measured(one.trace, one.controller) for one in found]
    best = [measured(one.trace, one.best) for one in found]
    pairs = zip(MEASURES, zip(*mine, strict=True), zip(*best, strict=True), strict=True)
    shown = {name: sum(ours) / sum(theirs) for name, ours, theirs in pairs}
    print(
        f"{', '.join(one.trace.name for one in found)}: { {name: round(one, 3) for name, one in shown.items()} }"
    )
    return shown

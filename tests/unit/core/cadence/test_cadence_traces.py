"""The controller beside every fixed setting of a grid, on simulated traces."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

import pytest

from cutwater.core.cadence.epoch_setting import Setting
from support.cadence.traces import TRACES, Result, Trace, controlled, fixed, grid

SEEDS = (1, 2)
WITHIN = 1.1
"""What is asked of the controller, beside the best fixed setting."""
SLOT_S = 1.0
"""So that nothing missed can be compared."""
Measure = Callable[[Result], float]


def mean(results: list[Result]) -> Result:
    return Result(*(fmean(one[at] for one in results) for at in range(4)))


def measures(trace: Trace) -> list[Measure]:
    """What counts, the most important first. What is better than an objective counts as much as the objective."""
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
    for measure in measures(trace):
        least = min(measure(one) for _, one in left)
        left = [(setting, one) for setting, one in left if measure(one) <= WITHIN * least]
    return min(left, key=lambda one: one[1].busy)


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name)
def test_the_controller_is_about_as_good_as_the_best_fixed_setting(trace: Trace) -> None:
    """In recovery, in the time in which readers miss their objective, in their p99, and in what epochs cost."""
    setting, best = best_of(trace)
    done = mean([controlled(trace, seed) for seed in SEEDS])
    ratios = [measure(done) / measure(best) for measure in measures(trace)]
    print(f"{trace.name}: {[round(one, 3) for one in ratios]} of {setting}")
    assert max(ratios) <= WITHIN, (ratios, setting, best, done)


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name)
def test_decisions_are_few_and_have_reasons(trace: Trace) -> None:
    """Two for each change of a trace, and some for the way back: nothing flaps."""
    decisions = controlled(trace).decisions
    assert 2 <= len(decisions) <= 12
    assert all(one.reason for one in decisions)
    assert all(dict(one.before) != dict(one.sets) for one in decisions)
    assert [one.before for one in decisions[1:]] == [one.sets for one in decisions[:-1]]

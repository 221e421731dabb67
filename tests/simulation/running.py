"""Many seeds on all cores, and what to print where one fails."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from simulation import region_histories
from simulation.checker import Anomaly
from simulation.histories import STEPS, anomaly_of, history_of, play, shrink

PIECE = 50
WORKERS_MAX = 4


class Outcome(NamedTuple):
    """Of a piece of the seeds."""

    seeds: int
    milestones: int
    faults: Counter[str]
    failures: list[tuple[int, str]]
    """(seed, anomaly)"""


def run_piece(seeds: list[int], steps: int, regions: bool = False) -> Outcome:
    faults: Counter[str] = Counter()
    failures: list[tuple[int, str]] = []
    milestones = 0
    for seed in seeds:
        try:
            told, happened = _regions(seed, steps) if regions else _one_region(seed, steps)
        except Anomaly as found:
            failures.append((seed, str(found)))
        except Exception as error:
            failures.append((seed, f"a process ended with {error!r}"))
        else:
            faults += happened
            milestones += told
    return Outcome(len(seeds), milestones, faults, failures)


def _one_region(seed: int, steps: int) -> tuple[int, Counter[str]]:
    world = play(*history_of(seed, steps))
    return world.checker.milestones_max, world.faults


def _regions(seed: int, steps: int) -> tuple[int, Counter[str]]:
    two = region_histories.play(*region_histories.history_of(seed, steps))
    return two.milestones, two.counted()


def run_seeds(seeds: Iterable[int], steps: int = STEPS, regions: bool = False) -> Iterator[Outcome]:
    """Each piece as it is done, on as many processes as there are cores."""
    numbers = list(seeds)
    pieces = [numbers[at : at + PIECE] for at in range(0, len(numbers), PIECE)]
    workers = min(WORKERS_MAX, os.cpu_count() or 1, len(pieces))
    if workers <= 1:
        yield from (run_piece(piece, steps, regions) for piece in pieces)
        return
    # Spawned: a fork would take threads of the test run along.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_piece, pieces, [steps] * len(pieces), [regions] * len(pieces))


def explain(seed: int, steps: int = STEPS) -> str:
    """The anomaly of a seed with a shrunken history: steps taken out while the same anomaly stays."""
    profile, history = history_of(seed, steps)
    found = anomaly_of(profile, history)
    if found is None:
        return f"seed {seed}: no anomaly"
    kind = found.kind

    def fails(steps: object) -> bool:
        again = anomaly_of(profile, steps)  # type: ignore[arg-type]
        return again is not None and again.kind == kind

    short = shrink(history, fails)
    lines = [f"  {one.kind} {one.what} ({one.luck})" for one in short]
    head = f"seed {seed}: {anomaly_of(profile, short)}\n{profile}\n{len(short)} of {len(history)} steps:"
    return "\n".join([head, *lines, f"again: make simulate SEED={seed} STEPS={steps}"])

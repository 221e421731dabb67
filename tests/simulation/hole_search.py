"""Which seed shows what a guard keeps away: the one that showed it last is tried first, then all from zero.

`python -m simulation --first-seeds` searches for every guard and writes `first_seeds.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from simulation import histories, region_histories
from simulation.checker import Anomaly
from simulation.guards import Guard
from simulation.histories import Climate
from simulation.region_guards import RegionGuard

FILE = Path(__file__).with_name("first_seeds.json")
SEEDS_MAX = 1_000


class Shown(NamedTuple):
    """A history that goes wrong without the guard."""

    seed: int
    without: Anomaly
    beside: Anomaly | None
    """What goes wrong in the same history with the guard; None as it should be."""


def first_shown(guard: Guard | RegionGuard) -> Shown | None:
    """The first history in the guard's climate or season that goes wrong without it; None if there is none."""
    for seed in _order(guard.name):
        found = _regions(guard, seed) if isinstance(guard, RegionGuard) else _one_region(guard, seed)
        if found is not None:
            return found
    return None


def write_seeds(shown: dict[str, int]) -> None:
    FILE.write_text(json.dumps(dict(sorted(shown.items())), indent=0) + "\n", encoding="utf-8")


@cache
def _recorded() -> dict[str, int]:
    return dict(json.loads(FILE.read_text(encoding="utf-8"))) if FILE.exists() else {}


def _order(name: str) -> Iterator[int]:
    known = _recorded().get(name)
    yield from () if known is None else (known,)
    yield from (seed for seed in range(SEEDS_MAX) if seed != known)


def _one_region(guard: Guard, seed: int) -> Shown | None:
    assert isinstance(guard.way, Climate)
    profile, steps = histories.history_of(seed, climate=guard.way)
    with guard.beside(), guard.hole():
        without = histories.anomaly_of(profile, steps)
    if without is None:
        return None
    with guard.beside():
        return Shown(seed, without, histories.anomaly_of(profile, steps))


def _regions(guard: RegionGuard, seed: int) -> Shown | None:
    weather, steps = region_histories.history_of(seed, season=guard.way)
    with guard.hole():
        without = region_histories.anomaly_of(weather, steps)
    return None if without is None else Shown(seed, without, region_histories.anomaly_of(weather, steps))

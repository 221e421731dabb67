"""make simulate: python -m simulation [--seeds 5000] [--regions] | --seed 17 | --guards | --first-seeds"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from simulation import region_histories
from simulation.changing.guards import CHANGE_GUARDS
from simulation.floor_guards import FLOOR_GUARDS
from simulation.guards import GUARDS, Guard
from simulation.handover_guards import HANDOVER_GUARDS
from simulation.histories import STEPS, Climate
from simulation.hole_search import first_shown, write_seeds
from simulation.region_guards import REGION_GUARDS, RegionGuard
from simulation.region_histories import Season
from simulation.running import explain, run_seeds
from simulation.tail_guards import TAIL_GUARDS
from simulation.window_guards import WINDOW_GUARDS

EVERY_GUARD: tuple[Guard | RegionGuard, ...] = (
    *GUARDS,
    *WINDOW_GUARDS,
    *HANDOVER_GUARDS,
    *CHANGE_GUARDS,
    *REGION_GUARDS,
    *TAIL_GUARDS,
    *FLOOR_GUARDS,
)


def guards_table() -> str:
    """The table of docs/GUARANTEES.md."""
    lines = ["| guard | keeps away | | without it, in | the checker says |", "|---|---|---|---|---|"]
    for one in EVERY_GUARD:
        said = ", ".join(sorted(one.anomalies))
        lines.append(f"| {one.name} | {one.keeps_away} | {one.invariant} | {_way(one)} | {said} |")
    return "\n".join(lines)


def _way(one: Guard | RegionGuard) -> str:
    if isinstance(one.way, Season):
        return "histories of two regions"
    return "histories from seeds" if isinstance(one.way, Climate) else f"the scene `{one.way.__name__}`"


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5_000, help="how many histories (default 5000)")
    parser.add_argument("--seed", type=int, help="only this one; prints the shrunken history if it fails")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    told = f"steps of a history (default {STEPS}; of two regions {region_histories.STEPS})"
    parser.add_argument("--steps", type=int, help=told)
    parser.add_argument("--regions", action="store_true", help="two regions, with mirrors and failovers")
    parser.add_argument("--guards", action="store_true", help="print the table of guards")
    told = "write down for each guard the first seed that shows its hole: the tests begin there"
    parser.add_argument("--first-seeds", action="store_true", help=told)
    asked = parser.parse_args(words)
    asked.steps = asked.steps or (region_histories.STEPS if asked.regions else STEPS)
    return asked


def main() -> int:
    asked = arguments(sys.argv[1:])
    if asked.guards:
        print(guards_table())
        return 0
    if asked.first_seeds:
        return _record_first_seeds()
    if asked.seed is not None:
        said = _explain(asked.seed, asked.steps, asked.regions)
        print(said)
        return 0 if said.endswith("no anomaly") else 1
    return _many(range(asked.first, asked.first + asked.seeds), asked.steps, asked.regions)


def _record_first_seeds() -> int:
    by_seeds = [one for one in EVERY_GUARD if isinstance(one.way, (Climate, Season))]
    shown = {one.name: first_shown(one) for one in by_seeds}
    write_seeds({name: found.seed for name, found in shown.items() if found is not None})
    nothing = [name for name, found in shown.items() if found is None]
    print(f"{len(shown)} guards; nothing went wrong without: {', '.join(nothing) or '-'}")
    return 1 if nothing else 0


def _explain(seed: int, steps: int, regions: bool) -> str:
    return region_histories.explain(seed, steps) if regions else explain(seed, steps)


def _many(seeds: range, steps: int, regions: bool) -> int:
    began, faults, done, milestones = time.monotonic(), Counter[str](), 0, 0
    failures: list[tuple[int, str]] = []
    for outcome in run_seeds(seeds, steps, regions):
        done, milestones = done + outcome.seeds, milestones + outcome.milestones
        faults += outcome.faults
        failures += outcome.failures
    took = time.monotonic() - began
    print(f"{done} histories of {steps} steps, {milestones} milestones, {took:.0f} s: {len(failures)} failed")
    print("faults: " + ", ".join(f"{name} {times}" for name, times in sorted(faults.items())))
    if failures:
        print("seeds that failed: " + ", ".join(str(seed) for seed, _ in failures[:50]))
        print(f"{failures[0][0]}: {failures[0][1]}", flush=True)  # to shrink it takes a while
        print(_explain(failures[0][0], steps, regions))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

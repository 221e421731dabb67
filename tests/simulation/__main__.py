"""make simulate: python -m simulation --seeds 5000 [--seed 17] [--steps 150] | --guards"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from simulation.guards import GUARDS
from simulation.histories import STEPS, Climate
from simulation.running import explain, run_seeds


def guards_table() -> str:
    """The table of docs/GUARANTEES.md."""
    lines = ["| guard | keeps away | | without it, in | the checker says |", "|---|---|---|---|---|"]
    for one in GUARDS:
        way = "histories from seeds" if isinstance(one.way, Climate) else f"the scene `{one.way.__name__}`"
        said = ", ".join(sorted(one.anomalies))
        lines.append(f"| {one.name} | {one.keeps_away} | {one.invariant} | {way} | {said} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5_000, help="how many histories (default 5000)")
    parser.add_argument("--seed", type=int, help="only this one; prints the shrunken history if it fails")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of a history (default {STEPS})")
    parser.add_argument("--guards", action="store_true", help="print the table of guards")
    asked = parser.parse_args()
    if asked.guards:
        print(guards_table())
        return 0
    if asked.seed is not None:
        said = explain(asked.seed, asked.steps)
        print(said)
        return 0 if said.endswith("no anomaly") else 1
    return _many(range(asked.first, asked.first + asked.seeds), asked.steps)


def _many(seeds: range, steps: int) -> int:
    began, faults, done, milestones = time.monotonic(), Counter[str](), 0, 0
    failures: list[tuple[int, str]] = []
    for outcome in run_seeds(seeds, steps):
        done, milestones = done + outcome.seeds, milestones + outcome.milestones
        faults += outcome.faults
        failures += outcome.failures
    took = time.monotonic() - began
    print(f"{done} histories of {steps} steps, {milestones} milestones, {took:.0f} s: {len(failures)} failed")
    print("faults: " + ", ".join(f"{name} {times}" for name, times in sorted(faults.items())))
    if failures:
        print(explain(failures[0][0], steps))
        print("seeds that failed: " + ", ".join(str(seed) for seed, _ in failures[:50]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

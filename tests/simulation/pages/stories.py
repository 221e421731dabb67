"""Histories that go wrong without a guard, step by step, for the page docs/_extra/simulator.

python -m simulation.pages.stories docs/_extra/simulator/stories.js
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from cutwater.core.protocol import topics
from simulation.checker import Anomaly
from simulation.guards import GUARDS, Guard
from simulation.histories import Climate, anomaly_of, history_of, shrink
from simulation.hole_search import first_shown
from simulation.job import JOB
from simulation.spark import CHANGELOG
from simulation.world import Profile, Step, World

CHOSEN = (
    "a milestone only after Spark's commit",
    "cut bound of the view",
    "an end below the cut means wait",
    "position in the same batch",
    "position of the oldest barrier still needed",
    "fencing of signallers",
    "reading the stream again after fencing",
    "containment",
    "horizon bound of the clearing",
    "position in the publisher's transaction",
    "a heartbeat at the end of the source only",
    "rows are the counted ones",
)
"""Guards of one region whose histories come from seeds."""
COLUMNS = ("source", "changelog", "barriers", "milestones", "view", "part", "published", "output", "reader")
"""Of a frame: ends of topics, over their partitions, and the milestones that each reader has."""
TRIES = 400
PREFIX = "window.STORIES = "
"""The page is opened from a folder, where it may fetch nothing: so the stories are a script."""

Frame = dict[str, Any]


def story(guard: Guard) -> dict[str, Any]:
    """Return a guard's shortest history that is found, with the guard and without it.

    Raises ValueError if no history shows its hole.
    """
    shown = first_shown(guard)
    if shown is None or not isinstance(guard.way, Climate):
        raise ValueError(f"no history of seeds shows the guard '{guard.name}'")
    profile, whole = history_of(shown.seed, climate=guard.way)

    def fails(steps: Sequence[Step]) -> bool:
        with guard.beside(), guard.hole():
            found = anomaly_of(profile, steps)
        return found is not None and found.kind == shown.without.kind

    steps = shrink(whole, fails, TRIES)
    right, none = frames(profile, steps, guard, with_guard=True)
    wrong, found = frames(profile, steps, guard, with_guard=False)
    if none is not None or found is None:
        raise ValueError(f"the shrunken history of the guard '{guard.name}' does not show its hole")
    return {
        "guard": guard.name,
        "keeps_away": guard.keeps_away,
        "invariant": guard.invariant,
        "seed": shown.seed,
        "steps": [f"{one.kind} {one.what}".strip() for one in steps],
        "with": right,
        "without": wrong,
        "anomaly": str(found),
    }


def frames(
    profile: Profile, steps: Sequence[Step], guard: Guard, with_guard: bool
) -> tuple[list[Frame], Anomaly | None]:
    """Return what the world looks like after each step, the end of all work last, and what goes wrong."""
    found: list[Frame] = []
    with guard.beside(), nullcontext() if with_guard else guard.hole():
        world = World(profile)
        try:
            for step in steps:
                world.apply(step)
                found.append(_frame(world))
            world.drain()
        except Anomaly as wrong:
            return [*found, _frame(world)], wrong
        return [*found, _frame(world)], None


def _frame(world: World) -> Frame:
    def end(topic: str) -> int:
        return sum(one.end for one in world.log.topics.get(topic, ()))

    shown = {name: world.shown.get(name, 0) for name in ("view", "part")}
    values = {
        "source": end(JOB.topic),
        "changelog": end(CHANGELOG),
        "barriers": end(topics.barriers(JOB.name)),
        "milestones": end(topics.milestones(JOB.name)),
        **shown,
        "published": end(topics.published(JOB.name)),
        "output": end(topics.output(JOB.name)),
        "reader": world.clients["reader"].seen,
    }
    return {
        "at": [values[name] for name in COLUMNS],
        "live": sorted(world.live),
        "stalled": sorted(world.stalled),
        "hour": round((world.log.now_ms - 1_700_000_000_000) / 3_600_000, 1),
    }


def text() -> str:
    """Return the script with every chosen guard's story."""
    by_name = {one.name: one for one in GUARDS}
    made = {"columns": COLUMNS, "stories": [story(by_name[name]) for name in CHOSEN]}
    return PREFIX + json.dumps(made, separators=(",", ":"), sort_keys=True) + ";\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")

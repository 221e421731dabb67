"""Histories from seeds, and the search for the shortest part of one that still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.core.protocol import topics
from cutwater.publisher.sources.changed_rows import has_store
from simulation.changing.definitions import loaded_once
from simulation.checker import Anomaly
from simulation.job import JOB, job_of
from simulation.spark import CHANGELOG
from simulation.stores import loading_ahead
from simulation.world import SLOTS, STALLING, Profile, Services, Step, World

STEPS = 150
_RUN = (("driver", 10), ("signal", 4), ("view", 5), ("part", 3), ("publisher", 6), ("consumer", 3), ("reader", 4))
_RUN_GENERATIONS = (
    *(("driver", 12), ("signal", 12), ("view", 2), ("part", 1)),
    *(("publisher", 14), ("consumer", 3), ("reader", 1)),
)
"""Where several generations work, and the publisher goes from one to the next."""
_LOSSES = ("lose-tail", "lose-power", "make-anew")
_GENERATIONS = {
    "claim": 4.0,
    "promote": 8.0,
    "events": 9.0,
    "abort": 0.2,
    "prune": 0.3,
    "lose-store": 0.5,
    "kill:publisher": 2.0,
    "stall:publisher": 0.5,
    "wake:publisher": 1.0,
}
_FAULTS = (
    "kill",
    "stall",
    "compact",
    "leap",
    "skew",
    "late-row",
    "lose-view",
    "forget",
    "unknown",
    "timeout",
    "age",
)
LOSING = (CHANGELOG, JOB.topic, *(one(JOB.name) for one in (topics.barriers, topics.milestones)))
LOSING += (topics.output(JOB.name), topics.published(JOB.name))
"""The topics that may lose their end, or be deleted and made anew."""


def profile_of(random: Random) -> Profile:
    return Profile(
        retries=random.random() < 0.3,
        zombies=random.random() < 0.3,
        differs=random.random() < 0.4,
        hints=random.random() < 0.7,
        chunk_rows=random.choice((2, 50_000)),
        part_rows=random.choice((2, 100_000, 100_000)),
    )


def form_of(seed: int) -> dict[str, bool]:
    """Of its own: the other steps of a seed stay as they are."""
    random = Random(f"{seed} form")
    return {
        "sliding": random.random() < 0.4,
        "final": random.random() < 0.3,
        "generations": random.random() < 0.125,
        "preload": random.random() < 0.5,
        "changes": random.random() < 0.5,
    }


@dataclass(frozen=True)
class Climate:
    """What is certain in a history; the seed decides the rest."""

    profile: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of faults; of all steps together about 85. `kill:view` kills the view only."""


def history_of(seed: int, steps: int = STEPS, climate: Climate | None = None) -> tuple[Profile, list[Step]]:
    """The same for the same seed, on any machine."""
    late = _late_losses(Random(f"{seed} late")) if climate is None else []
    by_chance = climate is None
    random, climate = Random(seed), climate or Climate(form_of(seed))
    profile = replace(profile_of(random), **climate.profile)
    if profile.changes and profile.generations:  # a definition of its own has no writer in its rows
        profile, steps = replace(profile, retries=False, differs=False), steps * 3 // 2
    else:
        profile = replace(profile, changes=False)
    kinds = {"run": 60.0, "marker": 14.0, "events": 6.0}
    for fault in _FAULTS:
        kinds[fault] = random.choice((0.0, 0.0, 0.7, 2.0))
    kinds["roll-back"] = random.choice((0.0, 0.0, 0.0, 0.5))
    kinds["lose-tail"] = random.choice((0.0, 0.0, 0.0, 1.0))
    # Of its own: the other steps of a seed stay as they are.
    kinds["make-anew"] = Random(f"{seed} anew").choice((0.0, 0.0, 0.0, 0.3))
    kinds["lose-power"] = Random(f"{seed} power").choice((0.0, 0.0, 0.0, 0.2))
    if has_store(job_of(profile.sliding, profile.final)):
        kinds["lose-store"] = Random(f"{seed} store").choice((0.0, 0.0, 0.5))
    running = _RUN
    if profile.generations:
        kinds |= _GENERATIONS | ({} if by_chance else dict.fromkeys(_LOSSES, 0.0))
        running = _RUN_GENERATIONS
    kinds |= climate.weights
    if kinds["stall"]:
        kinds["wake"] = 2 * kinds["stall"]
    if kinds["leap"]:
        kinds["compact"] = max(kinds["compact"], 2.0)
    slots, weights = zip(*running, strict=True)
    names = list(kinds)
    chosen = random.choices(names, [kinds[name] for name in names], k=steps)
    moving = iter(random.choices(slots, weights, k=steps))
    return profile, [Step("events", "", random.getrandbits(48))] + [
        Step(
            kind.partition(":")[0],
            next(moving) if kind == "run" else _what(kind, random),
            random.getrandbits(48),
        )
        for kind in chosen
    ] + late


def _late_losses(random: Random) -> list[Step]:
    """What is lost once everybody has come to the end: then output and position have records, too."""
    if random.random() < 0.85:
        return []
    kind = random.choice(("lose-power", "lose-tail", "lose-tail", "make-anew"))
    lost = Step(kind, "" if kind == "lose-power" else random.choice(LOSING), random.getrandbits(48))
    return [Step("settle"), lost, Step("events", "", random.getrandbits(48))]


def _what(kind: str, random: Random) -> str:
    if ":" in kind:
        return kind.partition(":")[2]
    if kind in ("kill", "skew", "unknown"):
        return random.choice(SLOTS)
    if kind in ("lose-tail", "make-anew"):
        return random.choice(LOSING)
    if kind in ("stall", "wake"):
        return random.choice(STALLING)
    return random.choice(("consumer", "reader")) if kind == "forget" else ""


def play(profile: Profile, steps: Sequence[Step], services: Services | None = None) -> World:
    """Raises Anomaly."""
    world = World(profile, services)
    world.faults["overlapping windows"] += profile.sliding
    world.faults["windows published once"] += profile.final
    world.faults["generations"] += profile.generations
    world.faults["generations that differ"] += profile.changes
    ahead = loading_ahead(world.log) if profile.generations else nullcontext()
    with _decoded_once(), ahead, loaded_once() if profile.changes else nullcontext():
        for step in steps:
            world.apply(step)
        world.drain()
    return world


_decode = lru_cache(maxsize=2_000)(protocol_records.decode)


@contextmanager
def _decoded_once() -> Iterator[None]:
    """Half a dozen readers decode the same bytes to the same frozen value: that was half of the time."""
    kept, protocol_records.decode = protocol_records.decode, _decode
    try:
        yield
    finally:
        protocol_records.decode = kept


def anomaly_of(profile: Profile, steps: Sequence[Step], services: Services | None = None) -> Anomaly | None:
    try:
        play(profile, steps, services)
    except Anomaly as found:
        return found
    return None


def shrink(steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool], most: int = 600) -> list[Step]:
    """A history from which no step can be taken, or the best after `most` tries: pieces first, then steps."""
    kept, size, tries = list(steps), max(1, len(steps) // 2), 0
    while size:
        at = 0
        while at < len(kept) and tries < most:
            candidate = kept[:at] + kept[at + size :]
            tries += 1
            if fails(candidate):
                kept = candidate
            else:
                at += size
        size = size // 2 if size > 1 or tries >= most else 0
    return kept

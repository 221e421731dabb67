"""Histories of two regions from seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from simulation.checker import Anomaly
from simulation.histories import _decoded_once, shrink
from simulation.regions import Regions, Weather
from simulation.threads import fibers
from simulation.truncations import KINDS
from simulation.world import Step

STEPS = 500
_REPLAYS = {
    "operator:replay": 4.0,
    "operator:promote": 4.0,
    "old": 10.0,
    "age": 4.0,
    "run:driver": 20.0,
    "run:signal": 10.0,
    "run:ask": 8.0,
    "failover": 0.5,
}
"""Steps of a history in which generations count late events."""
_RUN = (("mirror", 12), ("driver", 10), ("signal", 8), ("ask", 6), ("reader", 6))
_PARTS = tuple(part for part, _ in _RUN)
_WRITERS = tuple(part for part in _PARTS if part != "reader")
"""A reader fences nobody: two of them are two programs."""


@dataclass(frozen=True)
class Season:
    """What is certain in a history; the seed decides the rest."""

    weather: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    steps: int = STEPS
    tails: bool = False
    """May logs lose their tails?"""
    replays: bool = False
    """May an operator ask for late replays?"""


def history_of(seed: int, steps: int | None = None, season: Season | None = None) -> tuple[Weather, list[Step]]:
    """The same for the same seed, on any machine."""
    random, season = Random(seed), season or Season(tails=True, replays=True)
    steps = steps or season.steps
    weather = Weather(split=random.random() < 0.3, claims=random.choice((0, 1, 1, 2, 2, 3)))
    kinds = {"run": 60.0, "marker": 16.0, "events": 6.0, "failover": 1.5}
    for fault in ("kill", "stall", "unknown", "timeout", "compact", "leap", "switchover"):
        kinds[fault] = random.choice((0.0, 0.7, 2.0))
    kinds["link:cut"] = kinds["link:slow"] = random.choice((0.0, 0.7))
    kinds["old"], kinds["age"] = random.choice((0.0, 1.0, 4.0)), random.choice((0.0, 0.5))
    kinds |= _later(Random(-1 - seed))
    if random.random() < 0.3:  # so calm that the job comes back, too
        weather = replace(weather, claims=4)
        kinds |= {"failover": 4.0, **dict.fromkeys(("leap", "link:cut", "link:slow", "kill", "stall"), 0.0)}
    weather = replace(weather, **season.weather)
    if season.tails:
        kinds |= _losing(Random((seed << 8) + 7))
        kinds |= _losing_more(Random((seed << 8) + 13))
        weather = replace(weather, amends=Random((seed << 8) + 11).random() < 0.4)
        if season.replays and weather.amends and (asked := _asking(Random((seed << 8) + 17))):
            kinds |= asked
            weather = replace(weather, starts=3)
    kinds |= season.weights
    kinds["link:well"] = 2 * (kinds["link:cut"] + kinds["link:slow"] + kinds.get("link:lags", 0.0))
    kinds["wake"] = 2 * kinds["stall"]
    kinds["compact"] = max(kinds["compact"], 2.0 if kinds["leap"] else 0.0)
    names = list(kinds)
    chosen = random.choices(names, [kinds[name] for name in names], k=steps)
    return weather, [Step("events", "", random.getrandbits(48))] + [
        Step(kind.partition(":")[0], _what(kind, random), random.getrandbits(48)) for kind in chosen
    ]


def _later(random: Random) -> dict[str, float]:
    """What was thought of later, by chance of its own: the seeds of guards stay good."""
    return {
        "resync": random.choice((0.0, 0.0, 1.0)),
        "retention": random.choice((0.0, 0.0, 2.0)),
        "anew": random.choice((0.0, 0.0, 0.0, 0.5)),
        "prune": random.choice((0.0, 1.0)),
    }


def _losing(random: Random) -> dict[str, float]:
    """Tails of logs, of one kind of topics or of all."""
    if random.random() < 0.7:
        return {}
    kinds = random.choice([KINDS, *((one,) for one in KINDS)])
    return {f"lose-tail:{one}": random.choice((0.2, 0.6)) / len(kinds) for one in kinds}


def _losing_more(random: Random) -> dict[str, float]:
    """Tails of any length, topics that are made again, and brokers that come back older with all their topics."""
    if random.random() < 0.65:
        return {}
    ways = [f"{way}:{kind}" for way in ("lose-much", "remake") for kind in KINDS]
    chosen = random.choice([["lose-power"], ways, random.sample(ways, 2)])
    return {one: random.choice((0.3, 1.0)) / len(chosen) for one in chosen}


def _asking(random: Random) -> dict[str, float]:
    """Generations that count late events, among others of the same region."""
    if random.random() < 0.5:
        return {}
    others = {f"operator:{one}": random.choice((0.0, 0.3)) for one in ("start", "rollback", "abort")}
    return {**_REPLAYS, **others}


def _what(kind: str, random: Random) -> str:
    if ":" in kind:
        return kind.partition(":")[2]
    if kind == "run":
        return random.choices(_PARTS, [weight for _, weight in _RUN])[0]
    if kind == "kill":
        return random.choice(_PARTS)
    return random.choice(_WRITERS) if kind in ("stall", "unknown") else ""


def play(weather: Weather, steps: Sequence[Step]) -> Regions:
    """Raises Anomaly."""
    world = Regions(weather)
    with _decoded_once(), fibers():
        for step in steps:
            world.apply(step)
        world.drain()
    return world


def anomaly_of(weather: Weather, steps: Sequence[Step]) -> Anomaly | None:
    try:
        play(weather, steps)
    except Anomaly as found:
        return found
    return None


def explain(seed: int, steps: int = STEPS) -> str:
    """The anomaly of a seed with a shrunken history."""
    weather, history = history_of(seed, steps)
    found = anomaly_of(weather, history)
    if found is None:
        return f"seed {seed}: no anomaly"
    kind = found.kind

    def fails(some: Sequence[Step]) -> bool:
        again = anomaly_of(weather, some)
        return again is not None and again.kind == kind

    short = shrink(history, fails, 200)
    lines = [f"  {one.kind} {one.what} ({one.luck})" for one in short]
    head = f"seed {seed}: {anomaly_of(weather, short)}\n{weather}\n{len(short)} of {len(history)} steps:"
    return "\n".join([head, *lines, f"again: python -m simulation --regions --seed {seed} --steps {steps}"])

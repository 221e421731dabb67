"""The algorithm of Kubernetes' HorizontalPodAutoscaler, and readers under a load, as plain values.

After the autoscaler's own page: a sync every 15 s, a tolerance of a tenth, of several measures the one that wants
most. Stabilisation takes the lowest recommendation of its window for a step up and the highest for a step down.
Policies bound the change of each period. A pod that is not ready yet reports no use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

SYNC_S = 15
TOLERANCE = 0.1


class Policy(NamedTuple):
    pods: int = 0
    percent: int = 0
    period_s: int = 60

    def bound(self, before: int, way: int) -> int:
        """Return how far the number may go within a period. `way`: 1 for up, -1 for down."""
        if self.pods:
            return before + way * self.pods
        change = 1 + way * self.percent / 100
        return math.ceil(before * change) if way > 0 else math.floor(before * change)


@dataclass(frozen=True)
class Behaviour:
    least: int
    most: int
    up: Sequence[Policy]
    down: Sequence[Policy]
    up_window_s: int
    down_window_s: int

    @classmethod
    def of_values(cls, scaling: Mapping[str, Any]) -> Behaviour:
        """Read the chart's value `readers.autoscaling`."""
        up, down = scaling["scaleUp"], scaling["scaleDown"]
        period_s = up["periodSeconds"]
        return cls(
            scaling["minReplicas"],
            scaling["maxReplicas"],
            (Policy(pods=up["pods"], period_s=period_s), Policy(percent=up["percent"], period_s=period_s)),
            (Policy(pods=down["pods"], period_s=down["periodSeconds"]),),
            up["stabilizationSeconds"],
            down["stabilizationSeconds"],
        )


@dataclass
class Autoscaler:
    """Decides the number of pods, sync by sync."""

    behaviour: Behaviour
    _wanted: list[tuple[int, int]] = field(default_factory=list)
    """Time and recommendation."""
    _changes: list[tuple[int, int]] = field(default_factory=list)
    """Time and difference."""

    def decide(self, now_s: int, current: int, ratios: Sequence[float]) -> int:
        """Return the next number. `ratios`: of each measure, its mean over all pods divided by its target."""
        rule = self.behaviour
        raw = max(current if abs(one - 1) <= TOLERANCE else math.ceil(current * one) for one in ratios)
        self._forget(now_s)
        self._wanted.append((now_s, raw))
        lowest = min(one for at, one in self._wanted if at > now_s - max(rule.up_window_s, 1))
        highest = max(one for at, one in self._wanted if at > now_s - max(rule.down_window_s, 1))
        stable = min(max(current, lowest), highest) if lowest <= highest else current
        found = self._limited(now_s, current, min(max(stable, rule.least), rule.most))
        if found != current:
            self._changes.append((now_s, found - current))
        return found

    def _forget(self, now_s: int) -> None:
        """Drop what no window and no period reaches back to."""
        rule = self.behaviour
        longest_s = max(rule.up_window_s, rule.down_window_s, *(one.period_s for one in (*rule.up, *rule.down)))
        self._wanted = [one for one in self._wanted if one[0] > now_s - longest_s]
        self._changes = [one for one in self._changes if one[0] > now_s - longest_s]

    def _limited(self, now_s: int, current: int, wanted: int) -> int:
        if wanted == current:
            return current
        way = 1 if wanted > current else -1
        policies = self.behaviour.up if way > 0 else self.behaviour.down
        bounds = [one.bound(current - self._changed(now_s, one.period_s, way), way) for one in policies]
        return min(wanted, max(*bounds, current)) if way > 0 else max(wanted, min(*bounds, current))

    def _changed(self, now_s: int, period_s: int, way: int) -> int:
        return sum(one for at, one in self._changes if at > now_s - period_s and one * way > 0)


@dataclass(frozen=True)
class Reader:
    """What a reader can do, of one core that it has requested."""

    requests_per_s: float = 100.0
    warm_up_s: int = 60
    """From its start until it is ready: a restore."""
    following: float = 0.1
    """The share of its core that following the commit stream takes; requests go first."""
    milestones_per_s: float = 2.0
    catch_up: float = 5.0
    """How many times as fast as they come milestones are applied if nothing else is to do."""


class Moment(NamedTuple):
    at_s: int
    pods: int
    ready: int
    load: float
    """Of the capacity of those that are ready; above 1 requests wait."""
    backlog: float
    """Milestones, of each ready reader."""


def play(
    behaviour: Behaviour,
    demand: Callable[[int], float],
    targets: Mapping[str, float],
    until_s: int,
    reader: Reader = Reader(),
    held_up: Callable[[int], bool] = lambda _at: False,
) -> list[Moment]:
    """Play the autoscaler against requests per second over time.

    `targets`: of `cpu` the share of the requested core, of `backlog` milestones per reader. `held_up`: whether
    readers cannot follow at that time, whatever their number, as when brokers are slow.
    """
    scaler, births, backlog = Autoscaler(behaviour), [-reader.warm_up_s] * behaviour.least, 0.0
    course = []
    for now_s in range(0, until_s, SYNC_S):
        ready = max(1, sum(now_s - born >= reader.warm_up_s for born in births))
        load = demand(now_s) / (ready * reader.requests_per_s)
        room = max(0.0, 1 - load) / reader.following
        applied = 0.0 if held_up(now_s) else min(room, reader.catch_up)
        backlog = max(0.0, backlog + (1 - applied) * reader.milestones_per_s * SYNC_S)
        course.append(Moment(now_s, len(births), ready, load, backlog))
        share = ready / len(births)
        measured = {"cpu": min(1.0, load + reader.following) * share, "backlog": backlog * share}
        wanted = scaler.decide(now_s, len(births), [measured[name] / target for name, target in targets.items()])
        # Kubernetes removes the newest first, and those that are not ready before.
        births = sorted(births)[:wanted] + [now_s] * (wanted - len(births))
    return course


def turns(course: Sequence[Moment]) -> int:
    """Return how often the number went the other way than at its change before."""
    steps = [after.pods - before.pods for before, after in pairwise(course)]
    ways = [math.copysign(1, one) for one in steps if one]
    return sum(a != b for a, b in pairwise(ways))

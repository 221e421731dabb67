"""Keys by how frequent their events are: the k-th as 1/k^exponent (Zipf's law).

Ranks are grouped, so 10^12 keys cost as much as a thousand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

ALONE = 200
"""The first ranks are groups of their own."""
GROWTH = 1.1
"""Each further group's last rank by its first."""


class Chance(Protocol):
    """As `random.Random`."""

    def randrange(self, stop: int, /) -> int: ...


@dataclass(frozen=True)
class Group:
    keys: float
    share: float
    """Of all events, that each key of the group has."""


@dataclass(frozen=True)
class KeySkew:
    keys: int
    exponent: float = 0.0
    """0: all keys are equally frequent."""

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        weighted = [(count, self._weight(first, count)) for first, count in self._ranks()]
        total = sum(weight for _, weight in weighted)
        return tuple(Group(count, weight / total / count) for count, weight in weighted)

    def _ranks(self) -> Iterator[tuple[int, int]]:
        """Yield the first rank of each group and how many it has."""
        first = 1
        while first <= self.keys:
            end = first + 1 if first <= ALONE else math.ceil(first * GROWTH)
            end = min(end, self.keys + 1)
            yield first, end - first
            first = end

    def _weight(self, first: int, count: int) -> float:
        """Return the sum of 1/k^exponent over a group, by the integral between the middles of ranks."""
        if count == 1:
            return float(first**-self.exponent)
        begin, end = first - 0.5, first + count - 0.5
        if self.exponent == 1:
            return math.log(end / begin)
        power = 1 - self.exponent
        return float((end**power - begin**power) / power)

    @property
    def hottest(self) -> float:
        """The share of the most frequent key."""
        return self.groups[0].share

    def touched(self, events: float) -> float:
        """Return how many keys at least one of so many events has."""
        if events <= 0:
            return 0.0
        found = sum(one.keys * _at_least_once(one.share, events) for one in self.groups)
        return min(found, events)

    def largest_share(self, partitions: int) -> float:
        """Return the share of the events that the fullest of so many partitions has, keys hashed to them.

        The hottest key's, its part of all others, and what the largest of so many sums has beyond that.
        """
        if partitions <= 1:
            return 1.0
        hot = self.hottest
        spread = math.sqrt(2 * math.log(partitions) * self._squares / partitions)
        even = 1 / min(partitions, self.keys)  # fewer keys than partitions leave some empty
        return min(1.0, max(even, hot + (1 - hot) / partitions + spread))

    @cached_property
    def _squares(self) -> float:
        """Return the sum of the squares of all shares but the hottest key's."""
        return sum(one.keys * one.share**2 for one in self.groups) - self.hottest**2

    def shares(self, partitions: int, chance: Chance) -> list[float]:
        """Return each partition's share of the events, with the frequent keys placed by chance."""
        found, rest = [0.0] * partitions, 0.0
        for one in self.groups:
            if one.keys == 1:
                found[chance.randrange(partitions)] += one.share
            else:
                rest += one.keys * one.share
        return [one + rest / partitions for one in found]


def _at_least_once(share: float, events: float) -> float:
    return 1.0 if share >= 1 else -math.expm1(events * math.log1p(-share))

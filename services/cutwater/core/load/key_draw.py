"""The keys of a load: frequent ones by Zipf's law, and others after a while."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Protocol

from cutwater.core.sizing.skew import KeySkew

STRIDE = 0.618_033_988_749_895
"""Of the keys, that the hot ones move by: successive multiples are far from each other."""


class Chance(Protocol):
    """As `random.Random`."""

    def random(self) -> float: ...

    def randrange(self, stop: int, /) -> int: ...


class KeyDraw:
    """Draws numbers of keys, from 0. `move_s`: after which other keys are the frequent ones; None: never."""

    def __init__(self, skew: KeySkew, chance: Chance, move_s: float | None = None) -> None:
        self._chance, self._move_s, self._keys = chance, move_s, skew.keys
        self._counts = [int(one.keys) for one in skew.groups]
        self._firsts = [0, *accumulate(self._counts)]
        self._shares = list(accumulate(one.keys * one.share for one in skew.groups))
        self._stride = max(1, round(skew.keys * STRIDE))

    def at(self, at_s: float) -> int:
        """Return the number of an event's key, at so many seconds from the start."""
        group = min(bisect_left(self._shares, self._chance.random()), len(self._counts) - 1)
        rank = self._firsts[group] + self._chance.randrange(self._counts[group])
        moves = int(at_s / self._move_s) if self._move_s else 0
        return (rank + moves * self._stride) % self._keys

"""How long a reader had nothing newer, from the moments at which it saw each milestone first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import numpy as np

from cutwater.core.protocol.generation import Generation, Token


class Sight(NamedTuple):
    """A milestone, when a reader had it first."""

    at_s: float
    """Of a clock that never goes back."""
    token: Token


@dataclass(frozen=True)
class Gap:
    """A time in which a reader had nothing newer than `last`."""

    from_s: float
    to_s: float
    last: Token
    next: Token

    @property
    def seconds(self) -> float:
        return self.to_s - self.from_s


def gaps(seen: Sequence[Sight]) -> Iterator[Gap]:
    """Between each two that follow each other."""
    for one, two in pairwise(seen):
        yield Gap(one.at_s, two.at_s, one.token, two.token)


def inside(seen: Sequence[Sight], from_s: float, to_s: float) -> list[Gap]:
    """Those that have a part of that time in them."""
    return [one for one in gaps(seen) if one.from_s < to_s and one.to_s > from_s]


def longest(seen: Sequence[Sight], from_s: float, to_s: float) -> Gap | None:
    """Of those; None where the reader saw nothing new then, or has not yet."""
    return max(inside(seen, from_s, to_s), key=lambda one: one.seconds, default=None)


def change(seen: Sequence[Sight], generation: Generation) -> Gap | None:
    """That before the first milestone of a generation."""
    return next((one for one in gaps(seen) if one.next.generation == generation != one.last.generation), None)


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Of intervals; nothing of none."""
    if not seconds:
        return {}
    return {
        "median": round(median(seconds), 3),
        "p99": round(float(np.percentile(seconds, 99)), 3),
        "max": round(max(seconds), 3),
        "count": len(seconds),
    }

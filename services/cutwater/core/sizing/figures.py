"""Figures of a sizing, each with its calculation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.checks.capacity import Estimate


class Figure(NamedTuple):
    name: str
    value: float
    unit: str
    why: str
    """The calculation, with its numbers."""


@dataclass(frozen=True)
class Sizing:
    figures: Sequence[Figure]
    warnings: Sequence[str]
    estimate: Estimate
    """Of the mean load."""

    def __getitem__(self, name: str) -> float:
        return next(one.value for one in self.figures if one.name == name)

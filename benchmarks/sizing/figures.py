"""The figures of one rate, predicted or measured, and how they come from epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutwater.core.protocol.records import Milestone
from cutwater.core.sizing.simulation import PARTS, weighed_quantile

WITHIN = 0.2
"""Prediction and measurement shall differ by no more."""


@dataclass(frozen=True)
class Figures:
    driver_cores: float
    """CPU time of the driver by time."""
    p50_s: float
    """From the moment when an event was due to its milestone."""
    rows_per_s: float
    view_mb: float
    """Keys and values of the view."""
    beside_cores: float
    """CPU time of all but the driver by time."""


def p50_s(milestones: Sequence[Milestone], before: int, began_s: float, rate: float) -> float:
    """Return the median over the events behind the first `before` of the time from when one was due."""
    ages: list[tuple[float, float]] = []
    read = before
    for one in milestones:
        cut = one.source_cut.records
        if cut <= read:
            continue
        for share in PARTS:
            due_s = began_s + (read + share * (cut - read) - before) / rate
            ages.append((one.committed_ms / 1_000 - due_s, cut - read))
        read = cut
    return weighed_quantile(ages, 0.5)

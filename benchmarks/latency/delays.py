"""From what was seen to how long each event took. Plain arrays, no clock.

Event and row are joined by the count: of the n-th event of a (key, window) the result is there as soon as a row
says a count of n or more. So one rule serves every contender, and says nothing of how it works inside.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.windows.workload import Events

PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
CURVE = 200
"""Points of a run's distribution that are kept, for the plot."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sightings:
    """Rows as somebody saw them. Columns of equal length, in any order."""

    key: Ints
    window_ms: Ints
    """Start of the window, ms since 1970."""
    count: Ints
    at_ns: Ints
    """When the row was there, ns since 1970."""

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, int]]) -> Sightings:
        """From (key, window start, count, ns) each."""
        table = np.array(list(rows), dtype=np.int64).reshape(-1, 4)
        return cls(*table.T)

    def __len__(self) -> int:
        return len(self.key)


def ordinals(events: Events, window_ms: int) -> Ints:
    """1 for the first event of its (key, window), 2 for the second, and so on. Windows tumble."""
    group = _groups(events.key, events.time_ms // window_ms * window_ms)
    order = np.argsort(group, kind="stable")
    arranged = group[order]
    begins = np.flatnonzero(np.r_[True, arranged[1:] != arranged[:-1]])
    lengths = np.diff(np.r_[begins, len(arranged)])
    found = np.empty(len(group), dtype=np.int64)
    found[order] = np.arange(len(group)) - np.repeat(begins, lengths) + 1
    return found


def first_seen(events: Events, window_ms: int, seen: Sightings) -> Ints:
    """When each event's result was there, ns since 1970; -1 for an event that no row holds."""
    index = first_row(events, window_ms, seen)
    return np.where(index >= 0, seen.at_ns[index], -1) if len(seen) else index


def first_row(events: Events, window_ms: int, seen: Sightings) -> Ints:
    """The number of the earliest sighting that holds each event; -1 for none."""
    if not len(seen):
        return np.full(len(events), -1, dtype=np.int64)
    wanted = _groups(events.key, events.time_ms // window_ms * window_ms)
    # By group, then count, then moment: the first row at or behind (group, n) is the one.
    order = np.lexsort((seen.at_ns, seen.count, _groups(seen.key, seen.window_ms)))
    groups, counts = _groups(seen.key, seen.window_ms)[order], seen.count[order]
    most = int(max(counts.max(), len(events))) + 1
    names = np.unique(groups)
    known = np.searchsorted(names, groups) * most + counts
    name = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    place = np.searchsorted(known, name * most + ordinals(events, window_ms))
    inside = np.minimum(place, len(known) - 1)
    there = (place < len(known)) & (groups[inside] == wanted)
    return np.where(there, order[inside], -1)


def _groups(key: Ints, window_start_ms: Ints) -> Ints:
    """One number for each (key, window)."""
    return window_start_ms * 1_000_000 + key


def summary(delays_ms: Floats) -> dict[str, float]:
    """Percentiles, ms."""
    values = np.percentile(delays_ms, list(PERCENTILES.values()))
    return {name: round(float(value), 2) for name, value in zip(PERCENTILES, values, strict=True)}


def curve(delays_ms: Floats) -> list[float]:
    """The distribution as quantiles from 0 to 1, evenly spaced; the last is the largest."""
    return [round(float(one), 2) for one in np.quantile(delays_ms, np.linspace(0, 1, CURVE + 1))]

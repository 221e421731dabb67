"""A heat map: a number by lane (partition or shard) and slice of time, in bounded memory.

Theory of operation. Time is cut into columns of one width. When they become more than `columns_max`, the width
doubles and neighbours are merged, so the whole history fits at a coarser resolution. At the largest width the
oldest columns are forgotten. A picture has at most `BANDS_MAX` bands: of several lanes in one band the hottest
is shown, because a hot spot must not vanish in a mean.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Sequence
from operator import add, sub
from typing import Any

COLUMNS_MAX = 240
COLUMNS_MIN = 4
CELLS_MAX = 4_000_000
"""Numbers of a map, 32 MB: with very many lanes there are fewer columns."""
BANDS_MAX = 512
WIDTH_MS, WIDTH_MS_MAX = 1_000, 2**12 * 1_000
HOTTEST = 20
VIEWS_MAX = 4
"""The most pictures that are remembered."""
_View = tuple[int, int, int]
"""(first lane, end, lanes in a band)."""


class HeatMap:
    """Values of `lanes` lanes over time; `gauge`: a later value replaces an earlier one, else they are added."""

    def __init__(self, lanes: int, gauge: bool = False, columns_max: int = COLUMNS_MAX) -> None:
        self.lanes = lanes
        self.version = 0
        """Changes with each change of the map."""
        self._gauge = gauge
        self._columns_max = max(COLUMNS_MIN, min(columns_max, CELLS_MAX // max(1, lanes)))
        self._width = WIDTH_MS
        self._columns: dict[int, array[int]] = {}
        """By number of the column, which is the time divided by the width; in ascending order."""
        self._totals = array("q", bytes(8 * lanes))
        """The sum of each lane; of a gauge its newest value."""
        self._banded: dict[_View, dict[int, list[int]]] = {}
        """The bands of the columns as they were last shown: a picture costs only what is new."""

    def take(self, at_ms: int, values: Sequence[int]) -> bool:
        """Add one number for each lane; return False if there are more or fewer."""
        if len(values) != self.lanes:
            return False
        # After a clock was set back, the values count in the newest column.
        number = max(at_ms // self._width, next(reversed(self._columns), 0))
        added = array("q", values)
        self._columns[number] = self._merged(self._columns.get(number), added)
        self._totals = self._merged(self._totals, added)
        for known in self._banded.values():
            known.pop(number, None)
        while self._span() > self._columns_max:
            self._widen()
        self.version += 1
        return True

    def picture(self, first: int = 0, end: int | None = None, bands_max: int = BANDS_MAX) -> dict[str, Any]:
        """Return the lanes from `first` to below `end`, in at most `bands_max` bands of equally many lanes."""
        first = max(0, min(first, self.lanes))
        end = self.lanes if end is None else max(first, min(end, self.lanes))
        band = max(1, -(-(end - first) // max(1, min(bands_max, BANDS_MAX))))
        found = self._bands((first, end, band))
        oldest = next(iter(self._columns), 0)
        return {
            "lanes": self.lanes,
            "first": first,
            "end": end,
            "band": band,
            "bands": len(range(first, end, band)),
            "width_ms": self._width,
            "from_ms": oldest * self._width,
            "at": [number - oldest for number in self._columns],
            "columns": self._span(),
            "max": max((max(one, default=0) for one in found), default=0),
            "cells": found,
        }

    def hottest(self, many: int = HOTTEST) -> list[dict[str, int]]:
        """Return the lanes with the largest sum (of a gauge: newest value), and their part in 1/1000 of all."""
        totals = self._totals
        all_of = sum(totals) or 1
        best = heapq.nlargest(many, range(self.lanes), key=lambda lane: (totals[lane], -lane))
        return [
            {"lane": one, "value": totals[one], "per_mille": totals[one] * 1_000 // all_of}
            for one in best
            if totals[one]
        ]

    def _bands(self, view: _View) -> list[list[int]]:
        first, end, band = view
        if view not in self._banded:
            while len(self._banded) >= VIEWS_MAX:
                del self._banded[next(iter(self._banded))]
            self._banded[view] = {}
        known = self._banded[view]
        for number, one in self._columns.items():
            if number not in known:
                # Slicing an array costs less than asking it for each of its numbers.
                known[number] = [max(one[at : min(at + band, end)]) for at in range(first, end, band)]
        return [known[number] for number in self._columns]

    def _merged(self, before: array[int] | None, after: array[int]) -> array[int]:
        if before is None or self._gauge:
            return after
        return array("q", map(add, before, after))

    def _span(self) -> int:
        if not self._columns:
            return 0
        return next(reversed(self._columns)) - next(iter(self._columns)) + 1

    def _widen(self) -> None:
        if self._width >= WIDTH_MS_MAX:
            first = next(reversed(self._columns)) - self._columns_max + 1
            for number in [one for one in self._columns if one < first]:
                self._forget(number)
            return
        self._width *= 2
        self._banded.clear()
        before, self._columns = self._columns, {}
        for number, one in before.items():
            self._columns[number // 2] = self._merged(self._columns.get(number // 2), one)

    def _forget(self, number: int) -> None:
        gone = self._columns.pop(number)
        if not self._gauge:
            self._totals = array("q", map(sub, self._totals, gone))
        for known in self._banded.values():
            known.pop(number, None)

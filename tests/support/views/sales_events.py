"""Events of sales in epochs, and what DuckDB makes of them: an account of a row that shares no code with ours."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, NamedTuple

import duckdb

from cutwater.core.protocol.records import Milestone
from support.views.changelogs import HOUR_MS, Sold, Writing

_SUMS = """
select shop, hour, sum(pieces) filter (epoch <= ?) as one, sum(pieces) filter (epoch <= ?) as other
from events group by shop, hour
having one is distinct from other
"""
_HISTORY = """
with epochs as (
    select epoch, sum(pieces) as added from events where shop = ? and hour = ? group by epoch
)
select epoch, sum(added) over (order by epoch) - added as before, sum(added) over (order by epoch) as after
from epochs order by epoch
"""
Pieces = int | None


class Event(NamedTuple):
    epoch: int
    """The sequence of the milestone that reads it."""
    shop: str
    hour: int
    pieces: int


class Sales:
    """Events, played to a changelog as a driver does: each epoch writes the totals of the rows that it touched."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing
        self._database = duckdb.connect()
        self._database.execute("create table events (epoch int, shop text, hour int, pieces int)")
        self._totals: dict[tuple[str, int], int] = {}

    def epoch(self, events: Iterable[tuple[str, int, int]], **changes: Any) -> Milestone:
        """One epoch of events: shop, hour and pieces."""
        sequence = self.writing.last.sequence + 1 if self.writing.last else 1
        touched = set()
        for shop, hour, pieces in events:
            self._database.execute("insert into events values (?, ?, ?, ?)", Event(sequence, shop, hour, pieces))
            self._totals[shop, hour] = self._totals.get((shop, hour), 0) + pieces
            touched.add((shop, hour))
        rows = [Sold(shop, hour, self._totals[shop, hour]) for shop, hour in sorted(touched)]
        return self.writing.epoch(rows, **changes)

    def random_epochs(self, count: int, seed: int, shops: int = 12, hours: int = 4) -> None:
        draw = random.Random(seed)
        for _ in range(count):
            events = [
                (f"s{draw.randrange(shops)}", 1 + draw.randrange(hours), draw.randint(1, 9))
                for _ in range(draw.randint(0, 20))
            ]
            self.epoch(events)

    def differences(self, one: int, other: int) -> dict[tuple[str, int], tuple[Pieces, Pieces]]:
        """The rows that differ after two epochs, by shop and start in ms: pieces in each."""
        found = self._database.execute(_SUMS, [one, other]).fetchall()
        return {(shop, hour * HOUR_MS): (before, after) for shop, hour, before, after in found}

    def history(self, shop: str, hour: int) -> list[tuple[int, Pieces, int]]:
        """The epochs that changed a row, with the pieces before and after."""
        found = self._database.execute(_HISTORY, [shop, hour]).fetchall()
        return [(epoch, before or None, after) for epoch, before, after in found]

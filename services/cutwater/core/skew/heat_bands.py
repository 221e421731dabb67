"""The load by shard and milestone in few bands and columns, for a terminal, a picture and JSON.

Of several shards in one band the hottest is shown: a hot spot must not vanish in a mean. Milestones of one column
are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutwater.core.job.shards import ShardMap

SHADES = " ░▒▓█"
LEVELS = len(SHADES)


@dataclass(frozen=True)
class HeatBands:
    """Weights by band and column."""

    band: int
    """Shards of a band."""
    column: int
    """Milestones of a column; the last one may have fewer."""
    cells: tuple[tuple[int, ...], ...]
    """By band, then by column."""
    partitions: tuple[tuple[int, int], ...]
    """By band the first and the last partition that owns its shards."""

    @property
    def hottest(self) -> int:
        return max((max(row, default=0) for row in self.cells), default=0)

    def level(self, value: int) -> int:
        """Return the shade of a weight: 0 for nothing, at least 1 for something, `LEVELS` - 1 for the hottest."""
        if value <= 0:
            return 0
        return max(1, min(LEVELS - 1, value * (LEVELS - 1) // max(1, self.hottest)))


def heat_bands(cells: Sequence[Sequence[int]], partitions: int, bands_max: int, columns_max: int) -> HeatBands:
    """Return the bands of `cells`, weights by milestone and shard."""
    shards = len(cells[0])
    band = -(-shards // max(1, min(bands_max, shards)))
    column = -(-len(cells) // max(1, columns_max))
    columns = [tuple(map(sum, zip(*cells[at : at + column], strict=True))) for at in range(0, len(cells), column)]
    firsts = range(0, shards, band)
    rows = tuple(tuple(max(one[at : at + band]) for one in columns) for at in firsts)
    of = ShardMap(shards, partitions)
    owners = tuple((of.partition(at), of.partition(min(at + band, shards) - 1)) for at in firsts)
    return HeatBands(band, column, rows, owners)

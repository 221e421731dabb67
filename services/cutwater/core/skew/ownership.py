"""What moves when the number of a changelog's partitions changes: shards, keys and rows that get another one.

A partition owns a contiguous range of shards, so after a change each new partition has its rows from few old ones,
and one of twice as many has them from one. The price is that more partitions get another number than the least
possible: a reader finds a key by its shard, and no table of shards has to be kept or agreed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutwater.core.job.shards import ShardMap


@dataclass(frozen=True)
class Counted:
    """The state by shard: different keys and rows. `whole`: of all rows, not of the newest ones only."""

    keys: tuple[int, ...]
    rows: tuple[int, ...]
    whole: bool


@dataclass(frozen=True)
class Moved:
    """What a change of partitions moves."""

    before: int
    after: int
    shards: int
    shards_moved: int
    shards_least: int
    """The least that any balanced assignment would move."""
    keys: int
    keys_moved: int
    rows: int
    rows_moved: int
    parents_max: int
    """Of the new partitions: the most old ones that one has its rows from."""
    whole: bool
    """Whether keys and rows are of the whole state; else of the newest rows."""


def moved(shards: int, before: int, after: int, counted: Counted) -> Moved:
    """Return what moves if `before` partitions become `after`. `counted` has one number for each shard."""
    old, new = ShardMap(shards, before), ShardMap(shards, after)
    away = [one for one in range(shards) if old.partition(one) != new.partition(one)]
    parents = (len({old.partition(one) for one in new.shards_of_partition(at)}) for at in range(after))
    return Moved(
        before=before,
        after=after,
        shards=shards,
        shards_moved=len(away),
        shards_least=_least(old, new),
        keys=sum(counted.keys),
        keys_moved=_sum(counted.keys, away),
        rows=sum(counted.rows),
        rows_moved=_sum(counted.rows, away),
        parents_max=max(parents),
        whole=counted.whole,
    )


def _least(old: ShardMap, new: ShardMap) -> int:
    """Return what has to move so that each partition has as many shards as in the new map, whoever keeps which.

    Of two balanced maps the larger shares keep the larger parts.
    """
    before = sorted((len(old.shards_of_partition(at)) for at in range(old.partitions)), reverse=True)
    after = sorted((len(new.shards_of_partition(at)) for at in range(new.partitions)), reverse=True)
    return old.shards - sum(map(min, before, after))


def _sum(counts: Sequence[int], at: Sequence[int]) -> int:
    return sum(counts[one] for one in at)

"""Shards: fixed slices of the key space.

A key's shard never changes, and a partition owns a contiguous range of shards. So the number of partitions can
change, and values per shard stay comparable.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.core.errors import UsageError

MAX_SHARDS = 65_536


@dataclass(frozen=True)
class ShardMap:
    """`shards` slices (a power of two) over `partitions` partitions (at most one per shard)."""

    shards: int = 1024
    partitions: int = 4

    def __post_init__(self) -> None:
        if not (1 <= self.shards <= MAX_SHARDS and self.shards & (self.shards - 1) == 0):
            raise UsageError(f"shards is {self.shards}: it must be a power of two from 1 to {MAX_SHARDS}")
        if not 1 <= self.partitions <= self.shards:
            raise UsageError(f"partitions is {self.partitions}: it must be from 1 to shards ({self.shards})")

    def shard(self, key_hash: int) -> int:
        """Return the shard of a 64-bit key hash. Signed (Spark) and unsigned (xxhash) have the same low bits."""
        return key_hash & (self.shards - 1)

    def partition(self, shard: int) -> int:
        return shard * self.partitions // self.shards

    def shards_of_partition(self, partition: int) -> range:
        """Return the shards of one partition. The ceiling division inverts `partition` exactly."""
        first = -(-partition * self.shards // self.partitions)
        return range(first, -(-(partition + 1) * self.shards // self.partitions))

    def partition_sql(self, key: str) -> str:
        return f"cast((xxhash64({key}) & {self.shards - 1}L) * {self.partitions} div {self.shards} as int)"

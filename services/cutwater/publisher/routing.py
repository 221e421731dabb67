"""Assigns rows to partitions of the output, by the key and by the output's fixed number of partitions.

Changelogs of later generations may have other numbers of partitions. All rows of a key stay in one partition of
the output, so that readers see them in order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from cutwater.adapters.hashing import key_bytes_hash
from cutwater.core.job.shards import ShardMap
from cutwater.publisher.encoding import group_key
from cutwater.views.changelog.row_batch import Piece


class Routing:
    """Routes rows from a changelog with `changelog` partitions to the output."""

    def __init__(self, output: ShardMap, changelog: int) -> None:
        self._output = output
        from_ = ShardMap(output.shards, changelog)
        self._whole = {at: self._one(from_.shards_of_partition(at)) for at in range(changelog)}
        """Changelog partition → the only output partition of its rows; None for several."""

    def split(self, piece: Piece) -> Iterator[tuple[int, Piece]]:
        """Yield the rows by partition of the output, in their order."""
        whole = self._whole.get(piece.partition)
        if whole is not None:
            yield whole, piece
            return
        places: dict[int, list[int]] = defaultdict(list)
        shard, partition = self._output.shard, self._output.partition
        for at, key in enumerate(piece.keys):
            places[partition(shard(key_bytes_hash(group_key(key))))].append(at)
        for number, rows in places.items():
            keys, values = [piece.keys[at] for at in rows], [piece.values[at] for at in rows]
            yield number, replace(piece, keys=keys, values=values, offsets=[piece.offsets[at] for at in rows])

    def _one(self, shards: range) -> int | None:
        found = {self._output.partition(shards[0]), self._output.partition(shards[-1])}
        return found.pop() if len(found) == 1 else None

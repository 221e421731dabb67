"""How large a view's state is, and where: rows and bytes by time segment, by shard, and of the largest keys.

Bytes are those of keys and values as they are stored, before compression. A census adds them up, one run of rows
of the same key and segment at a time; what it holds meanwhile is bounded, whatever it meets.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

LARGEST_KEYS = 20
"""That a census names."""
KEYS_HELD = 4_000
"""That are counted by themselves at a time: fewer keys than that are counted exactly."""


class Size(NamedTuple):
    rows: int = 0
    bytes: int = 0

    def plus(self, rows: int, size: int) -> Size:
        return Size(self.rows + rows, self.bytes + size)


NOTHING = Size()


class KeySize(NamedTuple):
    """One of the largest keys; by so many bytes too little at most as the census says (`error_bytes`)."""

    key: str
    bytes: int


class Heaviest:
    """The heaviest of very many names, in bounded memory (Misra and Gries, in the batched form).

    When more than twice `most` names are held, the weight of the one in the middle is taken from all, and those
    that have nothing left go. So what is said of a name is too little by `error` at most, and that is no more than
    the sum of all weights divided by `most`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._weights: dict[str, int] = {}
        self.error = 0

    def __len__(self) -> int:
        return len(self._weights)

    def add(self, name: str, weight: int) -> None:
        self._weights[name] = self._weights.get(name, 0) + weight
        if len(self._weights) > 2 * self._most:
            taken = heapq.nlargest(self._most + 1, self._weights.values())[-1]
            self._weights = {one: left - taken for one, left in self._weights.items() if left > taken}
            self.error += taken

    def first(self, count: int) -> list[tuple[str, int]]:
        """The heaviest, with what is known of their weights."""
        return heapq.nsmallest(count, self._weights.items(), key=lambda one: (-one[1], one[0]))


@dataclass(frozen=True)
class Sizes:
    """What a census found."""

    total: Size
    segments: Mapping[int, Size]
    """By the number of the segment."""
    shards: Mapping[int, Size]
    """By shard; those that hold nothing are left out."""
    largest: tuple[KeySize, ...]
    """The largest first."""
    error_bytes: int
    """So much may be missing from the bytes of one of the largest, at most; a key left out is no larger than this
    and the smallest of them together."""


class Tally:
    """Sums up a census. Not for two of them."""

    def __init__(self, keys_held: int = KEYS_HELD) -> None:
        self._total = NOTHING
        self._segments: dict[int, Size] = {}
        self._shards: dict[int, Size] = {}
        self._keys = Heaviest(keys_held // 2)

    def add(self, segment: int, shard: int, key: str, rows: int, size: int) -> None:
        """Rows of one key in one segment, with their bytes."""
        self._total = self._total.plus(rows, size)
        self._segments[segment] = self._segments.get(segment, NOTHING).plus(rows, size)
        self._shards[shard] = self._shards.get(shard, NOTHING).plus(rows, size)
        self._keys.add(key, size)

    def sizes(self) -> Sizes:
        largest = tuple(KeySize(*one) for one in self._keys.first(LARGEST_KEYS))
        return Sizes(self._total, self._segments, self._shards, largest, self._keys.error)

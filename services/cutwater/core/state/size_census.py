"""Census of a view's state: rows and bytes by time segment, by shard, and of the largest keys.

Bytes are those of stored keys and values before compression. Memory is bounded for any state.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

LARGEST_KEYS = 20
"""Number of largest keys that a census names."""
KEYS_HELD = 4_000
"""Number of keys counted separately at a time: fewer keys than that are counted exactly."""

KEY_CHARACTERS = 200
"""Characters of a key in a list of the largest, or of the most read; a longer key is cut and gets a hash."""


class Size(NamedTuple):
    rows: int = 0
    bytes: int = 0

    def plus(self, rows: int, size: int) -> Size:
        return Size(self.rows + rows, self.bytes + size)


NOTHING = Size()


class KeySize(NamedTuple):
    """One of the largest keys; `bytes` is too small by at most `Sizes.error_bytes`."""

    key: str
    bytes: int


def short_key(key: str) -> str:
    """Return the key, or a bounded and unique name for a long one."""
    if len(key) <= KEY_CHARACTERS:
        return key
    return f"{key[:KEY_CHARACTERS]}… ({hashlib.sha256(key.encode()).hexdigest()[:16]})"


class Heaviest:
    """The heaviest of very many names in bounded memory (Misra and Gries, batched).

    Beyond twice `most` names, the weight of the (`most` + 1)-th is subtracted from all, and names without weight
    are dropped. So weights are too small by at most `error`, which is at most the sum of all weights divided by
    `most`.
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
        """Return the heaviest names with their known weights."""
        return heapq.nsmallest(count, self._weights.items(), key=lambda one: (-one[1], one[0]))


@dataclass(frozen=True)
class Sizes:
    """The result of a census."""

    total: Size
    segments: Mapping[int, Size]
    """Size by segment number."""
    shards: Mapping[int, Size]
    """Size by shard; empty shards are left out."""
    largest: tuple[KeySize, ...]
    """The largest first."""
    error_bytes: int
    """Upper bound of the bytes missing from one of `largest`; a key left out is no larger than this bound plus the
    smallest of them."""


class Tally:
    """The sums of one census; not reusable."""

    def __init__(self, keys_held: int = KEYS_HELD) -> None:
        self._total = NOTHING
        self._segments: dict[int, Size] = {}
        self._shards: dict[int, Size] = {}
        self._keys = Heaviest(keys_held // 2)

    def add(self, segment: int, shard: int, key: str, rows: int, size: int) -> None:
        """Add rows of one key in one segment, with their bytes."""
        self._total = self._total.plus(rows, size)
        self._segments[segment] = self._segments.get(segment, NOTHING).plus(rows, size)
        self._shards[shard] = self._shards.get(shard, NOTHING).plus(rows, size)
        self._keys.add(key, size)

    def sizes(self) -> Sizes:
        largest = tuple(KeySize(*one) for one in self._keys.first(LARGEST_KEYS))
        return Sizes(self._total, self._segments, self._shards, largest, self._keys.error)

"""xxhash64 as Spark computes it (seed 42), so that digests and shards agree across languages."""

from __future__ import annotations

from collections.abc import Iterable

import xxhash

from cutwater.core.digest import signed

_SPARK_SEED = 42


def key_hash(key: str) -> int:
    """Spark's `xxhash64(key)` of a string column, signed."""
    return signed(xxhash.xxh64_intdigest(key.encode(), seed=_SPARK_SEED))


def rows_hash(rows: Iterable[tuple[bytes, bytes]]) -> int:
    """The XOR of `row_hash` over (key, value) pairs; 0 for none. In one loop: there may be millions."""
    found, hash_ = 0, xxhash.xxh64_intdigest
    for key, value in rows:
        found ^= hash_(value, hash_(key, _SPARK_SEED))
    return int(found)


def row_hash(key: bytes, value: bytes) -> int:
    """Spark's `xxhash64(key, value)` of two binary columns, unsigned: the first hash seeds the second."""
    seed = xxhash.xxh64_intdigest(key, seed=_SPARK_SEED)
    return int(xxhash.xxh64_intdigest(value, seed=seed))

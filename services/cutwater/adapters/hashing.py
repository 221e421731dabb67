"""xxhash64 as Spark computes it (seed 42), so that digests and shards agree across languages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from itertools import repeat
from operator import xor

import xxhash

from cutwater.core.protocol.changelog_rows import signed

_SPARK_SEED = 42


def key_hash(key: str) -> int:
    """Return Spark's `xxhash64(key)` of a string column, signed."""
    return signed(xxhash.xxh64_intdigest(key.encode(), seed=_SPARK_SEED))


def key_bytes_hash(key: bytes) -> int:
    """Return `key_hash` of a UTF-8 key, unsigned: the low bits, which select the shard, are the same."""
    return int(xxhash.xxh64_intdigest(key, seed=_SPARK_SEED))


def rows_hash(keys: Iterable[bytes], values: Iterable[bytes]) -> int:
    """Return the XOR of `row_hash` over the rows; 0 for none. Only C loops: there may be millions of rows."""
    seeds = map(xxhash.xxh64_intdigest, keys, repeat(_SPARK_SEED))
    return reduce(xor, map(xxhash.xxh64_intdigest, values, seeds), 0)


def row_hash(key: bytes, value: bytes) -> int:
    """Return Spark's `xxhash64(key, value)` of two binary columns, unsigned: the first hash seeds the second."""
    seed = xxhash.xxh64_intdigest(key, seed=_SPARK_SEED)
    return int(xxhash.xxh64_intdigest(value, seed=seed))

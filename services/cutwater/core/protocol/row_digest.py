"""The digest of a set of rows: the XOR of their 64-bit hashes, 0 for none.

XOR commutes, so the digest does not depend on the order of the rows. The hash is xxhash64(key, value) as in Spark;
`cutwater.adapters.hashing` computes the same number.
"""

from __future__ import annotations

from collections.abc import Iterable

_MASK = (1 << 64) - 1


def fold(hashes: Iterable[int], start: int = 0) -> int:
    """Return the XOR of unsigned or signed 64-bit hashes, as an unsigned number."""
    total = start & _MASK
    for one in hashes:
        total ^= one & _MASK
    return total


def signed(value: int) -> int:
    """Return an unsigned 64-bit number as the signed one of Spark and Avro."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value

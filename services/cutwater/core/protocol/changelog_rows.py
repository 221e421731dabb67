"""The writer of a changelog row, as its header names it, and the digest of a set of rows.

The digest is the XOR of the rows' 64-bit hashes, 0 for none: XOR commutes, so their order does not
matter. The hash is xxhash64(key, value) as in Spark; `cutwater.adapters.hashing` computes the same number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Generation

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


WRITER_HEADER = "writer"
"""The header of every record of a changelog. One header, not three: Spark creates objects for each, per row."""


class Writer(NamedTuple):
    """The writer of a row."""

    generation: Generation
    attempt: int
    epoch: int

    @property
    def header(self) -> bytes:
        """The value of the row's header `writer`."""
        return header_prefix(self.generation) + f"{self.attempt}/{self.epoch}".encode()

    @staticmethod
    def of_snapshot(generation: Generation, epoch: int) -> Writer:
        """Return the writer of rows from a snapshot: their generation and attempt 0 (real attempts count from 1).

        A view does not keep the writer of a row. So these rows belong to the state, not to a milestone's own rows.
        """
        return Writer(generation, 0, epoch)

    @staticmethod
    def of_header(value: bytes | None) -> Writer | None:
        """Parse a header; None if it is invalid."""
        try:
            generation, attempt, epoch = (value or b"").decode().split("/")
            return Writer(Generation.parse(generation), int(attempt), int(epoch))
        except (ValueError, UsageError):
            return None


def header_prefix(generation: Generation) -> bytes:
    """Return the common start of the headers of a generation's rows."""
    return f"{generation}/".encode()

"""Rows in pieces of one partition, as columns instead of a tuple per row, since there may be millions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, islice
from operator import attrgetter

from cutwater.core.job.job import Job

PIECE_ROWS = 1_000
_COLUMNS = attrgetter("keys"), attrgetter("values"), attrgetter("offsets")


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of one partition, as the changelog holds them."""

    partition: int
    """Of the changelog; -1 for rows that were not read from it."""
    keys: list[bytes]
    values: list[bytes]
    offsets: Sequence[int]
    """Of each row in the changelog; -1 for rows that were not read from it."""
    kind: str = ""
    """The rows' kind on the output; empty if the publisher writes only one kind."""
    keyed_by: Job | None = None
    """The job whose keys the rows have, if its key is another one than the publisher's; else None."""

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def size(self) -> int:
        """Bytes of keys and values together."""
        return sum(map(len, self.keys)) + sum(map(len, self.values))

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        return zip(self.keys, self.values, strict=True)

    def split(self, count: int) -> tuple[Piece, Piece]:
        """Split after `count` rows."""
        if count >= len(self):
            return self, replace(self, keys=[], values=[], offsets=[])
        keys, values, offsets = self.keys, self.values, self.offsets
        return (
            replace(self, keys=keys[:count], values=values[:count], offsets=offsets[:count]),
            replace(self, keys=keys[count:], values=values[count:], offsets=offsets[count:]),
        )

    def fitting(self, rows: int, bytes_: int) -> int:
        """Return how many of the first rows have at most `rows` rows and `bytes_` bytes together."""
        if len(self) <= rows and self.size <= bytes_:
            return len(self)
        count = 0
        for key, value in self.rows():
            bytes_ -= len(key) + len(value)
            if count == rows or bytes_ < 0:
                break
            count += 1
        return count


def join_pieces(pieces: Sequence[Piece]) -> Piece:
    """Return the rows of consecutive pieces of one partition as one."""
    keys, values, offsets = ([one for piece in pieces for one in column(piece)] for column in _COLUMNS)
    return replace(pieces[0], keys=keys, values=values, offsets=offsets)


def pieces_of(rows: Iterable[tuple[int, int, bytes, bytes]], kind: str = "") -> Iterator[Piece]:
    """Yield pieces of rows (partition, offset, key, value), in their order."""
    for partition, group in groupby(rows, key=lambda row: row[0]):
        while chunk := list(islice(group, PIECE_ROWS)):
            _, offsets, keys, values = map(list, zip(*chunk, strict=True))
            yield Piece(partition, keys, values, offsets, kind)

"""The rows of B1's changelogs: made from a seed, column by column, as the bytes that the driver would write.

A group has WINDOWS windows; each (group, window) is a key of the changelog. A round writes every key once, in an
order by chance, and a log is as many rounds as a key has updates. The state is therefore the last round's rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.windows.columns import varints
from cutwater.adapters.hashing import key_hash
from cutwater.core.job.job import Job

WINDOWS = 8
WINDOW_MS = 3_600_000
START_MS = 1_700_002_800_000
"""A whole hour."""
EPOCH_ROWS_MAX = 50_000
GROUP_BYTES = 16
VALUE_BYTES = 100
_NOTE_BYTES = 77
_FACTOR = 0x9E3779B97F4A7C15
"""Odd: numbers times it, modulo 2^64, are all different, and their order looks like chance."""
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_NUMBERS_FROM, _NUMBERS_BELOW = 1 << 13, 1 << 20
"""Numbers that Avro writes in three bytes, so that all values are of one length."""


@dataclass(frozen=True)
class Workload:
    """What a changelog holds; a contender begins with nothing and restores all of it."""

    name: str
    updates: int
    """Of each key."""
    closed: int = 0
    """So many of the windows are below the horizon at the end, and deleted."""
    tail: float = 0.0
    """So many of the rows, as a share, are written once more behind a snapshot, from which a view may begin."""

    def groups(self, records: int) -> int:
        """How many groups make about so many records, tombstones included."""
        return max(1, int(records / (WINDOWS * (self.updates + self.tail) + self.closed)))


WORKLOADS = (
    Workload("log-unique", 1),
    Workload("log-4-updates", 4, closed=2),
    Workload("log-16-updates", 16),
    Workload("hybrid-1pct", 1, tail=0.01),
    Workload("hybrid-10pct", 1, tail=0.1),
)


@dataclass(frozen=True)
class Rows:
    """Some rows as columns of equal length."""

    group: NDArray[np.int64]
    window: NDArray[np.int64]
    keys: list[bytes]
    values: list[bytes]


def group_name(number: int) -> str:
    """The group key's text, 16 characters."""
    return f"{number * _FACTOR % (1 << 64):016x}"


def window_of(number: int) -> tuple[int, int]:
    """Start and end of a window, in ms."""
    start = START_MS + number * WINDOW_MS
    return start, start + WINDOW_MS


def partitions_of(groups: int, job: Job) -> NDArray[np.int64]:
    """The partition of each group, as the driver chooses it."""
    shards = job.shards
    found = (shards.partition(shards.shard(key_hash(group_name(number)))) for number in range(groups))
    return np.fromiter(found, np.int64, groups)


class Maker:
    """Encodes rows: `key_header` and `value_header` are Avro's (marker and fingerprint)."""

    def __init__(self, groups: int, seed: int, key_header: bytes, value_header: bytes) -> None:
        names = "".join(map(group_name, range(groups))).encode()
        self._names = np.frombuffer(names, dtype=np.uint8).reshape(groups, GROUP_BYTES)
        self._groups = groups
        self._rng = np.random.default_rng(seed)
        self._key_header, self._value_header = key_header, value_header
        starts = np.array([window_of(number) for number in range(WINDOWS)], dtype=np.int64)
        self._times = np.hstack([varints(starts[:, at])[0] for at in (0, 1)])

    def round(self, number: int) -> Iterator[Rows]:
        """Every key once, in pieces of an epoch each."""
        yield from self._pieces(self._rng.permutation(self._groups * WINDOWS), number)

    def some(self, share: float, number: int) -> Iterator[Rows]:
        """So many of the keys, each once, by chance."""
        places = self._rng.permutation(self._groups * WINDOWS)
        yield from self._pieces(places[: max(1, int(share * len(places)))], number)

    def _pieces(self, places: NDArray[np.int64], number: int) -> Iterator[Rows]:
        for first in range(0, len(places), EPOCH_ROWS_MAX):
            group, window = np.divmod(places[first : first + EPOCH_ROWS_MAX], WINDOWS)
            yield Rows(group, window, self.keys(group, window), self._values(len(group), number + 1))

    def keys(self, group: NDArray[np.int64], window: NDArray[np.int64]) -> list[bytes]:
        """WindowKey records, in single-object encoding."""
        prefix = np.frombuffer(self._key_header + bytes([2 * GROUP_BYTES]), dtype=np.uint8)
        return _split(np.hstack([_each(prefix, len(group)), self._names[group], self._times[window]]))

    def _values(self, count: int, ticks: int) -> list[bytes]:
        """State records: ticks, total, highest, note; each behind the byte that says "not null"."""
        numbers = self._rng.integers(_NUMBERS_FROM, _NUMBERS_BELOW, (2, count))
        there = np.full((count, 1), 2, dtype=np.uint8)
        note_length = varints(np.array([_NOTE_BYTES]))[0]
        parts = [
            _each(np.frombuffer(self._value_header, dtype=np.uint8), count),
            there, varints(np.full(count, ticks))[0],
            there, varints(numbers[0])[0],
            there, varints(numbers[1])[0],
            there, _each(note_length[0], count), _HEX[self._rng.integers(0, 16, (count, _NOTE_BYTES))],
        ]  # fmt: skip
        return _split(np.hstack(parts))


def _each(bytes_: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    return np.tile(bytes_, (count, 1))


def _split(rows: NDArray[np.uint8]) -> list[bytes]:
    width, data = rows.shape[1], rows.tobytes()
    return [data[at : at + width] for at in range(0, len(data), width)]

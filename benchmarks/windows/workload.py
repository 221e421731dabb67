"""The ticks of B2, B3 and B6: made from a seed, put on a topic once for all contenders.

Ticks of 10,000 keys, of which few are frequent and most are rare (probability ~ 1/rank), 3,333 a second of
event time, at most five seconds out of order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.windows import columns
from benchmarks.windows.columns import PARTITIONS, Backlog, Ints, Numbers, Texts, ranked

KEYS = 10_000
START_MS = 1_700_000_040_000
EVENTS_PER_S = 3_333
DISORDER_MS_MAX = 5_000
VALUE_MAX = 100_000


@dataclass(frozen=True)
class Events:
    """Columns of equal length, in production order."""

    key: NDArray[np.int64]
    """The key's number; `key_name` gives its text."""
    time_ms: NDArray[np.int64]
    value: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.key)

    @property
    def backlog(self) -> Backlog:
        key = Texts(self.key, key_names())
        return Backlog(
            {"key": key, "at": Numbers(self.time_ms), "value": Numbers(self.value)}, key, self.key % PARTITIONS
        )


def key_name(number: int) -> str:
    return f"key-{number:05d}"


def key_names() -> list[str]:
    return [key_name(number) for number in range(KEYS)]


def keys_and_times(rng: np.random.Generator, size: int) -> tuple[Ints, Ints]:
    """Each event's number of a key, and its event time."""
    key = ranked(rng, size, KEYS)
    due_ms = START_MS + DISORDER_MS_MAX + np.arange(size, dtype=np.int64) * 1000 // EVENTS_PER_S
    return key, due_ms - rng.integers(0, DISORDER_MS_MAX + 1, size)


def generate(size: int, seed: int) -> Events:
    """`size` events; the same for the same arguments."""
    rng = np.random.default_rng(seed)
    key, time_ms = keys_and_times(rng, size)
    return Events(key, time_ms, rng.integers(0, VALUE_MAX, size))


def ticks(size: int, seed: int) -> Backlog:
    return generate(size, seed).backlog


def encode(events: Events, header: bytes) -> Iterator[bytes]:
    """Each event in Avro single-object encoding."""
    return columns.encode(list(events.backlog.fields.values()), header)

"""The events of B7: one for each key at first, then batches of keys by chance. What the rows must be then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.windows.columns import PARTITIONS, Flags, Ints, Numbers, Padded, encode, varints
from benchmarks.windows.oracle import State
from cutwater.adapters.kafka.writers.transactional_writer import Batch, TransactionalWriter

START_MS = 1_700_002_800_000
_MINUTES_MS = 600_000
_PREFIX, _DIGITS = b"key-", 8
_LENGTH = len(_PREFIX) + _DIGITS
_CHUNK = 200_000
"""Events of a transaction: it is written well within the brokers' limit."""


@dataclass(frozen=True)
class KeyNames:
    """A field whose texts are `key-` and the key's number in eight digits: ten million of them need no list."""

    numbers: Ints
    present: Flags | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def encoded(self, part: slice) -> Padded:
        digits = self.numbers[part, None] // 10 ** np.arange(_DIGITS - 1, -1, -1) % 10 + ord("0")
        size = len(digits)
        length, _ = varints(np.full(size, _LENGTH, dtype=np.int64))
        prefix = np.tile(np.frombuffer(_PREFIX, dtype=np.uint8), (size, 1))
        rows = np.hstack([length, prefix, digits.astype(np.uint8)])
        return rows, np.ones(rows.shape, dtype=bool)

    def values(self) -> Ints:
        return self.numbers


class Feed:
    """Writes events of given keys to a topic. Those of one batch become visible together."""

    def __init__(self, writer: TransactionalWriter, topic: str, header: bytes) -> None:
        self._writer, self._topic, self._header = writer, topic, header
        writer.initialise()

    def write_rows(self, rows: int) -> None:
        """An event for each key, in as many transactions as it takes."""
        for first in range(0, rows, _CHUNK):
            self.write(np.arange(first, min(first + _CHUNK, rows), dtype=np.int64))

    def write(self, keys: Ints) -> None:
        """One transaction; UnavailableError as of the writer. An event's partition is its key's."""
        numbers = keys % PARTITIONS
        self._writer.write_all(
            [
                Batch(self._topic, partition, list(self._records(keys[numbers == partition])))
                for partition in range(PARTITIONS)
            ]
        )

    def _records(self, keys: Ints) -> Iterator[dict[str, bytes]]:
        if not len(keys):
            return
        times = START_MS + np.arange(len(keys), dtype=np.int64) % _MINUTES_MS
        begin = len(self._header) + 1
        for value in encode([KeyNames(keys), Numbers(times), Numbers(_value(keys))], self._header):
            yield {"key": value[begin : begin + _LENGTH], "value": value}


def _value(keys: Ints) -> Ints:
    return keys % 1_000


def expected_rows(hits: Ints) -> State:
    """Count, sum and maximum of each key that was hit, its first event included; `hits` by the key's number."""
    keys = np.flatnonzero(hits)
    counts = 1 + hits[keys]
    rows = zip(
        keys.tolist(), counts.tolist(), (counts * _value(keys)).tolist(), _value(keys).tolist(), strict=True
    )
    return {(f"key-{key:08d}", START_MS): (count, total, highest) for key, count, total, highest in rows}

"""Events as columns: their Avro bytes, made column by column, what DuckDB reads of them, their way to a topic."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pandas as pd
from confluent_kafka import KafkaError, Message, Producer
from numpy.typing import NDArray

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Padded = tuple[NDArray[np.uint8], Flags]
"""A row of bytes for each event, and which of them belong to it."""

PARTITIONS = 4
_CHUNK = 50_000
_FLUSH_S = 60.0


class Column(Protocol):
    """One field of all events. Where `present` is given, the field's type is a union of null and another."""

    @property
    def present(self) -> Flags | None: ...

    def __len__(self) -> int: ...

    def encoded(self, part: slice) -> Padded:
        """The values of a part of the events in Avro, without regard to `present`."""

    def values(self) -> Any:
        """What DuckDB reads, without regard to `present`."""


@dataclass(frozen=True)
class Numbers:
    """A field of the type int, long or timestamp."""

    numbers: Ints
    present: Flags | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def encoded(self, part: slice) -> Padded:
        digits, lengths = varints(self.numbers[part])
        return digits, np.arange(digits.shape[1]) < lengths[:, None]

    def values(self) -> Any:
        return self.numbers


@dataclass(frozen=True)
class Texts:
    """A field of the type string, whose values are words of a list."""

    places: Ints
    """Of each event's word in the list."""
    words: Sequence[str]
    present: Flags | None = None

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def bytes(self) -> list[bytes]:
        return [word.encode() for word in self.words]

    @cached_property
    def _encoded(self) -> Padded:
        lengths = np.array([len(word) for word in self.bytes])
        width = max(1, int(lengths.max()))
        padded = b"".join(word.ljust(width, b"\0") for word in self.bytes)
        text = np.frombuffer(padded, dtype=np.uint8).reshape(-1, width)
        before, before_lengths = varints(lengths)
        return np.hstack([before, text]), np.hstack(
            [np.arange(before.shape[1]) < before_lengths[:, None], np.arange(width) < lengths[:, None]]
        )

    def encoded(self, part: slice) -> Padded:
        rows, there = self._encoded
        return rows[self.places[part]], there[self.places[part]]

    def values(self) -> Any:
        return np.array(self.words, dtype=object)[self.places]


@dataclass(frozen=True)
class Backlog:
    """Events in production order."""

    fields: Mapping[str, Column]
    """By name, in the order of the schema."""
    key: Texts
    """The key of each event's record."""
    partition: Ints
    """One for all events of a key."""

    def __len__(self) -> int:
        return len(self.key)

    @property
    def offset(self) -> Ints:
        """Each event's place in its partition."""
        offset = np.empty(len(self), dtype=np.int64)
        for number in range(PARTITIONS):
            held = self.partition == number
            offset[held] = np.arange(held.sum())
        return offset

    def frame(self, names: Iterable[str]) -> Any:
        """Some of the fields for DuckDB; `key_place`, `record_partition` and `record_offset` beside them."""
        columns = {name: _with_nulls(self.fields[name]) for name in names}
        places = {"key_place": self.key.places, "record_partition": self.partition, "record_offset": self.offset}
        return pd.DataFrame({**columns, **places})


def _with_nulls(column: Column) -> Any:
    values = column.values()
    return values if column.present is None else pd.Series(values).astype(object).where(column.present, None)


def encode(fields: Sequence[Column], header: bytes) -> Iterator[bytes]:
    """Each event in Avro single-object encoding: the header (marker and fingerprint), then its fields."""
    before = np.frombuffer(header, dtype=np.uint8)
    for first in range(0, len(fields[0]), _CHUNK):
        part = slice(first, first + _CHUNK)
        padded = [_of_union(one.encoded(part), one.present, part) for one in fields]
        size = len(padded[0][0])
        rows = np.hstack([np.tile(before, (size, 1)), *(row for row, _ in padded)])
        there = np.hstack([np.ones((size, len(before)), dtype=bool), *(one for _, one in padded)])
        data, ends = rows[there].tobytes(), np.cumsum(there.sum(axis=1)).tolist()
        for start, end in zip([0, *ends], ends, strict=False):
            yield data[start:end]


def _of_union(value: Padded, present: Flags | None, part: slice) -> Padded:
    """The number of the union's branch before the value: null is the first and has no bytes."""
    if present is None:
        return value
    rows, there = value
    some = present[part, None]
    return np.hstack([(2 * some).astype(np.uint8), rows]), np.hstack([np.ones_like(some), there & some])


def varints(numbers: Ints) -> tuple[NDArray[np.uint8], Ints]:
    """Avro's longs (zigzag, seven bits a byte, lowest first), one row each, and how many bytes each takes."""
    rest = (numbers << 1) ^ (numbers >> 63)
    length = max(1, -(-int(rest.max()).bit_length() // 7))
    digits = (rest[:, None] >> (7 * np.arange(length))) & 0x7F
    lengths = 1 + sum((rest >> (7 * place) > 0).astype(np.int64) for place in range(1, length))
    more = np.arange(length) < (np.broadcast_to(lengths, rest.shape) - 1)[:, None]
    return (digits | np.where(more, 0x80, 0)).astype(np.uint8), np.broadcast_to(lengths, rest.shape)


def ranked(rng: np.random.Generator, size: int, words: int) -> Ints:
    """Places in a list of words: few are frequent and most are rare (probability ~ 1/rank)."""
    weights = 1.0 / np.arange(1, words + 1)
    return rng.choice(words, size=size, p=weights / weights.sum()).astype(np.int64)


def produce(cluster: Cluster, topic: str, events: Backlog, header: bytes) -> float:
    """Put every event on the topic, keyed by its key; returns the seconds it took.

    Raises UnavailableError when the broker does not acknowledge all of them.
    """
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            **cluster.librdkafka(),
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
            "log_level": 3,  # a coordinator that is still loading is no news: the client tries again
        }
    )
    started = time.monotonic()
    keys, places, partitions = events.key.bytes, events.key.places.tolist(), events.partition.tolist()
    values = encode(list(events.fields.values()), header)
    for place, partition, value in zip(places, partitions, values, strict=True):
        while True:
            try:
                producer.produce(topic, value=value, key=keys[place], partition=partition, on_delivery=delivered)
                break
            except BufferError:
                if failures:
                    break
                producer.poll(1.0)
    left = producer.flush(_FLUSH_S)
    if failures or left:
        raise UnavailableError(f"{topic}: {left or len(failures)} events were not acknowledged: {failures[:1]}")
    return time.monotonic() - started

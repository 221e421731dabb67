"""The events of B2: made from a seed, encoded column by column, put on a topic once for all contenders.

Ticks of 10,000 keys, of which few are frequent and most are rare (probability ~ 1/rank), 3,333 a second of
event time, at most five seconds out of order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from confluent_kafka import KafkaError, Message, Producer
from numpy.typing import NDArray

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError

KEYS = 10_000
PARTITIONS = 4
START_MS = 1_700_000_040_000
EVENTS_PER_S = 3_333
DISORDER_MS_MAX = 5_000
VALUE_MAX = 100_000
_CHUNK = 200_000
_FLUSH_S = 60.0


@dataclass(frozen=True)
class Events:
    """Columns of equal length, in production order."""

    key: NDArray[np.int64]
    """The key's number; `key_name` gives its text."""
    time_ms: NDArray[np.int64]
    value: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.key)


def key_name(number: int) -> str:
    """The key's text: always nine characters, so that encoded keys are of one length."""
    return f"key-{number:05d}"


def generate(size: int, seed: int) -> Events:
    """`size` events; the same for the same arguments."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, KEYS + 1)
    key = rng.choice(KEYS, size=size, p=weights / weights.sum())
    due_ms = START_MS + DISORDER_MS_MAX + np.arange(size, dtype=np.int64) * 1000 // EVENTS_PER_S
    time_ms = due_ms - rng.integers(0, DISORDER_MS_MAX + 1, size)
    value = rng.integers(0, VALUE_MAX, size)
    return Events(key.astype(np.int64), time_ms, value)


def encode(events: Events, header: bytes) -> Iterator[bytes]:
    """Each event in Avro single-object encoding: the header (marker and fingerprint), then the body."""
    names = np.array([list(key_name(number).encode()) for number in range(KEYS)], dtype=np.uint8)
    prefix = np.frombuffer(header + bytes([2 * names.shape[1]]), dtype=np.uint8)
    for first in range(0, len(events), _CHUNK):
        part = slice(first, first + _CHUNK)
        times, time_lengths = varints(events.time_ms[part])
        values, value_lengths = varints(events.value[part])
        if len(set(time_lengths.tolist())) != 1:
            raise ValueError("event times must all take the same number of bytes: choose a nearer START_MS")
        times = times[:, : int(time_lengths[0])]
        rows = np.hstack([np.tile(prefix, (len(times), 1)), names[events.key[part]], times, values])
        fixed, width, data = rows.shape[1] - values.shape[1], rows.shape[1], rows.tobytes()
        for row, length in enumerate((fixed + value_lengths).tolist()):
            yield data[row * width : row * width + length]


def varints(numbers: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Avro's longs (zigzag, seven bits a byte, lowest first), one row each, and how many bytes each takes."""
    rest = (numbers << 1) ^ (numbers >> 63)
    length = max(1, -(-int(rest.max()).bit_length() // 7))
    digits = (rest[:, None] >> (7 * np.arange(length))) & 0x7F
    lengths = 1 + sum((rest >> (7 * place) > 0).astype(np.int64) for place in range(1, length))
    more = np.arange(length) < (np.broadcast_to(lengths, rest.shape) - 1)[:, None]
    return (digits | np.where(more, 0x80, 0)).astype(np.uint8), np.broadcast_to(lengths, rest.shape)


def produce(cluster: Cluster, topic: str, events: Events, header: bytes) -> float:
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
    names = [key_name(number).encode() for number in range(KEYS)]
    for number, value in zip(events.key.tolist(), encode(events, header), strict=True):
        while True:
            try:
                producer.produce(
                    topic, value=value, key=names[number], partition=number % PARTITIONS, on_delivery=delivered
                )
                break
            except BufferError:
                if failures:
                    break
                producer.poll(1.0)
    left = producer.flush(_FLUSH_S)
    if failures or left:
        raise UnavailableError(f"{topic}: {left or len(failures)} events were not acknowledged: {failures[:1]}")
    return time.monotonic() - started

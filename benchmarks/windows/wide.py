"""The shape `wide`: the demonstration's ten measures over a record of eight fields, three windows an event.

An event is an end of a flight: where it goes, who flies it, how late it is (null for one in twenty). There are a
thousand carriers, few of them frequent, so the sketch of a busy key is more than a list of values.
"""

from __future__ import annotations

import struct
from math import sqrt
from typing import Any

import numpy as np

from benchmarks.windows.columns import PARTITIONS, Backlog, Numbers, Texts, ranked
from benchmarks.windows.oracle import Row
from benchmarks.windows.workload import key_names, keys_and_times
from cutwater.adapters.sketches import HllSketches
from cutwater.core.events.key_columns import key_text
from cutwater.core.job.measures import HLL_LG_K

CARRIERS, FLIGHTS, AIRPORTS = 1_000, 5_000, 400
DELAY_MIN, DELAY_SCALE = -20, 25.0
DELAYS_MISSING = 0.05
DISTANCE_MIN, DISTANCE_MAX = 80, 5_000

MEASURES = """
count(*),
count(delay),
sum(delay)::BIGINT,
max(delay)::BIGINT,
min(delay)::BIGINT,
sum(delay)::DOUBLE / count(delay),
arg_min(flight, ("at", record_partition, record_offset)),
arg_max(carrier, ("at", record_partition, record_offset)),
count(DISTINCT carrier),
sum(distance)::BIGINT
"""
SHAPED_MEASURES = MEASURES.replace("sum(delay)::BIGINT,\nmax(delay)", "sum({0})::BIGINT,\nmax({0})").format(
    "CASE WHEN delay IS NULL THEN NULL ELSE greatest(delay, 0) END"
)
"""Of the shape `wide-shaped`, which sums no negative delays."""
DISTINCT = 8
"""The measure that is an estimate, by its place."""
ERROR = 5 * 1.04 / sqrt(1 << HLL_LG_K)
"""Five standard errors of a sketch's estimate, as a part of the number."""
EXACT_UP_TO = 3 * (1 << HLL_LG_K) // 32
"""A sketch of so few values is the list of their hashes."""


def generate(size: int, seed: int) -> Backlog:
    """`size` events; the same for the same arguments."""
    rng = np.random.default_rng(seed)
    key, at = keys_and_times(rng, size)
    carrier, flight = ranked(rng, size, CARRIERS), rng.integers(0, FLIGHTS, size)
    delay = (DELAY_MIN + rng.exponential(DELAY_SCALE, size)).astype(np.int64)
    codes = [f"C{number:03d}" for number in range(CARRIERS)]
    own = Texts(key, key_names())
    return Backlog(
        {
            "key": own,
            "kind": Texts(rng.integers(0, 2, size), ("departure", "arrival")),
            "at": Numbers(at),
            "delay": Numbers(delay, rng.random(size) >= DELAYS_MISSING),
            "carrier": Texts(carrier, codes),
            "flight": Texts(flight, [f"{codes[number % CARRIERS]}{number}" for number in range(FLIGHTS)]),
            "other": Texts(rng.integers(0, AIRPORTS, size), [f"key-{number:05d}" for number in range(AIRPORTS)]),
            "distance": Numbers(rng.integers(DISTANCE_MIN, DISTANCE_MAX, size)),
        },
        own,
        key % PARTITIONS,
    )


def shaped_key(key: str) -> str:
    """The key of two columns, of which the first is computed of the second."""
    return key_text([key[4:6], key])


def equal(found: Row, wanted: Row) -> bool:
    """Whether a row is the right one: the estimate is one of a sketch, all other measures are exact."""
    estimate, number = found[DISTINCT], wanted[DISTINCT]
    allowed = 1 if number <= EXACT_UP_TO else ERROR * number
    return (
        abs(estimate - number) <= allowed
        and found[:DISTINCT] == wanted[:DISTINCT]
        and found[DISTINCT + 1 :] == wanted[DISTINCT + 1 :]
    )


_NUMBERS = struct.Struct(">qqqqqq")
_PLACED = struct.Struct(">qiqi")
"""Event time, partition, offset, and the length of the text behind them."""


def read_row(value: bytes) -> Row:
    """The row in the bytes that the Java program writes; the rest of them is the sketch."""
    count, delayed, total, worst, best, miles = _NUMBERS.unpack_from(value)
    first, end = _placed_text(value, _NUMBERS.size)
    last, end = _placed_text(value, end)
    carriers = round(HllSketches().estimate(value[end:]))
    delays: tuple[Any, ...] = (total, worst, best, total / delayed) if delayed else (None,) * 4
    return (count, delayed, *delays, first, last, carriers, miles)


def _placed_text(value: bytes, at: int) -> tuple[str, int]:
    *_, length = _PLACED.unpack_from(value, at)
    start = at + _PLACED.size
    return value[start : start + length].decode(), start + length

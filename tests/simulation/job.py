"""The job of the simulated world: events by the hour, a sum of their amounts, and which attempt wrote the row.

The attempt in the row stands for what may differ when an epoch is computed again; it tells whose row is shown.
Windows are of an hour, or of three that overlap: then a row is a pane of an hour, and readers see merges.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from cutwater.adapters.avro.codec import Codec, crc64
from cutwater.adapters.hashing import key_hash
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job, Output
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import LONG, FieldType, value
from cutwater.core.job.shards import ShardMap
from cutwater.core.job.windows import WindowSpec
from cutwater.core.protocol.generation import Generation

HOUR_MS = 3_600_000
PARTITIONS = 2
GENERATION = Generation(1, "local")
KEYS = ("ash", "elm", "oak", "yew")
JOB = Job(
    name="trees",
    topic="trees.events",
    event_schema={},
    key_field="key",
    time_field="at",
    time_micros=False,
    window=WindowSpec(HOUR_MS, HOUR_MS),
    lateness_ms=HOUR_MS,
    retention_ms=3 * HOUR_MS,
    shards=ShardMap(1024, PARTITIONS),
    measures=(value("total", LONG), value("writer", LONG)),
    max_ahead_ms=HOUR_MS,
    max_event_bytes=1_000,
    max_events_per_epoch=6,
    shuffle_partitions=1,
)
_NO_SKETCHES: Any = None
SLIDING = replace(
    JOB,
    window=WindowSpec(3 * HOUR_MS, HOUR_MS),
    measures=(
        build("total", "sum", "amount", FieldType("int"), _NO_SKETCHES),
        build("writer", "max", "writer", LONG, _NO_SKETCHES),
    ),
)
_keys = Codec(WINDOW_KEY_SCHEMA)
_values = {False: Codec(JOB.state_schema), True: Codec(SLIDING.state_schema)}


@cache
def job_of(sliding: bool, final: bool) -> Job:
    """The same job with other windows, or with an output of windows that are closed."""
    return replace(SLIDING if sliding else JOB, output=Output("final" if final else "updates"))


@cache
def fingerprint(sliding: bool = False) -> str:
    return crc64((SLIDING if sliding else JOB).state_schema).hex()


@cache
def key_bytes(key: str, start_ms: int) -> bytes:
    return _keys.encode({"key": key, "window_start": start_ms, "window_end": start_ms + HOUR_MS})


@cache
def value_bytes(total: int, writer: int, sliding: bool = False) -> bytes:
    return _values[sliding].encode({"total": total, "writer": writer})


def read_value(value: bytes, sliding: bool = False) -> dict[str, Any]:
    return _values[sliding].decode(value)


PARTITION_OF = {key: JOB.shards.partition(JOB.shards.shard(key_hash(key))) for key in KEYS}


@cache
def partition_of_key(key: str, partitions: int) -> int:
    """The same on a changelog with another number of partitions."""
    shards = JOB.shards.shards
    return ShardMap(shards, partitions).partition(JOB.shards.shard(key_hash(key)))

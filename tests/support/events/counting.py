"""A small job for tests of the protocol: events counted and summed per key and minute."""

from __future__ import annotations

import json
import random
from typing import Any

import pandas as pd

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Tick",
        "namespace": "test",
        "fields": [
            {"name": "key", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "value", "type": "int"},
        ],
    }
)
START_MS = 1_700_000_040_000


def job_text(name: str, per_epoch: int = 500, retention: str = "30d", partitions: int = 2) -> str:
    return (
        f"job: {name}\nsource: {{topic: {name}.events, schema: event.avsc, key: key, event_time: at}}\n"
        f"window: {{kind: tumbling, size: 1m}}\nlateness: 1h\nretention: {retention}\npartitions: {partitions}\n"
        f"max_events_per_epoch: {per_epoch}\nshuffle_partitions: 1\n"
        "measures:\n  ticks: {measure: count}\n  total: {measure: sum, field: value}\n"
    )


def events(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Events of 30 keys over ten minutes."""
    rng = random.Random(seed)
    return [
        {
            "key": f"k{rng.randrange(30)}",
            "at": START_MS + rng.randrange(600_000),
            "value": rng.randrange(-1000, 1000),
        }
        for _ in range(count)
    ]


def expected(made: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    """The state by pandas: independent of Spark and of Cutwater."""
    frame = pd.DataFrame(made)
    frame["start"] = frame["at"] - frame["at"] % 60_000
    groups = frame.groupby(["key", "start"])["value"].agg(["count", "sum"])
    return {
        (str(key), int(start)): {"ticks": int(row["count"]), "total": int(row["sum"])}
        for (key, start), row in groups.iterrows()
    }

"""A schema with every type that an event in JSON can have, and events full of extreme values."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.job.job import Job

TYPES: dict[str, Any] = {
    "flag": "boolean",
    "small": "int",
    "big": "long",
    "ratio": "double",
    "half": "float",
    "label": "string",
    "kind": {"type": "enum", "name": "Kind", "symbols": ["a", "b", "true"]},
    "blob": "bytes",
    "mac": {"type": "fixed", "name": "Mac", "size": 6},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "huge": {"type": "fixed", "name": "Huge", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 0},
    "seen": {"type": "long", "logicalType": "timestamp-millis"},
    "exact": {"type": "long", "logicalType": "timestamp-micros"},
}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Wide",
    "namespace": "test",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        *({"name": name, "type": type_} for name, type_ in TYPES.items()),
        *(
            {"name": f"{name}_or", "type": ["null", type_["name"] if named(type_) else type_], "default": None}
            for named in [lambda type_: isinstance(type_, dict) and "name" in type_]
            for name, type_ in TYPES.items()
        ),
    ],
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CHOICES: dict[str, list[Any]] = {
    "flag": [True, False],
    "small": [0, -1, 2**31 - 1, -(2**31), 77],
    "big": [0, 2**63 - 1, -(2**63), 2**53 + 1],
    "ratio": [0.0, -1.5, 1e308, 5e-324, float("inf"), float("-inf"), 0.1, 3.0],
    "half": [0.0, 0.5, -3.25, float("inf")],
    "label": ["", "größe", "\U0001f600 'x' \"y\" \\", "5", "true", "null", '{"a":1}', "a\nb\t\x01", "NaN"],
    "kind": ["a", "b", "true"],
    "blob": [b"", b"\x00\xff\xc3\x28", b"plain"],
    "mac": [b"\x00\x01\x02\xfd\xfe\xff", b"sixbyt"],
    "price": [Decimal("0.00"), Decimal("-9999999.99"), Decimal("0.01"), Decimal("1234.50")],
    "huge": [Decimal(10**38 - 1), Decimal(-(10**38) + 1), Decimal(0)],
    "seen": [_EPOCH, _EPOCH + timedelta(milliseconds=1), _EPOCH - timedelta(days=9, milliseconds=7)],
    "exact": [_EPOCH, _EPOCH + timedelta(days=20_000, microseconds=1), _EPOCH - timedelta(microseconds=1)],
}


def events(count: int, seed: int) -> list[dict[str, Any]]:
    """Events of 20 keys within ten minutes, of random choices among the extremes of each type."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        event: dict[str, Any] = {"key": f"k{rng.randrange(20)}", "at": 1_700_000_000_000 + rng.randrange(600_000)}
        for name, choices in _CHOICES.items():
            event[name] = rng.choice(choices)
            event[f"{name}_or"] = rng.choice([None, *choices])
        made.append(event)
    return made


def job_text(name: str, source: str = "format: avro", measures: str = "n: {measure: count}") -> str:
    return (
        f"job: {name}\n"
        f"source: {{topic: {name}.events, schema: event.avsc, key: key, event_time: at, {source}}}\n"
        "window: {kind: tumbling, size: 1m}\nlateness: 1h\nretention: 30d\npartitions: 2\nshuffle_partitions: 1\n"
        f"measures: {{{measures}}}\n"
    )


def job(folder: Path, schema: dict[str, Any], source: str = "format: avro") -> Job:
    """A job on a schema, from files in a folder."""
    import json

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "event.avsc").write_text(json.dumps(schema), encoding="utf-8")
    (folder / "job.yaml").write_text(job_text("wide", source), encoding="utf-8")
    return load_job(folder / "job.yaml")

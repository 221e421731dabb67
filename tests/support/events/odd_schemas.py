"""Schemas at random, most with a mistake somewhere, and job files on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

BASE: list[dict[str, Any]] = [
    {"name": "key", "type": "string"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
]
NAMES = ("a", "b", "A", "größe", "my-field", "1x", "a.b", "a`b", "key", "event", "tail")
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = ("decimal", "uuid", "date", "time-millis", "timestamp-millis", "timestamp-micros", "duration", "country")
DEFAULTS = (
    None,
    True,
    0,
    -1,
    2**40,
    10**17,
    2**70,
    1.5,
    "",
    "a",
    "\u0100",
    "\x7f\xff",
    "NaN",
    [],
    [1],
    {},
    {"a": 1},
)

names = st.sampled_from(NAMES)
primitives = st.sampled_from(PRIMITIVES)
logical = st.fixed_dictionaries(
    {"type": primitives, "logicalType": st.sampled_from(LOGICAL)},
    optional={
        "precision": st.sampled_from((0, 2, 38, 39, "4", -1)),
        "scale": st.sampled_from((0, 2, 40, -1, None)),
    },
)
fixed = st.fixed_dictionaries(
    {
        "type": st.just("fixed"),
        "name": st.sampled_from(("F", "G", "int", "a-b")),
        "size": st.sampled_from((0, 2, 16, -1)),
    },
    optional={"logicalType": st.sampled_from(LOGICAL), "precision": st.sampled_from((4, 30))},
)
enums = st.fixed_dictionaries(
    {
        "type": st.just("enum"),
        "name": st.sampled_from(("C", "D")),
        "symbols": st.lists(st.sampled_from(("R", "S", "A-B")), max_size=3),
    },
    optional={"default": st.sampled_from(("R", "Z"))},
)


def _records(inner: Any) -> Any:
    return st.fixed_dictionaries(
        {
            "type": st.just("record"),
            "name": st.sampled_from(("R", "S", "E")),
            "fields": st.lists(_fields(inner), max_size=3),
        }
    )


def _fields(inner: Any) -> Any:
    optional = {
        "default": st.sampled_from(DEFAULTS),
        "order": st.sampled_from(("ascending", "upwards")),
        "aliases": st.sampled_from((["old"], "old", [7])),
    }
    return st.fixed_dictionaries({"name": names, "type": inner}, optional=optional)


types = st.recursive(
    primitives | logical | fixed | enums | st.sampled_from(("R", "S", "F", "E", "t.E")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | inner.map(lambda one: ["null", one])
        | inner.map(lambda one: {"type": "array", "items": one})
        | inner.map(lambda one: {"type": "map", "values": one})
        | inner.map(lambda one: {"type": one})
        | _records(inner)
    ),
    max_leaves=6,
)
schemas = st.lists(_fields(types), min_size=1, max_size=2).map(
    lambda more: {"type": "record", "name": "E", "namespace": "t", "fields": [*BASE, *more]}
)


def job_file(folder: Path, schema: Any, kind: str = "avro") -> Path:
    (folder / "e.avsc").write_text(json.dumps(schema), encoding="utf-8")
    path = folder / "job.yaml"
    path.write_text(
        f"job: odd\nsource: {{topic: t, schema: e.avsc, key: key, event_time: at, format: {kind}}}\n"
        "window: {kind: tumbling, size: 1h}\nlateness: 1h\nretention: 30d\nmeasures: {n: {measure: count}}\n",
        encoding="utf-8",
    )
    return path

"""A job file of trips, for tests of the expressions in one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cutwater.adapters.job_files.loader import load_job

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Trip",
    "fields": [
        {"name": "car", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "miles", "type": "double"},
        {"name": "minutes", "type": ["null", "int"]},
        {
            "name": "place",
            "type": {"type": "record", "name": "Place", "fields": [{"name": "zone", "type": "int"}]},
        },
    ],
}
HEAD = """job: trips
window: {kind: tumbling, size: 1h}
lateness: 1h
retention: 1d
measures:
  trips: {measure: count}
  fastest: {measure: max, field: speed}
source:
  topic: trips
  schema: trip.avsc
  key: car
  event_time: at
"""


def read(folder: Path, source: str, head: str = HEAD, schema: dict[str, Any] = SCHEMA) -> Any:
    (folder / "trip.avsc").write_text(json.dumps(schema))
    (folder / "job.yaml").write_text(head + source)
    return load_job(folder / "job.yaml")

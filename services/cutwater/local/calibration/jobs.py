"""The jobs of a calibration, which differ in their measures, and in whether they have an output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

_SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "value", "type": "int"},
        {"name": "text", "type": "string"},
        {"name": "place", "type": "string"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["come", "gone"]}},
        {"name": "distance", "type": ["null", "int"]},
        {"name": "amount", "type": "double"},
        {"name": "valid", "type": "boolean"},
    ],
}
_JOB = """job: {name}
source: {{topic: {name}.events, schema: event.avsc, key: key, event_time: at}}
window: {{kind: tumbling, size: 1h}}
lateness: 1h
late: {{amend_for: 1h}}
retention: 30d
partitions: 4
shuffle_partitions: 2
output: {{mode: {output}}}
measures:
"""
_COUNT = "events: {measure: count}"
_LIGHT = (
    _COUNT,
    "values: {measure: count, field: value}",
    "total: {measure: sum, field: value}",
    "least: {measure: min, field: value}",
    "most: {measure: max, field: value}",
    "mean: {measure: avg, field: value}",
)
_HEAVY = (
    *_LIGHT,
    "first: {measure: first, field: text}",
    "last: {measure: last, field: text}",
    "texts: {measure: distinct, field: text}",
    "median: {measure: quantile, field: value, ranks: [0.5]}",
)


class CalibrationJob(NamedTuple):
    name: str
    measures: tuple[str, ...]
    light: int
    heavy: int
    published: bool

    def write(self, folder: Path) -> Path:
        """Write the job file and its schema; return the job file."""
        folder.mkdir(parents=True)
        (folder / "event.avsc").write_text(json.dumps(_SCHEMA), encoding="utf-8")
        path = folder / "job.yaml"
        measures = "".join(f"  {one}\n" for one in self.measures)
        path.write_text(
            _JOB.format(name=self.name, output="updates" if self.published else "none") + measures,
            encoding="utf-8",
        )
        return path


JOBS = (
    CalibrationJob("calibrate-count", (_COUNT,), 1, 0, published=False),
    CalibrationJob("calibrate-light", _LIGHT, len(_LIGHT), 0, published=True),
    CalibrationJob("calibrate-heavy", _HEAVY, len(_LIGHT), len(_HEAVY) - len(_LIGHT), published=True),
)

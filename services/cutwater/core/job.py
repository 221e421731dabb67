"""A job: one windowed aggregation, as checked values. `cutwater.adapters.jobfile` reads it from YAML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutwater.core.measures import Measure
from cutwater.core.shards import ShardMap
from cutwater.core.windows import WindowSpec


@dataclass(frozen=True)
class Job:
    name: str
    topic: str
    """The source topic."""
    event_schema: dict[str, Any]
    """The Avro schema of the events."""
    key_field: str
    time_field: str
    time_micros: bool
    """Is the event time in microseconds (else milliseconds)?"""
    window: WindowSpec
    lateness_ms: int
    retention_ms: int
    shards: ShardMap
    measures: tuple[Measure, ...]
    max_events_per_epoch: int
    shuffle_partitions: int

    @property
    def state_schema(self) -> dict[str, Any]:
        """The Avro schema of a changelog value: every partial, each nullable."""
        return {
            "type": "record",
            "name": "State",
            "namespace": f"io.cutwater.jobs.{self.name.replace('-', '_')}",
            "fields": [
                {"name": partial.column, "type": ["null", partial.avro], "default": None}
                for measure in self.measures
                for partial in measure.partials
            ],
        }


_TIME = {"type": "long", "logicalType": "timestamp-millis"}

WINDOW_KEY_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "WindowKey",
    "namespace": "io.cutwater",
    "doc": "The key of a changelog record. Frozen: compaction compares its bytes.",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "window_start", "type": _TIME},
        {"name": "window_end", "type": _TIME},
    ],
}

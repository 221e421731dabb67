"""The job file of a user's own query, turned into a job whose measures are the query's columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cutwater.adapters.avro import load_schema
from cutwater.adapters.jobmodels import (
    MAX_DURATION_MS,
    MAX_EVENTS_PER_EPOCH,
    AttachedModel,
    output_of,
    registry_of,
    window_spec,
)
from cutwater.adapters.jobschema import field_types
from cutwater.core.errors import UsageError
from cutwater.core.job import TAKEN_COLUMNS, Attached, Job
from cutwater.core.measures import Measure, value
from cutwater.core.shards import ShardMap
from cutwater.core.topics import LISTED_BYTES_MAX

_NO_SOURCE: dict[str, Any] = {"type": "record", "name": "None", "fields": []}


def compile_attached(path: Path, model: AttachedModel) -> Job:
    """Raises UsageError that names the field."""
    query = model.attached
    schema = path.parent / query.schema_
    if not schema.is_file():
        raise UsageError(
            f"attached.schema: '{query.schema_}' is not beside the job file; cutwater_spark.attach.describe() "
            "writes it from your DataFrame"
        )
    return Job(
        name=model.job,
        topic="",
        event_schema=_NO_SOURCE,
        key_field=query.key,
        time_field=query.window,
        time_micros=True,
        window=window_spec(model),
        lateness_ms=model.lateness,
        retention_ms=model.retention,
        shards=ShardMap(model.shards, model.partitions),
        measures=_columns(load_schema(schema), query.key, query.window),
        # The bounds of a source and the query's partitions are the user's business: none is set here.
        max_ahead_ms=MAX_DURATION_MS,
        max_event_bytes=LISTED_BYTES_MAX,
        max_events_per_epoch=MAX_EVENTS_PER_EPOCH,
        shuffle_partitions=1,
        output=output_of(model),
        changelog_format=model.changelog.format,
        registry=registry_of(model),
        max_bytes=model.max_bytes,
        attached=Attached(query.key, query.window),
    )


def _columns(schema: dict[str, Any], key: str, window: str) -> tuple[Measure, ...]:
    if schema.get("type") != "record" or not schema["fields"]:
        raise UsageError("attached.schema: it must be a record with a field per column of your query")
    columns = field_types(schema)
    # Spark does not tell column names apart by case.
    lower = [name.lower() for name in columns]
    twice = sorted({name for name in lower if name in TAKEN_COLUMNS or lower.count(name) > 1})
    if twice:
        raise UsageError(f"attached.schema: the columns {', '.join(twice)} would exist twice; rename them")
    if clash := [name for name in columns if name in (key, window)]:
        raise UsageError(f"attached.schema: {clash[0]} names a row already and is no value; leave it out")
    return tuple(value(name, of) for name, of in columns.items())

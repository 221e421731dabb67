"""The job file of an attached query, compiled to a job whose measures are the query's columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cutwater.adapters.avro.codec import load_schema
from cutwater.adapters.job_files.errors import JobErrors
from cutwater.adapters.job_files.event_schema import field_types, is_file
from cutwater.adapters.job_files.models import MAX_DURATION_MS, MAX_EVENTS_PER_EPOCH, AttachedModel
from cutwater.adapters.job_files.rule_checks import frame
from cutwater.core.errors import UsageError
from cutwater.core.job.column_merges import MERGES, merging
from cutwater.core.job.job import TAKEN_COLUMNS, Attached, Job
from cutwater.core.job.measures import FieldType, Measure, value
from cutwater.core.job.row_room import require_room
from cutwater.core.protocol.topics import LISTED_BYTES_MAX
from cutwater.core.util.suggestions import value_text

_NO_SOURCE: dict[str, Any] = {"type": "record", "name": "None", "fields": []}
_KEY, _WINDOW, _SCHEMA, _MERGES, _SOURCE = (
    ("attached", name) for name in ("key", "window", "schema", "merges", "source")
)


def compile_attached(path: Path, model: AttachedModel, errors: JobErrors) -> Job | None:
    """Check every rule with valid fields; return None if anything is wrong."""
    query = model.attached
    if errors.sound(_KEY, _WINDOW) and query.key == query.window:
        errors.add(
            _WINDOW, f"{value_text(query.window)} is already the column to group by: name the one of window()"
        )
    columns = errors.attempt(_SCHEMA, lambda: _columns(path.parent / query.schema_, query.schema_))
    measures = _measures(columns or {}, query.key, query.window, errors)
    if query.merges and columns and errors.sound(_MERGES):
        measures = _merging(measures, columns, query.merges, errors)
    if query.source and not query.merges:
        errors.add(
            _SOURCE,
            "is for a failover, which starts a generation from a milestone: say in attached.merges how each "
            "column merges, or delete it",
        )
    shared = frame(model, errors)
    if shared is None or errors:
        return None
    return Job(
        name=model.job,
        topic="",
        event_schema=_NO_SOURCE,
        key_field=query.key,
        time_field=query.window,
        time_micros=True,
        window=shared.window,
        lateness_ms=model.lateness,
        retention_ms=model.retention,
        shards=shared.shards,
        measures=measures,
        # The user's query controls its sources and partitions: the values here limit nothing.
        max_ahead_ms=MAX_DURATION_MS,
        max_behind_ms=MAX_DURATION_MS,
        max_event_bytes=LISTED_BYTES_MAX,
        max_events_per_epoch=MAX_EVENTS_PER_EPOCH,
        shuffle_partitions=1,
        output=shared.output,
        changelog_format=model.changelog.format,
        registry=shared.registry,
        max_bytes=model.max_bytes,
        attached=Attached(query.key, query.window, query.unreadable == "drop", query.source),
    )


def _columns(schema: Path, name: str) -> dict[str, FieldType]:
    if not is_file(schema):
        raise UsageError(
            f"{value_text(name)} is not beside the job file; cutwater_spark.attach.describe() "
            "writes it from your DataFrame"
        )
    columns = field_types(load_schema(schema, own=True))
    if not columns:
        raise UsageError("the schema must be a record with a field per column of your query")
    return columns


def _measures(columns: dict[str, FieldType], key: str, window: str, errors: JobErrors) -> tuple[Measure, ...]:
    # Spark's column names are case-insensitive.
    lower = [name.lower() for name in columns]
    twice = sorted({name for name in lower if name in TAKEN_COLUMNS or lower.count(name) > 1})
    if twice:
        errors.remark(_SCHEMA, f"the columns {', '.join(twice)} would exist twice; rename them")
    for name, place in ((key, _KEY), (window, _WINDOW)):
        if errors.sound(place) and name in columns and name not in twice:
            errors.remark(_SCHEMA, f"{name} is part of a row's key and no value; leave it out")
    measures = []
    for name, of in columns.items():
        try:
            measures.append(value(name, of))
        except UsageError as error:
            errors.remark(_SCHEMA, str(error))
    errors.attempt(_SCHEMA, lambda: require_room(measures))
    return tuple(measures)


def _merging(
    measures: tuple[Measure, ...], columns: dict[str, FieldType], merges: Mapping[str, str], errors: JobErrors
) -> tuple[Measure, ...]:
    """Return the measures with their merges, which are declared for all of them or for none."""
    for name in merges.keys() - columns.keys():
        errors.remark((*_MERGES, name), "is no column of the schema", errors.meant(name, columns))
    if missing := [name for name in columns if name not in merges]:
        errors.remark(
            _MERGES,
            f"{', '.join(missing)} missing: a generation starts from a milestone only if each column merges, by "
            f"{', '.join(MERGES)}. Name it, or leave it out of the query",
        )
    made = []
    for one in measures:
        how = merges.get(one.name)
        place = (*_MERGES, one.name)
        made.append((how and errors.attempt(place, lambda: merging(one, columns[one.name], how))) or one)  # noqa: B023
    return tuple(made)

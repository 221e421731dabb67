"""Job files: YAML, checked by pydantic, turned into a `cutwater.core.job.Job`.

Every error names the file, the field and what is allowed there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from cutwater.adapters.attachedfile import compile_attached
from cutwater.adapters.jobmodels import (
    AttachedModel,
    JobModel,
    Model,
    output_of,
    parse_duration,
    registry_of,
    window_spec,
)
from cutwater.adapters.jobschema import event_format, field_types, find_schema
from cutwater.adapters.sketches import HllSketches
from cutwater.adapters.yamlfile import read_mapping
from cutwater.core.errors import UsageError
from cutwater.core.job import TAKEN_COLUMNS, Job
from cutwater.core.measures import KINDS, TIMES, FieldType, Measure, build
from cutwater.core.shards import ShardMap

__all__ = ["load_job", "parse_duration"]

_Checked = TypeVar("_Checked", bound=Model)


def load_job(path: Path) -> Job:
    """Read and check a job file.

    Raises UsageError with one line per mistake: file, field, what is wrong, what is allowed.
    """
    document = read_mapping(path)
    _refuse_session(path, document)
    if "attached" in document:
        query = _checked(path, AttachedModel, document)
        return _named(path, lambda: compile_attached(path, query))
    model = _checked(path, JobModel, document)
    return _named(path, lambda: _compile(model, *find_schema(path, model.source.schema_)))


def _named(path: Path, compiled: Callable[[], Job]) -> Job:
    try:
        return compiled()
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _checked(path: Path, model: type[_Checked], document: dict[Any, Any]) -> _Checked:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise UsageError(
            "\n".join(f"{path}: {_place(one['loc'])}: {_say(one)}" for one in error.errors())
        ) from None


def _refuse_session(path: Path, document: dict[Any, Any]) -> None:
    window = document.get("window")
    if isinstance(window, dict) and window.get("kind") == "session":
        raise UsageError(
            f"{path}: window.kind: session windows are not supported: a session's bounds change while it is "
            "open, so its rows have no fixed key to compact by; allowed: tumbling, sliding"
        )


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location if part != "[key]") or "(top)"


def _say(error: Any) -> str:
    text = str(error["msg"]).removeprefix("Value error, ")
    known = {"missing": "is required", "extra_forbidden": "is not a field of a job file; check the spelling"}
    text = known.get(error["type"], text)
    given = error.get("input")
    scalar = isinstance(given, str | int | float) and error["type"] not in {"missing", "value_error"}
    return f"{text} (given: {given!r:.80})" if scalar else text


def _compile(model: JobModel, schema_path: Path, schema: dict[str, Any]) -> Job:
    types = field_types(schema)
    source = model.source
    key, time = source.key, source.event_time
    _require(types, "source.key", key, {"string", "int", "long"})
    _require(types, "source.event_time", time, TIMES)
    return Job(
        name=model.job,
        topic=source.topic,
        event_schema=schema,
        format=event_format(source.format, schema_path, schema, source.registry, source.subject_of_topic),
        key_field=key,
        time_field=time,
        time_micros=types[time].name == "timestamp-micros",
        window=window_spec(model),
        lateness_ms=model.lateness,
        retention_ms=model.retention,
        shards=ShardMap(model.shards, model.partitions),
        measures=_measures(model, types),
        max_ahead_ms=model.max_ahead,
        max_event_bytes=model.max_event_bytes,
        max_events_per_epoch=model.max_events_per_epoch,
        shuffle_partitions=model.shuffle_partitions,
        output=output_of(model),
        changelog_format=model.changelog.format,
        registry=registry_of(model),
        max_bytes=model.max_bytes,
    )


def _require(types: dict[str, FieldType], place: str, field: str, allowed: frozenset[str] | set[str]) -> None:
    if field not in types:
        raise UsageError(f"{place}: the schema has no field '{field}'; it has: {', '.join(types)}")
    if types[field].name not in allowed:
        raise UsageError(
            f"{place}: field '{field}' is {types[field]}; allowed types: {', '.join(sorted(allowed))}"
        )


def _measures(model: JobModel, types: dict[str, FieldType]) -> tuple[Measure, ...]:
    built = []
    for name, one in model.measures.items():
        place = f"measures.{name}"
        if one.measure not in KINDS:
            raise UsageError(f"{place}.measure: '{one.measure}' is no measure; allowed: {', '.join(KINDS)}")
        if one.field is not None and one.field not in types:
            raise UsageError(f"{place}.field: the schema has no field '{one.field}'; it has: {', '.join(types)}")
        field_type = types[one.field] if one.field else None
        built.append(build(name, one.measure, one.field, field_type, HllSketches()))
    # Spark does not tell column names apart by case.
    columns = [partial.column.lower() for measure in built for partial in measure.partials]
    names = {measure.name.lower() for measure in built}
    twice = sorted(
        {column for column in columns if columns.count(column) > 1} | (TAKEN_COLUMNS & {*columns, *names})
    )
    if twice:
        raise UsageError(f"measures: the columns {', '.join(twice)} would exist twice; rename a measure")
    return tuple(built)

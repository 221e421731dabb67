"""Job files: YAML, checked by pydantic, turned into a `cutwater.core.job.Job`.

Every error names the file, the field and what is allowed there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from cutwater.adapters.jobschema import event_format, field_types, find_schema
from cutwater.adapters.sketches import HllSketches
from cutwater.adapters.yamlfile import read_mapping
from cutwater.core.errors import UsageError
from cutwater.core.formats import CONFLUENT
from cutwater.core.job import Job, Output
from cutwater.core.measures import KINDS, TIMES, FieldType, Measure, build
from cutwater.core.rejection import MAX_EVENT_BYTES
from cutwater.core.shards import MAX_SHARDS, ShardMap
from cutwater.core.topics import LISTED_BYTES_MAX
from cutwater.core.windows import WindowSpec

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# 15 digits: more than any time there is, and far below what int() refuses to read.
_DURATION = re.compile(r"([0-9]{1,15})\s*(ms|s|m|h|d)")
MAX_DURATION_MS = 36_500 * 86_400_000
"""A century: Spark and Avro hold times of this size in microseconds with room to spare."""
MAX_EVENTS_PER_EPOCH = 1_000_000_000
_TAKEN = frozenset({"key", "window", "window_start", "window_end", "sequence", "kind"})
"""Columns that a row of the state or of the output has anyway."""

_NAME = r"^[a-z][a-z0-9-]{0,62}$"
_URL = re.compile(r"(https?://[^\s@]{1,500})?")
_COLUMN = r"^[A-Za-z_][A-Za-z0-9_]{0,62}$"


def parse_duration(value: object) -> int:
    """'90s', '1h', '400d' as milliseconds; raises ValueError with the allowed form."""
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"'{value}' is not a duration: write a whole number and one of ms, s, m, h, d, as in 90s")
    return int(found[1]) * _UNITS_MS[found[2]]


def _registry_url(value: object) -> str:
    """Refuses without repeating what was given: it may hold a password."""
    if not isinstance(value, str) or not _URL.fullmatch(value):
        raise ValueError("write http:// or https:// and the address; user and password are settings")
    return value


Duration = Annotated[int, BeforeValidator(parse_duration), Field(ge=1, le=MAX_DURATION_MS)]
# Strict: `partitions: yes` would be 1 otherwise.
Count = Annotated[int, Field(strict=True, ge=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceModel(_Model):
    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,200}$", description="The topic with the events.")
    schema_: str = Field(
        alias="schema",
        min_length=1,
        max_length=200,
        description="The events' Avro schema: a file beside the job file, or in schemas/.",
    )
    key: str = Field(description="The field to group by: string, int or long.")
    event_time: str = Field(description="The field with the event time: timestamp-millis or timestamp-micros.")
    format: Literal["avro", "confluent", "json"] = Field(
        "avro", description="avro (single-object encoding), confluent (a schema registry's framing) or json."
    )
    registry: Annotated[str, BeforeValidator(_registry_url)] = Field(
        "", description="confluent: the registry's URL, without user; CUTWATER_REGISTRY_URL goes before it."
    )
    subject: str = Field(
        "", max_length=300, description="confluent: the subject of the events' schemas; default `<topic>-value`."
    )

    @property
    def subject_of_topic(self) -> str:
        """The subject, where there is one to look in."""
        return self.subject or (f"{self.topic}-value" if self.format == CONFLUENT else "")


class WindowModel(_Model):
    kind: Literal["tumbling", "sliding"] = Field(description="tumbling or sliding; session windows are refused.")
    size: Duration = Field(description="How long a window is.")
    slide: Duration | None = Field(None, description="Time between the starts of sliding windows.")


class MeasureModel(_Model):
    measure: str = Field(description="Which aggregate; see the table below.")
    field: str | None = Field(None, description="Over which field; only count can do without (it counts events).")


class OutputModel(_Model):
    mode: Literal["updates", "final", "none"] = Field(
        "updates",
        description="updates: every changed row of every milestone; final: each window once, when it is closed; "
        "none: no output topic.",
    )
    format: Literal["avro", "json"] = Field(
        "avro", description="How output records are written: avro (single objects) or json."
    )
    retention: Duration = Field(7 * 86_400_000, description="How long the output topic keeps records; default 7d.")


class JobModel(_Model):
    """The job file, field by field."""

    job: str = Field(pattern=_NAME, description="The job's name: lower case letters, digits, hyphens.")
    source: SourceModel = Field(description="Where the events come from; see below.")
    window: WindowModel = Field(description="The windows; see below.")
    lateness: Duration = Field(description="How long after the newest event time a window stays open.")
    retention: Duration = Field(description="How long after its end a window stays in the state.")
    max_ahead: Duration = Field(
        86_400_000,
        description="An event time further ahead of its Kafka record's timestamp is rejected; default 1d.",
    )
    max_event_bytes: Count = Field(
        MAX_EVENT_BYTES, le=LISTED_BYTES_MAX, description="An event with a larger value is rejected."
    )
    shards: Count = Field(
        1024, le=MAX_SHARDS, description="Slices of the key space: a power of two, fixed for ever."
    )
    partitions: Count = Field(4, le=MAX_SHARDS, description="Partitions of the changelog, at most one per shard.")
    measures: dict[Annotated[str, Field(pattern=_COLUMN)], MeasureModel] = Field(
        min_length=1, description="The aggregates, by name; see below."
    )
    output: OutputModel = Field(OutputModel(), description="What the output topic carries; see below.")
    max_events_per_epoch: Count = Field(
        100_000, le=MAX_EVENTS_PER_EPOCH, description="At most so many events in one epoch."
    )
    shuffle_partitions: Count = Field(
        2, le=10_000, description="Spark's state partitions: fixed by the first epoch."
    )


def load_job(path: Path) -> Job:
    """Read and check a job file.

    Raises UsageError with one line per mistake: file, field, what is wrong, what is allowed.
    """
    model = _parse(path)
    try:
        return _compile(model, *find_schema(path, model.source.schema_))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _parse(path: Path) -> JobModel:
    document = read_mapping(path)
    _refuse_session(path, document)
    try:
        return JobModel.model_validate(document)
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
    window = model.window
    if window.kind == "sliding" and window.slide is None:
        raise UsageError("window.slide: a sliding window needs it")
    if window.kind == "tumbling" and window.slide not in (None, window.size):
        raise UsageError("window.slide: a tumbling window has none; write kind: sliding")
    if model.retention < model.lateness:
        raise UsageError("retention: must be at least the lateness, or open windows would leave the state")
    return Job(
        name=model.job,
        topic=source.topic,
        event_schema=schema,
        format=event_format(source.format, schema_path, schema, source.registry, source.subject_of_topic),
        key_field=key,
        time_field=time,
        time_micros=types[time].name == "timestamp-micros",
        window=WindowSpec(window.size, window.slide or window.size),
        lateness_ms=model.lateness,
        retention_ms=model.retention,
        shards=ShardMap(model.shards, model.partitions),
        measures=_measures(model, types),
        max_ahead_ms=model.max_ahead,
        max_event_bytes=model.max_event_bytes,
        max_events_per_epoch=model.max_events_per_epoch,
        shuffle_partitions=model.shuffle_partitions,
        output=Output(model.output.mode, model.output.format, model.output.retention),
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
    twice = sorted({column for column in columns if columns.count(column) > 1} | (_TAKEN & {*columns, *names}))
    if twice:
        raise UsageError(f"measures: the columns {', '.join(twice)} would exist twice; rename a measure")
    return tuple(built)

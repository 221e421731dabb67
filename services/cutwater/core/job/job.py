"""A job: one windowed aggregation, as checked values. `cutwater.adapters.job_files.loader` reads it from YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from cutwater.core.events.formats import AVRO, JSON, EventFormat, RegistryUse
from cutwater.core.events.key_columns import (
    TEXT,
    KeyColumn,
    column_text,
    key_text,
    key_texts,
    key_values,
    text_of,
    values_plain,
)
from cutwater.core.events.rejection import MAX_BEHIND_MS
from cutwater.core.job.columns import ComputedColumn, Explode, Transform, TransformColumn
from cutwater.core.job.measures import STORED, FieldType, Measure
from cutwater.core.job.shards import ShardMap
from cutwater.core.job.windows import WindowSpec

MAX_BYTES_PER_EPOCH = 512 << 20


@dataclass(frozen=True)
class Output:
    mode: str = "updates"
    """`updates`: each changed row of each milestone; `final`: each window once, when it closes; `none`."""
    format: str = "avro"
    """`avro` (single objects), `confluent` or `json`."""
    retention_ms: int = 7 * 86_400_000

    @property
    def form(self) -> str:
        """The part that must not change while there is an output, because its readers rely on it."""
        return f"{self.mode} {self.format}"


@dataclass(frozen=True)
class Attached:
    """The key columns of a user's own query. Every other column is a measure."""

    key: str
    window: str
    drops_unreadable: bool = False
    """Whether a row that no reader could decode is dropped and counted; else it ends the query."""
    source: str = ""
    """The topic that the query reads, if the job file names it: then the job can continue in another region."""


@dataclass(frozen=True)
class Objectives:
    """What a user wants of a running job: `core.cadence` sets epochs and snapshots by it. None: nothing."""

    readable_p99_ms: int | None = None
    """From an event's arrival on the source topic until it can be read, for 99 of 100 events."""
    recovery_ms: int | None = None
    """From a crash, of the driver or of a view that loses its disk, until readers are as up to date as before."""


@dataclass(frozen=True)
class Job:
    name: str
    topic: str
    event_schema: dict[str, Any]
    key_field: str
    """Empty if `key_columns` are set."""
    time_field: str
    time_micros: bool
    """Whether the event time is in microseconds, else milliseconds."""
    window: WindowSpec
    lateness_ms: int
    retention_ms: int
    shards: ShardMap
    measures: tuple[Measure, ...]
    """What rows have and users see, derived values last."""
    max_ahead_ms: int
    """An event time further ahead of its Kafka record's timestamp is rejected, and moves no watermark."""
    max_event_bytes: int
    max_events_per_epoch: int
    """An upper bound: `cutwater.core.driver.admission` decides how many an epoch reads."""
    shuffle_partitions: int
    output: Output = Output()
    format: EventFormat = field(default_factory=EventFormat)
    changelog_format: str = AVRO
    """The framing of changelog values: `avro` or `confluent`. It may change between two attempts."""
    registry: RegistryUse = field(default_factory=RegistryUse)
    max_behind_ms: int = MAX_BEHIND_MS
    """An event time further behind its Kafka record's timestamp is rejected. It finds a wrong unit."""
    repeated_names: str = "last"
    """The rule for a JSON event that repeats a name: `last` (value counts) or `reject`."""
    lists_retention_ms: int | None = None
    """How long dead letters and late events are kept; None: for ever."""
    max_bytes_per_epoch: int = MAX_BYTES_PER_EPOCH
    """The same for the bytes of the events' values."""
    amend_for_ms: int | None = None
    """How long after the watermark has passed a window's end an event still amends it. None: not at all, and Spark
    looks for closed windows in each epoch."""
    max_jump_ms: int | None = None
    """An event time further ahead of all others is rejected, and moves no watermark. None: no bound."""
    held_ms: int | None = None
    """Event times from here on are rejected by `max_jump_ms`. The driver sets it, never the job file."""
    max_bytes: int | None = None
    """Bound of keys and values in one view, above which the oldest closed windows are evicted. None: no bound."""
    where: str = ""
    """A condition in Spark's SQL; an event for which it is not true is left out. Empty: every event counts."""
    columns: tuple[ComputedColumn, ...] = ()
    explode: Explode | None = None
    """Set if the elements of an array are the events."""
    transform: Transform | None = None
    key_kind: str = TEXT
    """The kind of a key that is no list, as of a `KeyColumn`; whole numbers are texts here."""
    key_columns: tuple[KeyColumn, ...] | None = None
    """The columns of a key that is a list in the job file; none makes one row a window. None: no list."""
    objectives: Objectives = Objectives()
    state_measures: tuple[Measure, ...] = ()
    """The measures that only Spark's state has (`kept: state`), for the stored values among `measures`."""
    upstream: str = ""
    """The job whose output is the source; its end markers are no events. Empty for a topic of events."""
    attached: Attached | None = None
    """Set if the aggregation is the user's own query: then there is no source topic, and no lists."""

    @property
    def source(self) -> str:
        """The topic of the events, also that of a user's own query; empty if it is not known."""
        return self.attached.source if self.attached else self.topic

    @property
    def has_expressions(self) -> bool:
        """Whether only Spark can tell which events count, and with which values."""
        return bool(self.where or self.columns or self.explode or self.transform)

    @property
    def element_columns(self) -> tuple[ComputedColumn, ...]:
        """The columns of an array's element, if elements are the events."""
        return self.explode.columns if self.explode else ()

    @property
    def added_columns(self) -> tuple[TransformColumn, ...]:
        """The columns of the user's function, if there is one."""
        return self.transform.columns if self.transform else ()

    @property
    def column_types(self) -> dict[str, FieldType]:
        """The types of an event's columns, computed ones and those of the user's function."""
        added = {one.name: one.type for one in self.added_columns}
        return {**{one.name: one.type for one in self.columns}, **added}

    @property
    def counted_measures(self) -> tuple[Measure, ...]:
        """The measures that Spark computes for each row, whether the row has them or not."""
        return (*self.measures, *self.state_measures)

    @property
    def derived_values(self) -> tuple[Measure, ...]:
        """The derived values that readers compute."""
        return tuple(one for one in self.measures if not one.partials)

    @property
    def stored_values(self) -> tuple[Measure, ...]:
        """The derived values that Spark computes. A generation's start leaves some of their rows without one."""
        return tuple(one for one in self.measures if one.kind == STORED)

    @property
    def key_parts(self) -> tuple[KeyColumn, ...]:
        """The fields and columns that make the key."""
        return (KeyColumn(self.key_field, self.key_kind),) if self.key_columns is None else self.key_columns

    @property
    def key_fields(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(one.name for one in self.key_parts)

    def missing_key_fields(self, event: Mapping[str, Any]) -> list[str]:
        """Return the key fields that an event lacks or has as null, and must not: without them it has no key."""
        return [one.name for one in self.key_parts if not one.nullable and event.get(one.name) is None]

    def key_of(self, event: Mapping[str, Any]) -> str:
        """Return the key of an event that has no missing key fields. Raises UsageError as `text_of`."""
        if self.key_columns is None:
            return text_of(self.key_parts[0], event[self.key_field])
        values = ((one, event.get(one.name)) for one in self.key_columns)
        return key_text(None if value is None else text_of(one, value) for one, value in values)

    def stored_key(self, asked: str) -> str:
        """Return a key as rows have it, of one that a person writes. Raises UsageError for no key of the job."""
        if self.key_columns is None:
            return column_text(self.key_parts[0], asked)
        return key_text(key_texts(asked, self.key_columns))

    def key_values(self, key: str) -> dict[str, Any]:
        """Return the columns of a key that is a list; none of another. Raises UsageError for no key of the job."""
        return key_values(key, self.key_columns) if self.key_columns else {}

    def key_values_in(self, key: str, of: Job) -> dict[str, Any]:
        """Return this job's columns of a key of another job's rows; None for one that it lacks. Raises UsageError
        for no key of that job."""
        text = key if of.key_columns is not None else key_text([key])
        known = key_values(text, of.key_parts)
        return {one.name: known.get(one.name) for one in self.key_columns or ()}

    def key_values_plain(self, key: str) -> dict[str, Any]:
        """Return the same for JSON."""
        return values_plain(self.key_values(key))

    @property
    def row_windows(self) -> WindowSpec:
        """The windows of the state's rows: panes, of which readers see merges. A user's own query has no panes."""
        return self.window if self.attached else self.window.panes

    @property
    def overlap_ms(self) -> int:
        """How long before its own end a window's first row ends; 0 if a row is a window."""
        return 0 if self.attached else self.window.size_ms - self.row_windows.size_ms

    @property
    def rows_retention_ms(self) -> int:
        """How long a row is kept after its end: until its last window has passed the horizon."""
        return self.retention_ms + self.overlap_ms

    def shown_above_ms(self, horizon_ms: int) -> int:
        """Return the bound above which windows end whose rows are all above the rows' bound, such as a horizon."""
        return horizon_ms + self.overlap_ms if horizon_ms else 0

    @property
    def output_form(self) -> str:
        """`Output.form`, with what else is part of the schema that readers look for.

        Measures are part of the definition. Derived values and the scale of an average are not, because rows are
        the same with others.
        """
        shown = [one.name for one in self.measures if not one.partials]
        shown += [
            f"{one.name} of scale {one.output['scale']}"
            for one in self.measures
            if one.kind == "avg" and one.output != "double"
        ]
        if not shown or self.output.format == JSON:
            return self.output.form
        return f"{self.output.form} with {', '.join(shown)}"

    @property
    def definition(self) -> str:
        """The part that must not change within a generation, as JSON: rows of two definitions would mix."""
        fixed = {
            **self._row_meaning,
            "topic": self.topic,
            "partitions": self.shards.partitions,
            "shuffle_partitions": self.shuffle_partitions,
        }
        if self.transform:
            fixed["transform_contents"] = dict(self.transform.contents)
        return json.dumps(fixed, sort_keys=True)

    @property
    def meaning(self) -> str:
        """The meaning of a row, as JSON. Rows of regions merge only if it is equal."""
        return json.dumps(self._row_meaning, sort_keys=True)

    @property
    def fingerprint(self) -> str:
        """The first 16 hex digits of the SHA-256 of `meaning`, which every milestone carries."""
        return sha256(self.meaning.encode()).hexdigest()[:16]

    @property
    def _row_meaning(self) -> dict[str, Any]:
        measures = {
            one.name: [one.kind, *(partial.meaning for partial in one.partials)]
            for one in self.measures
            if one.partials
        }
        panes = {"pane_ms": self.row_windows.size_ms} if self.overlap_ms else {}
        shape: dict[str, Any] = {"where": self.where} if self.where else {}
        if self.upstream:
            shape["upstream"] = self.upstream
        if self.columns:
            shape["columns"] = {one.name: [one.sql, str(one.type)] for one in self.columns}
        if self.explode:
            of = {one.name: [one.sql, str(one.type)] for one in self.explode.columns}
            shape["explode"] = [self.explode.array, self.explode.item, self.explode.where, of]
        if self.transform:
            shape["transform"] = self.transform.meaning
        return {
            "key": self.key_meaning,
            "event_time": self.time_field,
            "window_size_ms": self.window.size_ms,
            "window_slide_ms": self.window.slide_ms,
            **panes,
            **shape,
            "shards": self.shards.shards,
            "measures": measures,
            "state_schema": self.state_schema,
        }

    @property
    def key_meaning(self) -> Any:
        """What a key means, as JSON can hold it: equal if keys of two jobs are."""
        if self.key_columns is None:
            return self.key_field if self.key_kind == TEXT else [self.key_field, self.key_kind]
        return [[one.name, one.kind, *(["null"] if one.nullable else [])] for one in self.key_columns]

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

    @property
    def output_schema(self) -> dict[str, Any]:
        """The Avro schema of an output record.

        The columns of a key that is a list come before `key`. `key` to the last measure have the order of the
        changelog's key and value. So if every measure is plain, an output record ends with the bytes of the
        changelog's key and value.
        """
        measures = [
            {"name": measure.name, "type": ["null", measure.output], "default": None} for measure in self.measures
        ]
        columns = [one.avro_field for one in self.key_columns or ()]
        kinds = {"type": "enum", "name": "Kind", "symbols": list(KINDS)}
        return {
            "type": "record",
            "name": "Output",
            "namespace": f"io.cutwater.jobs.{self.name.replace('-', '_')}",
            "fields": [
                {"name": "sequence", "type": "long", "doc": "The milestone that this record belongs to."},
                {"name": "kind", "type": kinds},
                *columns,
                *WINDOW_KEY_SCHEMA["fields"],
                *measures,
            ],
        }


_OPTIONAL = ("pane_ms", "where", "upstream", "columns", "explode", "transform")
"""Parts of a row's meaning that not every job has."""


def differences(kept: str, wanted: str) -> str:
    """Return the differences between two definitions, or between a definition and a meaning."""
    try:
        before, after = json.loads(kept), json.loads(wanted)
    except json.JSONDecodeError:
        return "the definition beside the checkpoint is damaged"
    gone = [name for name in _OPTIONAL if name in before and name not in after]
    changed = [*(name for name in after if before.get(name) != after[name]), *gone]
    return "; ".join(
        f"{name} was {_quoted(before.get(name))} and is {_quoted(after.get(name))}" for name in changed
    )


def _quoted(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


UPDATE, FINAL, CORRECTION, TOMBSTONE = "update", "final", "correction", "tombstone"
KINDS = (UPDATE, FINAL, CORRECTION, TOMBSTONE)
"""Kinds of output records: a changed row; the final value of a closed window; after a rewind or a hand-over of
generations, a row that replaces an earlier value, or a deleted row."""

TAKEN_COLUMNS = frozenset({"key", "window", "window_start", "window_end", "sequence", "kind"})

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

PLAIN_KEY_SCHEMA: dict[str, Any] = {
    **WINDOW_KEY_SCHEMA,
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "window_start", "type": "long"},
        {"name": "window_end", "type": "long"},
    ],
}
"""The same bytes with the window as numbers, because datetimes are slow and have a limited range of years."""

"""The pydantic models of job files, from which docs/JOBFILE.md is generated."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WrapValidator,
    model_validator,
)

from cutwater.core.events.formats import REGISTRY_FORMATS
from cutwater.core.events.rejection import MAX_BEHIND_MS, MAX_EVENT_BYTES
from cutwater.core.job.job import MAX_BYTES_PER_EPOCH
from cutwater.core.job.shards import MAX_SHARDS
from cutwater.core.protocol.topics import LISTED_BYTES_MAX, TOPIC_CHARS_MAX
from cutwater.core.util.suggestions import value_text

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# 15 digits: more than any duration, and far below the limit of int().
_DURATION = re.compile(r"([0-9]{1,15})\s*(ms|s|m|h|d)")
MAX_DURATION_MS = 36_500 * 86_400_000
"""A century: Spark and Avro hold such times in microseconds with room to spare."""
MAX_EVENTS_PER_EPOCH = 1_000_000_000
_BYTES = re.compile(r"([0-9]{1,15})\s*(B|KB|MB|GB|TB)")
_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
MAX_BYTES = 10**18
_UNIT = re.compile(r"([0-9]{1,15})\s*([A-Za-z]{1,12})")
_SPELT_TIMES = {
    **{one: one for one in _UNITS_MS},
    **dict.fromkeys(("millis", "millisecond", "milliseconds", "msec"), "ms"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
}
"""Common spellings of units of time, in lower case."""
_SPELT_SIZES = {
    "bytes": "B",
    **{one.lower(): one for one in _UNITS},
    **{one[0].lower(): one for one in _UNITS if one != "B"},
}
_NAME = r"^[a-z][a-z0-9-]{0,62}$"
_URL = re.compile(r"(https?://[^\s@]{1,500})?")
GROUP = "group"
"""The rule for a null in a key by which it is a value of its own."""
SQL_CHARS_MAX = 10_000
COLUMNS_MAX = 100
COLUMN = r"^[A-Za-z_][A-Za-z0-9_]{0,62}$"


def parse_duration(value: object) -> int:
    """Parse '90s', '1h' or '400d' to milliseconds; raises ValueError with the allowed form."""
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ValueError(
            f"{_not(value, 'duration')}: write a whole number and one of ms, s, m, h, d, as in 90s"
            f"{_meant(value, _SPELT_TIMES)}"
        )
    return int(found[1]) * _UNITS_MS[found[2]]


def parse_size(value: object) -> int:
    """Parse '500MB' to bytes; raises ValueError with the allowed form."""
    found = _BYTES.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ValueError(
            f"{_not(value, 'size')}: write a whole number and B, KB, MB, GB or TB, as in 500MB"
            f"{_meant(value, _SPELT_SIZES)}"
        )
    return int(found[1]) * _UNITS[found[2]]


def _not(value: object, what: str) -> str:
    if value is None:
        return "has no value"
    text = f"'{value_text(value)}'" if isinstance(value, int | float | date) else value_text(value)
    return f"{text} is not a {what}"


def _meant(value: object, units: Mapping[str, str]) -> str:
    found = _UNIT.fullmatch(value.strip()) if isinstance(value, str) else None
    unit = units.get(found[2].lower()) if found else None
    return f"; did you mean '{found[1]}{unit}'?" if found and unit else ""


def registry_url(value: object) -> str:
    """Return a valid URL. Raises ValueError without the given text: it may hold a password."""
    if not isinstance(value, str) or not _URL.fullmatch(value):
        raise ValueError("write http:// or https:// and the address; user and password are settings")
    return value


def _numbers(value: object) -> tuple[float, ...] | None:
    if value is None:
        return None
    given: list[Any] = value if isinstance(value, list) else [None]
    if not all(type(one) is int or (type(one) is float and math.isfinite(one)) for one in given):
        raise ValueError("write a list of numbers, as in [0, 1.5]")
    return tuple(given)


def _names(value: object, one: Callable[[object], str]) -> object:
    """Return a list of texts as a tuple, and anything else as a text."""
    return tuple(map(one, value)) if isinstance(value, list) else one(value)


def _not_ours(name: str) -> str:
    if name.startswith("__"):
        raise ValueError("begins with two underscores, which is reserved: choose another name")
    return name


Duration = Annotated[int, BeforeValidator(parse_duration), Field(ge=1, le=MAX_DURATION_MS)]
# Strict: `partitions: yes` would be 1 otherwise.
Count = Annotated[int, Field(strict=True, ge=1)]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ColumnModel(Model):
    """A computed column: its expression, or a mapping with the expression and its type."""

    sql: str = Field(min_length=1, max_length=SQL_CHARS_MAX, description="The expression, in Spark's SQL.")
    type: str = Field(
        "",
        max_length=20,
        description="Its type: boolean, int, long, float, double, decimal(p,s), string, bytes, date, timestamp, "
        "or uuid for a key; the value is cast to it. By default Spark's type of the expression.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, given: object) -> object:
        if isinstance(given, bool | int | float):
            raise ValueError(f"YAML reads it as {type(given).__name__}: put the expression in quotes")
        return {"sql": given} if isinstance(given, str) else given


ColumnName = Annotated[str, Field(pattern=COLUMN), AfterValidator(_not_ours)]


class ExplodeModel(Model):
    array: str = Field(
        min_length=1,
        max_length=SQL_CHARS_MAX,
        description="The array: an expression in Spark's SQL over the event's fields, such as payload.items.",
    )
    as_: ColumnName = Field("item", alias="as", description="The name of an element in the expressions below.")
    where: str = Field(
        "",
        max_length=SQL_CHARS_MAX,
        description="A condition over the element and the event's fields. An element for which it is false or "
        "null is left out.",
    )
    columns: dict[ColumnName, ColumnModel] = Field(
        min_length=1,
        max_length=COLUMNS_MAX,
        description="The columns of an element: expressions over the element and the event's fields.",
    )


class TransformModel(Model):
    """A user's function: its name, or a mapping with the columns that it adds."""

    function: str = Field(
        max_length=200,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$",
        description="The function, as `module:name`. Its module is beside the job file or installed.",
    )
    columns: dict[ColumnName, str] = Field(
        {},
        max_length=COLUMNS_MAX,
        description="The columns that it adds, with their types, as in {region: string}: types as of "
        "source.columns.",
    )
    tables: dict[ColumnName, str] = Field(
        {},
        max_length=8,
        description="Tables that it is given by name, as in {airports: airports.csv}: CSV with a header beside "
        "the job file, at most 8 MiB. All their columns are texts.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, given: object) -> object:
        return {"function": given} if isinstance(given, str) else given


class SourceModel(Model):
    topic: str = Field(
        pattern=rf"^[A-Za-z0-9._-]{{1,{TOPIC_CHARS_MAX}}}$",
        description="The topic with the events; left out with `job`.",
    )
    schema_: str = Field(
        alias="schema",
        min_length=1,
        max_length=200,
        description="The events' Avro schema: a file beside the job file, or in schemas/; left out with `job`. "
        "confluent-protobuf: a .proto, or a descriptor file of protoc.",
    )
    message: str = Field(
        "",
        max_length=300,
        description="confluent-protobuf: the full name of the events' message, as in shop.Order.",
    )
    job: str = Field(
        "",
        max_length=200,
        description="Another job's file, beside this one: its output is the source, instead of topic, schema and "
        "format (JOBS.md).",
    )
    corrections: Literal["leave_out", "count"] | None = Field(
        None,
        description="With `job`: its rows of the kinds correction and tombstone are left out (leave_out, the "
        "default), or are events like others (count).",
    )
    key: Annotated[str, WrapValidator(_names)] = Field(
        description="The field or column to group by: string, enum, int, long, boolean, date, decimal or uuid. A "
        "list, as in [airport, carrier], groups by up to eight of them; [] makes one row a window. See below."
    )
    null_key: Literal["reject", "group"] = Field(
        "reject",
        description="An event with a null in the key is a dead letter (reject), or null is a value like others "
        "(group); see below.",
    )
    event_time: str = Field(
        description="The field or column with the event time: timestamp-millis, timestamp-micros or a timestamp."
    )
    where: str = Field(
        "",
        max_length=SQL_CHARS_MAX,
        description="A condition in Spark's SQL over the event's fields. An event for which it is false or null "
        "is left out.",
    )
    columns: dict[ColumnName, ColumnModel] = Field(
        {},
        max_length=COLUMNS_MAX,
        description="Computed columns by name: expressions in Spark's SQL over the event's fields; see below.",
    )
    explode: ExplodeModel | None = Field(
        None, description="Makes an event of each element of an array; see below."
    )
    transform: TransformModel | None = Field(
        None, description="A function of yours from DataFrame to DataFrame; see below."
    )
    format: Literal["avro", "confluent", "json", "confluent-json", "confluent-protobuf"] = Field(
        "avro",
        description="avro (single-object encoding), confluent (Avro in a schema registry's framing), json, or "
        "confluent-json and confluent-protobuf (JSON and Protobuf in that framing).",
    )
    registry: Annotated[str, BeforeValidator(registry_url)] = Field(
        "", description="The same as registry.url: set one of the two."
    )
    subject: str = Field(
        "",
        max_length=300,
        description="In a schema registry's framing: the subject of the events' schemas; default `<topic>-value`.",
    )

    repeated_names: Literal["last", "reject"] = Field(
        "last",
        description="JSON: if a name is repeated within an object, its last value counts (last), or the event is "
        "rejected (reject).",
    )

    @property
    def key_list(self) -> tuple[str, ...] | None:
        """The key's columns if the key is a list, else None."""
        key: object = self.key  # see `_names`
        return key if isinstance(key, tuple) else None

    @property
    def subject_of_topic(self) -> str:
        """The subject of the events' schemas; empty for formats without one."""
        return self.subject or (f"{self.topic}-value" if self.format in REGISTRY_FORMATS else "")


class WindowModel(Model):
    kind: Literal["tumbling", "sliding"] = Field(description="tumbling or sliding; session windows are refused.")
    size: Duration = Field(description="Length of a window.")
    slide: Duration | None = Field(None, description="Time between starts of sliding windows; best divides size.")


class MeasureModel(Model):
    measure: str = Field(description="The aggregate; see the table below.")
    field: str | None = Field(None, description="The field to aggregate; count needs none (it counts events).")
    by: str | None = Field(
        None,
        description="min_by and max_by: the field that decides, a number or a time. Of events with equal ones "
        "min_by has the first, max_by the last, in the order of `first` and `last`. NaN is above every number.",
    )
    bounds: Annotated[tuple[float, ...] | None, PlainValidator(_numbers)] = Field(
        None,
        description="histogram: the bounds of its buckets, ascending, at most 100, as in [0, 15, 60]. Users see a "
        "list of one count more: of the values below the first bound, from each bound up to the next, and from "
        "the last bound on.",
    )
    ranks: Annotated[tuple[float, ...] | None, PlainValidator(_numbers)] = Field(
        None,
        description="quantile: the ranks, at most 20 from 0 to 1, as in [0.5, 0.99]. Users see a list of as many "
        "doubles; each is the least value that at least this share of the values does not exceed.",
    )
    items: int | None = Field(
        None,
        description="top: how many of the most frequent values users see, from 1 to 100. Each has its count, and "
        "by how many events at most the true number is above it.",
    )
    scale: int | None = Field(
        None,
        strict=True,
        description="avg of a decimal, int or long: the digits behind the point. Users then see the exact average "
        "as a decimal, rounded half away from zero; without it a double.",
    )
    sketch: Literal["hll", "theta"] | None = Field(
        None,
        description="distinct: the sketch that counts. hll, the default, has at most 4 KB in a row. theta has at "
        "most 32 KB, is exact up to 4,096 different values, and tells how many values several rows share "
        "(`cutwater distinct`).",
    )
    kept: Literal["changelog", "state"] = Field(
        "changelog",
        description="Where its partials are. changelog: in each row, so views, API, output and a new generation "
        "have them. state: in Spark's state only, and rows have what `derived` computes from it; see below.",
    )
    renamed_from: str | None = Field(
        None,
        description="Its name in the job file before, for `cutwater generation start --job-file`: the generation "
        "carries its values over. Later it has no effect.",
    )


class OutputModel(Model):
    mode: Literal["updates", "final", "none"] = Field(
        "updates",
        description="updates: every changed row of every milestone; final: each window once, after it is closed; "
        "none: no output topic.",
    )
    format: Literal["avro", "confluent", "json"] = Field(
        "avro",
        description="Format of output records: avro (single objects), confluent (a schema registry's framing) or "
        "json.",
    )
    retention: Duration = Field(7 * 86_400_000, description="How long the output topic keeps records; default 7d.")


class ChangelogModel(Model):
    format: Literal["avro", "confluent"] = Field(
        "avro",
        description="Framing of the changelog's values: avro (single objects) or confluent. It may be changed: "
        "readers know both.",
    )


class RegistryModel(Model):
    url: Annotated[str, BeforeValidator(registry_url)] = Field(
        "", description="The schema registry's URL, without user; CUTWATER_REGISTRY_URL takes precedence."
    )
    auto_register: bool = Field(
        True,
        strict=True,
        description="Register new schemas when they are needed; false: they must be registered before "
        "(cutwater schemas register).",
    )


# The fields of both kinds of job file.
JobName = Annotated[str, Field(pattern=_NAME, description="The job's name: lower case letters, digits, hyphens.")]
StateRetention = Annotated[
    Duration,
    Field(
        description="How long after its end a window stays in the state. A longer value counts only for windows "
        "that the horizon has not passed yet."
    ),
]
Shards = Annotated[
    Count, Field(le=MAX_SHARDS, description="Slices of the key space: a power of two, never changed.")
]
Partitions = Annotated[
    Count, Field(le=MAX_SHARDS, description="Partitions of the changelog, at most one per shard.")
]
StateBytes = Annotated[int, BeforeValidator(parse_size), Field(ge=1, le=MAX_BYTES)]
JobMaxBytes = Annotated[
    StateBytes | None,
    Field(
        description="Bytes of keys and values that one view may hold, as in 20GB. Above it the oldest closed "
        "windows leave the view before the horizon passes them; by default no limit."
    ),
]
JobOutput = Annotated[OutputModel, Field(description="The output topic; see below.")]
JobChangelog = Annotated[ChangelogModel, Field(description="Format of the changelog; see below.")]
JobRegistry = Annotated[RegistryModel, Field(description="The schema registry for format confluent; see below.")]


class LateModel(Model):
    """What becomes of events behind the watermark."""

    amend_for: Duration = Field(
        0,
        description="How long after the watermark has passed the end of a window an event still counts in it, at "
        "least. What is later is listed ('cutwater late list'). With more than 0s the state keeps these windows, "
        "and an epoch costs what it changed; with 0s, the default, an epoch costs a walk over the whole state.",
    )


class ObjectivesModel(Model):
    """What a user wants of a running job."""

    readable_p99: Duration | None = Field(
        None,
        ge=500,
        description="From an event's arrival on the source topic until it can be read, for 99 of 100 events; at "
        "least 500ms. The driver sets the time from epoch to epoch by it, in place of CUTWATER_TRIGGER_MS.",
    )
    recovery: Duration | None = Field(
        None,
        ge=5_000,
        description="From a crash until readers are as up to date as before, at least 5s: of the driver, which "
        "repeats an epoch, and of a view that has lost its disk, which fetches a snapshot. Sets the largest "
        "epoch, and the time between two snapshots in place of CUTWATER_SNAPSHOT_EVERY_MS.",
    )


class JobModel(Model):
    """The job file, field by field."""

    job: JobName
    source: SourceModel = Field(description="The source of the events; see below.")
    window: WindowModel = Field(description="The windows; see below.")
    lateness: Duration = Field(description="How long after the newest event time a window stays open.")
    late: Annotated[LateModel, Field(description="Events behind the watermark; see below.")] = LateModel()
    retention: StateRetention
    max_bytes: JobMaxBytes = None
    max_ahead: Duration = Field(
        86_400_000,
        description="An event with a time further ahead of its Kafka record's timestamp is rejected; default 1d.",
    )
    max_behind: Duration = Field(
        MAX_BEHIND_MS,
        description="An event with a time further behind its Kafka record's timestamp is rejected; default "
        "14600d, forty years, which detects seconds in a field of milliseconds. Not checked for records dated "
        "after 2286.",
    )
    max_jump: Duration | None = Field(
        None,
        description="An event time further than this ahead of all others is rejected and closes no window: it has "
        "a gap of more than this to all earlier event times. Set it longer than the longest silence of the "
        "source, or no event after that silence is used. Each epoch is then read twice. By default there is no "
        "limit.",
    )
    lists_retention: Duration | None = Field(
        None,
        description="How long the lists of dead letters and late events keep an entry; by default forever. Set it "
        "longer than you need to replay dead letters.",
    )
    max_event_bytes: Count = Field(
        MAX_EVENT_BYTES, le=LISTED_BYTES_MAX, description="An event with a larger value is rejected."
    )
    shards: Shards = 1024
    partitions: Partitions = 4
    measures: dict[ColumnName, MeasureModel] = Field(
        min_length=1,
        description="The aggregates by name: letters, digits and _, at most 63, not starting with __; see below.",
    )
    derived: dict[ColumnName, str] = Field(
        {},
        max_length=100,
        description="Values computed from a row's measures, by name, as in `speed: miles / hours`; see below.",
    )
    output: JobOutput = OutputModel()
    changelog: JobChangelog = ChangelogModel()
    registry: JobRegistry = RegistryModel()
    objectives: Annotated[
        ObjectivesModel,
        Field(description="What the job shall reach; see below. Without it nothing adapts but an epoch's size."),
    ] = ObjectivesModel()
    max_events_per_epoch: Count = Field(
        2_000_000,
        le=MAX_EVENTS_PER_EPOCH,
        description="Maximum number of events in one epoch. An epoch of a backlog reads as many as take about "
        "five seconds, at most these.",
    )
    max_bytes_per_epoch: Count = Field(
        MAX_BYTES_PER_EPOCH,
        le=1 << 40,
        description="Maximum bytes of an epoch's events, by the mean size of the events before.",
    )
    shuffle_partitions: Count = Field(
        2, le=10_000, description="Spark's state partitions, fixed by the first epoch of a generation."
    )


class AttachedQueryModel(Model):
    key: str = Field(
        min_length=1, max_length=200, description="The column to group by: string, int or long, never null."
    )
    window: str = Field("window", min_length=1, max_length=200, description="The column created by window().")
    schema_: str = Field(
        alias="schema",
        min_length=1,
        max_length=200,
        description="An Avro record schema with a field per column except key and window; beside the job file.",
    )
    unreadable: Literal["end", "drop"] = Field(
        "end",
        description="For a row whose key is null, whose key or text is too long or not UTF-8, or with a time that "
        "readers cannot hold: `end` ends the query, `drop` leaves the row out and counts it as rejected.",
    )
    merges: dict[str, Literal["sum", "min", "max"]] = Field(
        {},
        max_length=1_000,
        description="For each column how two of its values merge: `sum`, also for counts, `min` or `max`. Then "
        "generations can start from a milestone (ATTACH.md); by default they cannot.",
    )
    source: str = Field(
        "",
        pattern=rf"^[A-Za-z0-9._-]{{0,{TOPIC_CHARS_MAX}}}$",
        description="The one topic that your query reads. With `merges` the job can then continue in another "
        "region (ATTACH.md). You may add it at any time.",
    )


class AttachedModel(Model):
    """The job file of a query that the user wrote."""

    job: JobName
    attached: AttachedQueryModel = Field(description="Your query's columns; see below.")
    window: WindowModel = Field(description="The windows that your query creates.")
    lateness: Duration = Field(description="The delay that your query passes to withWatermark.")
    retention: StateRetention
    max_bytes: JobMaxBytes = None
    shards: Shards = 1024
    partitions: Partitions = 4
    output: JobOutput = OutputModel()
    changelog: JobChangelog = ChangelogModel()
    registry: JobRegistry = RegistryModel()

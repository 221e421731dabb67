"""Job files: a good one becomes a job; each mistake is one line with file, line, field and what is allowed."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutwater.adapters.job_files.loader import load_job, parse_duration
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job, Objectives, Output
from cutwater.core.job.shards import ShardMap
from cutwater.core.job.windows import WindowSpec

FLIGHTS = Path(__file__).parents[4] / "deploy" / "jobs" / "flights.yaml"
DOCUMENT: dict[str, Any] = yaml.safe_load(FLIGHTS.read_text(encoding="utf-8"))
Load = Callable[[Any], Job]


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Writes a document (or the bytes of one) as job.yaml and loads it."""
    folder = tmp_path_factory.mktemp("jobs")

    def write_and_load(document: Any) -> Job:
        data = document if isinstance(document, bytes) else yaml.safe_dump(document).encode()
        (folder / "job.yaml").write_bytes(data)
        return load_job(folder / "job.yaml")

    return write_and_load


def changed(path: str, value: Any = None, remove: bool = False) -> dict[str, Any]:
    """The flights job with one field, named by its dotted path, set or removed."""
    document = copy.deepcopy(DOCUMENT)
    *outer, last = path.split(".")
    inner = document
    for name in outer:
        inner = inner[name]
    if remove:
        del inner[last]
    else:
        inner[last] = value
    return document


def test_the_flights_job_is_read_as_it_is_written() -> None:
    """The demo's own file, field by field."""
    job = load_job(FLIGHTS)
    hour = 3_600_000
    assert (job.name, job.topic, job.key_field, job.time_field) == (
        "flights",
        "flights.events",
        "airport",
        "scheduled_at",
    )
    assert (job.window, job.lateness_ms, job.retention_ms) == (WindowSpec(hour, hour), 48 * hour, 12_000 * hour)
    assert (job.shards, job.max_events_per_epoch, job.shuffle_partitions) == (ShardMap(1024, 4), 20_000, 2)
    assert [one.name for one in job.measures] == list(DOCUMENT["measures"])
    assert not job.time_micros


def test_objectives_are_no_part_of_the_definition(load: Load) -> None:
    """Either may be left out; without them there are none. A checkpoint of before takes a job with others."""
    plain, both = load(DOCUMENT), load(changed("objectives", {"readable_p99": "2s", "recovery": "60s"}))
    assert plain.objectives == Objectives()
    assert both.objectives == Objectives(2_000, 60_000)
    assert load(changed("objectives", {"recovery": "5s"})).objectives == Objectives(None, 5_000)
    assert (both.definition, both.meaning) == (plain.definition, plain.meaning)


def test_defaults_and_a_sliding_window(load: Load) -> None:
    """What may be left out, and a window that slides."""
    document = changed("window", {"kind": "sliding", "size": "60s", "slide": "20 s"})
    for name in ("shards", "partitions", "max_events_per_epoch", "shuffle_partitions"):
        del document[name]
    job = load(document)
    assert job.window == WindowSpec(60_000, 20_000)
    assert (job.shards, job.max_events_per_epoch, job.shuffle_partitions) == (ShardMap(1024, 4), 2_000_000, 2)


def test_derived_values_are_shown_and_belong_to_no_state(load: Load) -> None:
    """Definition, meaning and state are those of the job without them; the output's schema has them."""
    plain = load(DOCUMENT)
    job = load(changed("derived", {"speed": "miles / movements", "twice": "2 * speed"}))
    assert [one.name for one in job.measures][-2:] == ["speed", "twice"]
    assert (job.definition, job.meaning, job.fingerprint) == (plain.definition, plain.meaning, plain.fingerprint)
    assert job.state_schema == plain.state_schema
    fields = {one["name"]: one["type"] for one in job.output_schema["fields"]}
    assert fields["speed"] == fields["twice"] == ["null", "double"]
    assert (plain.output_form, job.output_form) == ("updates avro", "updates avro with speed, twice")
    assert replace(job, output=Output(format="json")).output_form == "updates json"


def test_a_distinct_counts_by_hll_unless_the_file_says_theta(load: Load) -> None:
    """To name hll changes no byte of the definition; theta is another meaning of the row."""
    distinct = {"measure": "distinct", "field": "carrier"}
    plain, named, theta = (
        load(changed("measures.x", {**distinct, **more})) for more in ({}, {"sketch": "hll"}, {"sketch": "theta"})
    )
    assert plain.definition == named.definition
    assert json.loads(plain.definition)["measures"]["x"] == ["distinct", "hll_sketch_agg(`carrier`, 12)"]
    assert theta.fingerprint != plain.fingerprint
    assert "theta_sketch_agg" in json.loads(theta.definition)["measures"]["x"][1]
    assert [one.measures[-1].sketch for one in (plain, named, theta)] == ["hll", "hll", "theta"]


def test_the_scale_of_an_average_is_shown_and_belongs_to_no_state(load: Load) -> None:
    """Definition and meaning are those of the job without it; the output's schema has it, so its form does."""
    mean = {"measure": "avg", "field": "delay_minutes"}
    plain, job = load(changed("measures.x", mean)), load(changed("measures.x", {**mean, "scale": 3}))
    assert (job.definition, job.meaning) == (plain.definition, plain.meaning)
    assert job.state_schema == plain.state_schema
    [shown] = [one["type"][1] for one in job.output_schema["fields"] if one["name"] == "x"]
    assert shown == {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}
    assert (plain.output_form, job.output_form) == ("updates avro", "updates avro with x of scale 3")


def test_a_derived_value_of_an_invalid_one_is_not_a_mistake_of_its_own(load: Load) -> None:
    document = changed("measures.x", {"measure": "median"})
    document["derived"] = {"a": "x + 1", "b": "a + 1", "c": "nothing + 1", "d": "c + 1"}
    with pytest.raises(UsageError) as raised:
        load(document)
    places = [line.split(": ")[1] for line in str(raised.value).splitlines()]
    assert sorted(places) == ["derived.c", "measures.x.measure"]


@pytest.mark.parametrize(
    ("text", "size"), [("1B", 1), ("500 KB", 500_000), ("20GB", 20_000_000_000), (None, None)]
)
def test_a_bound_on_the_state(load: Load, text: str | None, size: int | None) -> None:
    """As a size with its unit; none where it is left out."""
    assert load(changed("max_bytes", text)).max_bytes == size
    assert load(DOCUMENT).max_bytes is None


BIG = 10**30
MISTAKES: list[tuple[str, Any, str]] = [
    ("wndow", {}, "wndow: is not a field of a job file; check the spelling"),
    ("source.keys", "a", "source.keys: is not a field of a job file"),
    ("measures.movements.of", "a", "measures.movements.of: is not a field of a job file"),
    ("job", "Flights", "job: String should match pattern '^[a-z]"),
    ("job", 7, "job: Input should be a valid string (given: 7)"),
    ("source.topic", "a b", "source.topic: String should match pattern"),
    ("source", "flights.events", "source: Input should be a valid dictionary"),
    ("source.schema", "none.avsc", "source.schema: 'none.avsc' is neither beside the job file nor in schemas/"),
    ("source.schema", "x" * 300, "source.schema: String should have at most 200 characters"),
    ("source.schema", "a\0b", "source.schema: 'a\\x00b' is neither"),
    ("source.key", "port", "source.key: the schema has no field 'port'; it has: airport, kind"),
    (
        "source.key",
        "scheduled_at",
        "is timestamp-millis; allowed types: boolean, date, decimal, int, long, string, uuid",
    ),
    ("source.event_time", "carrier", "is string; allowed types: timestamp-micros, timestamp-millis"),
    ("window.kind", "session", "window.kind: session windows are not supported: "),
    ("window.kind", "hopping", "window.kind: Input should be 'tumbling' or 'sliding' (given: 'hopping')"),
    ("window.kind", "sliding", "window.slide: a sliding window needs it"),
    ("window.slide", "20m", "window.slide: a tumbling window has none; write kind: sliding"),
    ("window", {"kind": "sliding", "size": "1h", "slide": "2h"}, "slide (7200000 ms) is longer than size"),
    ("window", {"kind": "sliding", "size": "1h", "slide": "1s"}, "more than 1000 windows"),
    (
        "window.size",
        3_600,
        "window.size: '3600' is not a duration: write a whole number and one of ms, s, m, h, d",
    ),
    ("window.size", "1.5h", "window.size: '1.5h' is not a duration"),
    ("window.size", "-1h", "window.size: '-1h' is not a duration"),
    ("window.size", "0s", "window.size: Input should be greater than or equal to 1"),
    ("window.size", "36501d", "window.size: Input should be less than or equal to 3153600000000"),
    ("window.size", "9" * 5_000 + "h", "is not a duration"),
    ("retention", "1h", "retention: must be at least the lateness"),
    ("late", {"amend_for": "501d"}, "late.amend_for: must be at most the retention"),
    ("late", {"amend_for": "soon"}, "late.amend_for: 'soon' is not a duration"),
    (
        "objectives",
        {"readable_p99": "499ms"},
        "objectives.readable_p99: Input should be greater than or equal to 500",
    ),
    ("objectives", {"recovery": "4s"}, "objectives.recovery: Input should be greater than or equal to 5000"),
    ("objectives", {"recovery": 60}, "objectives.recovery: '60' is not a duration"),
    ("objectives", {"readable": "2s"}, "objectives.readable: "),
    ("max_bytes", 500, "max_bytes: '500' is not a size: write a whole number and B, KB, MB, GB or TB"),
    ("max_bytes", "0B", "max_bytes: Input should be greater than or equal to 1"),
    ("shards", 1_000, "shards is 1000: it must be a power of two from 1 to 65536"),
    ("shards", BIG, "shards: Input should be less than or equal to 65536"),
    ("partitions", 0, "partitions: Input should be greater than or equal to 1"),
    ("partitions", True, "partitions: Input should be a valid integer (given: True)"),
    ("partitions", "4", "partitions: Input should be a valid integer"),
    ("partitions", 2_048, "partitions is 2048: it must be from 1 to shards (1024)"),
    ("partitions", BIG, "partitions: Input should be less than or equal to 65536"),
    ("max_events_per_epoch", BIG, "max_events_per_epoch: Input should be less than or equal to 1000000000"),
    ("shuffle_partitions", float("inf"), "shuffle_partitions: Input should be a valid integer"),
    ("measures", {}, "measures: Dictionary should have at least 1 item"),
    ("measures", ["count"], "measures: Input should be a valid dictionary"),
    ("measures.a-b", {"measure": "count"}, "measures.a-b: String should match pattern"),
    ("measures.x", {"measure": "median"}, "measures.x.measure: 'median' is no measure; allowed: count, sum, min"),
    ("measures.x", {"measure": "sum"}, "measure 'x': sum needs a field"),
    (
        "measures.x",
        {"measure": "sum", "field": "nope"},
        "measures.x.field: the schema has no field 'nope'; it has",
    ),
    (
        "measures.x",
        {"measure": "avg", "field": "carrier"},
        "avg of field 'carrier', which is string; allowed types",
    ),
    ("measures.x", {"measure": "distinct", "field": "cancelled"}, "which is boolean; allowed types: bytes, int"),
    (
        "measures.x",
        {"measure": "max_by", "field": "carrier"},
        "measures.x: measure 'x': max_by needs 'by', the field that decides",
    ),
    (
        "measures.x",
        {"measure": "max_by", "field": "carrier", "by": "nope"},
        "measures.x.by: the schema has no field 'nope'; it has: airport, kind",
    ),
    (
        "measures.x",
        {"measure": "min_by", "field": "carrier", "by": "kind"},
        "min_by by field 'kind', which is string; allowed types: decimal, double",
    ),
    (
        "measures.x",
        {"measure": "sum", "field": "delay", "by": "kind"},
        "measures.x.by: belongs to min_by and max_by; this one is sum",
    ),
    ("measures.x", {"measure": "histogram", "field": "delay_minutes"}, "histogram needs 'bounds'"),
    (
        "measures.x",
        {"measure": "histogram", "field": "delay_minutes", "bounds": [5, 1]},
        "measures.x: measure 'x': the bounds are not ascending: [5, 1]",
    ),
    *(
        (
            "measures.x",
            {"measure": "histogram", "field": "delay_minutes", "bounds": one},
            "measures.x.bounds: write a list of numbers, as in [0, 1.5]",
        )
        for one in (5, [True], ["1"], [float("inf")], [[1]])
    ),
    (
        "measures.x",
        {"measure": "quantile", "field": "delay_minutes", "ranks": [10**400]},
        "measures.x: measure 'x': the ranks are [1000",
    ),
    (
        "measures.x",
        {"measure": "histogram", "field": "delay_minutes", "bounds": [0, 10**400]},
        "is no int, which its field is",
    ),
    (
        "measures.x",
        {"measure": "quantile", "field": "delay_minutes", "ranks": [99]},
        "measures.x: measure 'x': the ranks are [99]; allowed: 1 to 20 numbers from 0 to 1",
    ),
    (
        "measures.x",
        {"measure": "sum", "field": "delay_minutes", "ranks": [0.5]},
        "measures.x.ranks: belongs to quantile; this one is sum",
    ),
    (
        "measures.x",
        {"measure": "sum", "field": "delay_minutes", "scale": 2},
        "measures.x.scale: belongs to avg; this one is sum",
    ),
    (
        "measures.x",
        {"measure": "count", "field": "carrier", "sketch": "theta"},
        "measures.x.sketch: belongs to distinct; this one is count",
    ),
    (
        "measures.x",
        {"measure": "distinct", "field": "carrier", "sketch": "kll"},
        "measures.x.sketch: Input should be 'hll' or 'theta'",
    ),
    (
        "measures.x",
        {"measure": "distinct", "field": "carrier", "by": "theta"},
        "measures.x.by: belongs to min_by and max_by; this one is distinct",
    ),
    (
        "measures.x",
        {"measure": "avg", "field": "delay_minutes", "scale": 99},
        "scale is 99; allowed for int: 0 to",
    ),
    (
        "measures.x",
        {"measure": "avg", "field": "delay_minutes", "scale": "2"},
        "measures.x.scale: Input should be",
    ),
    ("derived", {"x": "mils * 2"}, "derived.x: 'mils' is no measure of the job: best_delay, carriers"),
    ("derived", {"x": "last_carrier + 1"}, "derived.x: measure 'last_carrier' is no number but a string"),
    ("derived", {"Miles": "1"}, "derived.Miles: the column miles would exist twice; choose another name"),
    ("derived", {"x": 5}, "derived.x: Input should be a valid string (given: 5); YAML reads it as int"),
    ("derived", {"a-b": "1"}, "derived.a-b: String should match pattern"),
    ("derived", ["miles"], "derived: Input should be a valid dictionary"),
    ("measures.Movements", {"measure": "count"}, "measures: the columns movements would exist twice; rename"),
    ("measures.mean_delay_sum", {"measure": "count"}, "the columns mean_delay_sum would exist twice"),
    ("measures.Window", {"measure": "count"}, "the columns window would exist twice"),
    *(
        (f"measures.{one}", {"measure": "count"}, f"measures.{one}: begins with two underscores")
        for one in (
            "__key",
            "__window",
            "__event_time",
            "__partition",
            "__offset",
            "__origin",
            "__seed",
            "__reason",
            "__remark",
            "__x",
            "__",
        )
    ),
]


@pytest.mark.parametrize(("path", "value", "said"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_named_with_what_is_allowed(load: Load, path: str, value: Any, said: str) -> None:
    """The message begins with the file and says field, problem and remedy."""
    with pytest.raises(UsageError) as caught:
        load(changed(path, value))
    assert said in str(caught.value)
    assert all(re.search(r"job\.yaml:[0-9]+: ", line) for line in str(caught.value).splitlines())
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "field", ["job", "source", "source.key", "window.size", "lateness", "retention", "measures"]
)
def test_a_missing_field_is_named(load: Load, field: str) -> None:
    """Each required field by its dotted path."""
    with pytest.raises(UsageError, match=rf"job\.yaml:\d+: {field}: is required"):
        load(changed(field, remove=True))


def test_all_mistakes_are_told_at_once(load: Load) -> None:
    """One line each: nobody should correct a file five times."""
    document = changed("job", "X") | {"lateness": "soon", "speed": 1}
    with pytest.raises(UsageError) as caught:
        load(document)
    places = [line.split(": ")[1] for line in str(caught.value).splitlines()]
    assert sorted(places) == ["job", "lateness", "speed"]


@pytest.mark.parametrize(
    ("text", "ms"), [("250ms", 250), ("90s", 90_000), (" 5 m ", 300_000), ("1h", 3_600_000), ("2d", 172_800_000)]
)
def test_durations(text: str, ms: int) -> None:
    """A whole number and a unit."""
    assert parse_duration(text) == ms


def test_fields_that_differ_in_case_alone_are_refused(tmp_path: Path) -> None:
    """Spark does not tell them apart: its driver started again and again."""
    fields = [{"name": "id", "type": "string"}, {"name": "ID", "type": "string"}]
    fields.append({"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}})  # type: ignore[dict-item]
    (tmp_path / "sale.avsc").write_text(json.dumps({"type": "record", "name": "Sale", "fields": fields}))
    source = {"topic": "sales", "schema": "sale.avsc", "key": "id", "event_time": "at"}
    document = DOCUMENT | {"source": source, "measures": {"sales": {"measure": "count"}}}
    (tmp_path / "sales.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    with pytest.raises(UsageError, match="differ in case alone"):
        load_job(tmp_path / "sales.yaml")


def test_an_event_schema_may_stand_beside_the_job_file(tmp_path: Path) -> None:
    """A user's own schema: nullable fields, enums, decimals and microseconds are understood."""
    fields = [
        {"name": "user", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {
            "name": "price",
            "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
        },
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    ]
    schema = {"type": "record", "name": "Sale", "fields": fields}
    (tmp_path / "sale.avsc").write_text(json.dumps(schema))
    source = {"topic": "sales", "schema": "sale.avsc", "key": "user", "event_time": "at"}
    measures = {"total": {"measure": "sum", "field": "price"}, "least": {"measure": "min", "field": "kind"}}
    document = DOCUMENT | {"source": source, "measures": measures}
    (tmp_path / "sales.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    job = load_job(tmp_path / "sales.yaml")
    assert job.time_micros
    total, least = (one["type"][1] for one in job.state_schema["fields"])
    assert (total["precision"], total["scale"], least) == (38, 2, "string")
    document["measures"] = {"day": {"measure": "sum", "field": "day"}}
    (tmp_path / "sales.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    with pytest.raises(UsageError, match=r"sum of field 'day', which is date; allowed types"):
        load_job(tmp_path / "sales.yaml")


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates()
WORDS = st.sampled_from(
    ["count", "sum", "tumbling", "sliding", "1h", "90s", "airport", "flight_event.avsc", "session"]
)
TREES = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS | WORDS, inner, max_size=3),
    max_leaves=8,
)
PATHS = st.sampled_from([place for place, _, _ in MISTAKES] + ["source.event_time", "lateness", "measures.miles"])


@given(PATHS, TREES)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_in_any_field_gives_a_job_or_a_usage_error(load: Load, path: str, value: Any) -> None:
    """No other type of error: a person is never shown a traceback for a job file."""
    try:
        job = load(changed(path, value))
    except UsageError:
        return
    assert isinstance(job, Job)


@given(TREES)
@settings(max_examples=100)
def test_any_document_gives_a_usage_error(load: Load, document: Any) -> None:
    """Whatever stands at the top of the file."""
    with pytest.raises(UsageError, match=r"job\.yaml:(\d+:)? "):
        load(document)

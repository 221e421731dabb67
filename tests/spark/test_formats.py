"""Bytes to events in Spark, format by format: a batch of records, no topic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.event_encoder import event_encoder, known_schemas
from cutwater.core.events.formats import JSON_SCHEMA, OTHER_FORMAT, WriterSchema, confluent_header
from cutwater.core.events.json_events import encode, json_fields
from cutwater.core.events.rejection import NO_VALUE, UNDECODABLE, UNKNOWN_SCHEMA
from cutwater.core.job.job import Job
from cutwater_spark.query.formats import with_events
from support.events import wide

pytestmark = pytest.mark.spark
AT = 1_700_000_000_000


def decoded(
    spark: SparkSession, job: Job, values: Sequence[bytes | None], known: Sequence[WriterSchema] = ()
) -> list[Any]:
    """Per value the event as a dict, or the reason why there is none."""
    rows = [(number, None if one is None else bytearray(one)) for number, one in enumerate(values)]
    frame = with_events(spark.createDataFrame(rows, "number int, value binary").coalesce(1), job, known)
    assert frame.columns == ["number", "value", "event", "__reason", "__remark"]
    found = sorted(frame.selectExpr("number", "to_json(event) is null as none", "event", "__reason").collect())
    assert all(row["none"] == (row["__reason"] is not None) for row in found), "an event, or a reason"
    return [row["__reason"] or row["event"].asDict() for row in found]


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    base = [{"name": "key", "type": "string"}, {"name": "at", "type": wide.TYPES["seen"]}]
    return {"type": "record", "name": "Event", "namespace": "test", "fields": [*base, *fields]}


V1 = record({"name": "n", "type": "int"}, {"name": "gone", "type": "string"})
V2 = record({"name": "n", "type": "long"}, {"name": "unit", "type": ["null", "string"], "default": None})
NEWEST = record(
    {"name": "total", "type": "double", "aliases": ["n"]},
    {"name": "unit", "type": ["null", "string"], "default": None},
    {"name": "rank", "type": "int", "default": 7},
)
PLACE = {"key": "k", "at": datetime.fromtimestamp(AT / 1000, UTC)}
WRITTEN = [
    (V1, {**PLACE, "n": 3, "gone": "x"}),
    (V2, {**PLACE, "n": 2**40, "unit": "kg"}),
    (NEWEST, {**PLACE, "total": 0.5, "unit": None, "rank": 1}),
]
READ = [
    {"key": "k", "total": 3.0, "unit": None, "rank": 7},
    {"key": "k", "total": float(2**40), "unit": "kg", "rank": 7},
    {"key": "k", "total": 0.5, "unit": None, "rank": 1},
]


def versions(folder: Path, source: str = "format: avro") -> Job:
    folder.mkdir(exist_ok=True)
    for name, schema in (("event.v1.avsc", V1), ("event.v2.avsc", V2)):
        (folder / name).write_text(json.dumps(schema), encoding="utf-8")
    return wide.job(folder, NEWEST, source)


def without_time(events: list[Any]) -> list[Any]:
    return [{name: value for name, value in one.items() if name != "at"} for one in events]


@pytest.mark.slow
def test_every_version_in_a_topic_is_read_as_the_newest(spark: SparkSession, tmp_path: Path) -> None:
    """Single objects of three versions, mixed: promoted, renamed by alias, left out, filled by default."""
    job = versions(tmp_path)
    values = [Codec(schema).encode(event) for schema, event in WRITTEN] * 3
    found = decoded(spark, job, values, known_schemas(job, None))
    assert without_time(found) == READ * 3
    assert {one["at"].timestamp() for one in found} == {AT / 1000}


def test_a_registry_s_numbers_name_the_writers_schema(spark: SparkSession, tmp_path: Path) -> None:
    """The same with Confluent's framing: a zero byte and the number; a number that nobody told is unknown."""
    job = versions(tmp_path, "format: confluent, registry: 'http://127.0.0.1:1'")
    numbers = {0: V1, 258: V2, 2**31 - 1: NEWEST}
    known = [WriterSchema(confluent_header(number), schema, str(number)) for number, schema in numbers.items()]
    values = [
        confluent_header(number) + Codec(schema).body(event)
        for number, (schema, event) in zip(numbers, WRITTEN, strict=True)
    ]
    assert without_time(decoded(spark, job, values, known)) == READ
    strangers = [confluent_header(1) + values[0][5:], b"\1" + values[0][1:], values[0][:4], values[0] + b"x", None]
    assert decoded(spark, job, strangers, known) == [UNKNOWN_SCHEMA, *[UNDECODABLE] * 3, NO_VALUE]


def test_what_is_no_event_has_a_reason(spark: SparkSession, tmp_path: Path) -> None:
    """A fingerprint of nobody; a record cut short or with a byte behind it; what is not framed; no value."""
    job = versions(tmp_path)
    good = Codec(NEWEST).encode(WRITTEN[2][1])
    stranger = Codec(record({"name": "other", "type": "int"})).encode({**PLACE, "other": 1})
    values = [stranger, stranger[:10], good[:-1], good[:10], good + b"\0", good[:9], b"not avro", b"", None]
    found = decoded(spark, job, values, known_schemas(job, None))
    assert found == [UNKNOWN_SCHEMA] * 2 + [UNDECODABLE] * 6 + [NO_VALUE]


@pytest.mark.variations
@pytest.mark.parametrize("kind", ["avro", "confluent", "json"])
def test_an_event_in_another_format_says_in_which(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """And one that JSON Schema's serializer wrote says which format reads it."""
    registry = ", registry: 'http://127.0.0.1:1'" if kind == "confluent" else ""
    job = versions(tmp_path, f"format: {kind}{registry}")
    event = {**PLACE, "total": 0.5, "unit": None, "rank": 1}
    plain = encode(event, json_fields(NEWEST))
    single = Codec(NEWEST).encode(event)
    framed = confluent_header(7) + Codec(NEWEST).body(event)
    values = {"avro": single, "confluent": framed, "json": plain}
    others = [one for name, one in values.items() if name != kind]
    known = [WriterSchema(single[:10], NEWEST, "v1"), WriterSchema(confluent_header(7), NEWEST, "7")]
    known = [one for one in known if (one.header[0] == 0) == (kind == "confluent")]
    rows = [(at, bytearray(one)) for at, one in enumerate([values[kind], *others, confluent_header(9) + plain])]
    frame = with_events(spark.createDataFrame(rows, "number int, value binary").coalesce(1), job, known, True)
    found = [(row["__reason"], row["__flaw"] and row["__flaw"]["rule"]) for row in frame.sort("number").collect()]
    said = [OTHER_FORMAT.format(name, kind) for name in values if name != kind]
    assert found == [(None, None), *[(UNDECODABLE, one) for one in [*said, JSON_SCHEMA]]]


def test_an_event_of_nulls_is_an_event(spark: SparkSession, tmp_path: Path) -> None:
    """Where every field may be null, a record of nulls is told from one that cannot be decoded."""
    kinds = {"key": "string", "at": wide.TYPES["seen"]}
    fields = [{"name": name, "type": ["null", type_]} for name, type_ in kinds.items()]
    schema = {"type": "record", "name": "Nulls", "fields": fields}
    job = wide.job(tmp_path, schema)
    values = [Codec(schema).encode({"key": None, "at": None}), Codec(schema).header + b"\x02"]
    assert decoded(spark, job, values, known_schemas(job, None)) == [{"key": None, "at": None}, UNDECODABLE]


def test_a_version_that_cannot_be_read_gives_undecodable_events(spark: SparkSession, tmp_path: Path) -> None:
    """A registry may hold what the job's schema cannot read: those events have a reason, others are read."""
    job = versions(tmp_path, "format: confluent, registry: 'http://127.0.0.1:1'")
    foreign = record({"name": "total", "type": "string"})
    known = [WriterSchema(confluent_header(1), foreign, "1"), WriterSchema(confluent_header(2), NEWEST, "2")]
    values = [
        confluent_header(1) + Codec(foreign).body({**PLACE, "total": "x"}),
        confluent_header(2) + Codec(NEWEST).body(WRITTEN[2][1]),
    ]
    found = decoded(spark, job, values, known)
    assert found[0] == UNDECODABLE
    assert without_time(found[1:]) == READ[2:]


def test_the_three_formats_decode_to_equal_events(spark: SparkSession, tmp_path: Path) -> None:
    """300 events of extreme values in every type, written in each format, are the same events in Spark."""
    made = wide.events(300, seed=20)
    avro = wide.job(tmp_path / "avro", wide.SCHEMA)
    one = decoded(spark, avro, [event_encoder(avro, None)(event) for event in made], known_schemas(avro, None))
    json_job = wide.job(tmp_path / "json", wide.SCHEMA, "format: json")
    two = decoded(spark, json_job, [event_encoder(json_job, None)(event) for event in made])
    confluent = wide.job(tmp_path / "confluent", wide.SCHEMA, "format: confluent, registry: 'http://127.0.0.1:1'")
    known = [WriterSchema(confluent_header(9), wide.SCHEMA, "9")]
    body = Codec(wide.SCHEMA).body
    three = decoded(spark, confluent, [confluent_header(9) + body(event) for event in made], known)
    assert not [event for event in one if isinstance(event, str)]
    assert two == one
    assert three == one


def full(**changed: Any) -> bytes:
    """An event of the wide schema as JSON, with some fields as given; `...` leaves a field out."""
    event = json.loads(encode(wide.events(1, seed=1)[0], json_fields(wide.SCHEMA)))
    return json.dumps({name: one for name, one in {**event, **changed}.items() if one is not ...}).encode()


UTC_2013 = datetime(2013, 1, 1, 12, 0, 0, 123_000, UTC)
FITS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "epoch milliseconds": ({"seen": 1_357_041_600_123}, {"seen": UTC_2013}),
    "epoch as text": ({"seen": "1357041600123"}, {"seen": UTC_2013}),
    "ISO 8601 in UTC": ({"seen": "2013-01-01T12:00:00.123Z"}, {"seen": UTC_2013}),
    "ISO 8601 with an offset": ({"seen": "2013-01-01T14:00:00.123+02:00"}, {"seen": UTC_2013}),
    "ISO 8601 without an offset": ({"seen": "2013-01-01 12:00:00.123"}, {"seen": UTC_2013}),
    "finer than the type": ({"seen": "2013-01-01T12:00:00.123987Z"}, {"seen": UTC_2013}),
    "epoch microseconds": ({"exact": 1_357_041_600_123_000}, {"exact": UTC_2013}),
    "a decimal as a number": ({"price": 12.5}, {"price": Decimal("12.50")}),
    "a decimal as text": ({"price": "-0012.34"}, {"price": Decimal("-12.34")}),
    "a whole number for a double": ({"ratio": 3}, {"ratio": 3.0}),
    "a field that may be null left out": (
        {"label_or": ..., "small_or": ...},
        {"label_or": None, "small_or": None},
    ),
    "explicit nulls": ({"label_or": None, "seen_or": None}, {"label_or": None, "seen_or": None}),
    "text that looks like something else": (
        {"label": "5", "label_or": "null"},
        {"label": "5", "label_or": "null"},
    ),
    "fields that nobody named": ({"more": {"label": 7, "a": [1]}}, {}),
}
UNFIT: dict[str, dict[str, Any]] = {
    "a number for text": {"label": 5},
    "a boolean for text": {"label": True},
    "an object for text": {"label": {"a": 1}},
    "a number for text that may be null": {"label_or": 5},
    "a negative fraction for text": {"label": -1.5e-7},
    "an array for text": {"label_or": [1, "x"]},
    "a boolean for a symbol": {"kind": True},
    "text beside no text": {"label": "7", "label_or": 7},
    "text for a number": {"small": "5"},
    "text for a number that may be null": {"small_or": "5"},
    "a fraction for a whole number": {"small": 1.5},
    "a whole number with a point": {"big": 1.0},
    "beyond 32 bits": {"small": 2**31},
    "beyond 64 bits": {"big": 2**63},
    "text for a boolean": {"flag": "true"},
    "a number for a boolean": {"flag": 1},
    "text for a double": {"ratio": "1.5"},
    "no symbol": {"kind": "c"},
    "no symbol, may be null": {"kind_or": "c"},
    "no base64": {"blob": "!!"},
    "a number for bytes": {"blob": 5},
    "too few bytes": {"mac": "AAEC"},
    "too many digits after the point": {"price": "1.234"},
    "too many digits": {"price": 12345678},
    "no number for a decimal": {"price": "."},
    "a float for a time": {"seen": 1.7e12},
    "no time": {"seen": "yesterday"},
    "a day that is none": {"seen": "2013-02-30T00:00:00Z"},
    "a date alone": {"seen": "2013-02-01"},
    "a time of too many digits": {"seen": 10**17},
    "a time, may be null": {"seen_or": "soon"},
    "a field that must be there": {"label": ...},
    "null for a field that must be there": {"small": None},
}


def test_json_that_fits_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Each way to write a field that the page of the formats allows."""
    job = wide.job(tmp_path, wide.SCHEMA, "format: json")
    found = decoded(spark, job, [full(**given) for given, _ in FITS.values()])
    for (name, (_, wanted)), event in zip(FITS.items(), found, strict=True):
        assert isinstance(event, dict), name
        shown = {field: as_utc(event[field]) for field in wanted}
        assert shown == wanted, name


def as_utc(value: Any) -> Any:
    """Spark hands times over in the machine's zone, without saying so."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def test_json_that_does_not_fit_is_undecodable(spark: SparkSession, tmp_path: Path) -> None:
    """Every wrong type and every missing field: nothing is made to fit, and nothing stops the query."""
    job = wide.job(tmp_path, wide.SCHEMA, "format: json")
    found = decoded(spark, job, [full(**given) for given in UNFIT.values()])
    assert [name for name, one in zip(UNFIT, found, strict=True) if one != UNDECODABLE] == []


def test_bytes_that_are_no_json_object_are_undecodable(spark: SparkSession, tmp_path: Path) -> None:
    """Two documents, an array, text after the object, single quotes, other encodings, a depth without end."""
    good = full()
    job = wide.job(tmp_path, wide.SCHEMA, "format: json")
    values = [
        good + good, b"[" + good + b"]", good + b" x", good[:-1], good.replace(b'"', b"'"), b"xx", b"", b"null",
        good.replace(b'"key"', b'"key\xff"'), full(label="x").replace(b'"x"', b'"\xc3("'),
        good.decode().encode("utf-16"), b'{"key":' * 5_000, good + b"," + good, b"5",
    ]  # fmt: skip
    found = decoded(spark, job, [*values, None, good])
    assert [number for number, one in enumerate(found[: len(values)]) if one != UNDECODABLE] == []
    assert found[-2] == NO_VALUE
    assert isinstance(found[-1], dict)


DEFAULTS: list[tuple[Any, Any, Any]] = [
    ("string", "it's", "it's"),
    ("int", -3, -3),
    ("long", 2**60, 2**60),
    ("double", 0.5, 0.5),
    ("boolean", True, True),
    ("bytes", "\u00ff\u0001", bytearray(b"\xff\x01")),
    (wide.TYPES["kind"], "b", "b"),
    (wide.TYPES["price"], "\u00ff", Decimal("-0.01")),
    (wide.TYPES["exact"], 1_357_041_600_123_000, UTC_2013),
    (["int", "null"], 4, 4),
]


def test_a_missing_field_takes_its_default_in_every_format(spark: SparkSession, tmp_path: Path) -> None:
    """Each kind of default that the schema can give: Avro's own for an older writer, ours for JSON."""
    fields = [{"name": f"f{number}", "type": one[0], "default": one[1]} for number, one in enumerate(DEFAULTS)]
    (tmp_path / "avro").mkdir()
    (tmp_path / "avro" / "event.v1.avsc").write_text(json.dumps(record()), encoding="utf-8")
    avro = wide.job(tmp_path / "avro", record(*fields))
    (one,) = decoded(spark, avro, [Codec(record()).encode(PLACE)], known_schemas(avro, None))
    json_job = wide.job(tmp_path / "json", record(*fields), "format: json")
    (two,) = decoded(spark, json_job, [json.dumps({"key": "k", "at": AT}).encode()])
    wanted = {f"f{number}": wanted for number, (_, _, wanted) in enumerate(DEFAULTS)}
    for found in (one, two):
        assert {name: as_utc(found[name]) for name in wanted} == wanted
    wrong = json.dumps({"key": "k", "at": AT, "f0": 5}).encode()
    assert decoded(spark, json_job, [wrong]) == [UNDECODABLE]

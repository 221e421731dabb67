"""What is told of a sample of events without Spark is what the driver does with them, reason by reason."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.events import rejection
from cutwater.core.events.formats import confluent_header
from cutwater.core.events.rejection import MAX_BEHIND_MS, YEARS, Flaw
from cutwater.core.generations.source_topics import only
from cutwater.core.job.field_paths import column_paths
from cutwater.core.job.job import Job
from cutwater.operations.event_sample import judge_records
from cutwater.operations.topic_sample import Sample
from cutwater_spark.query.decoding import decode

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("as_in_a_driver")]
AT = 1_700_000_000_000
DAY = 86_400_000
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}
TYPES: dict[str, Any] = {
    "key": "string",
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "seen": {"type": "long", "logicalType": "timestamp-micros"},
    "note": "string",
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "big": MONEY,
    "n": "int",
    "flag": "boolean",
    "kind": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]},
}
FIELDS = [{"name": name, "type": ["null", one], "default": None} for name, one in TYPES.items()]
SCHEMA = {"type": "record", "name": "Event", "namespace": "test", "fields": FIELDS}
OLD = {**SCHEMA, "fields": [*FIELDS[:2], {"name": "n", "type": "int"}]}


def job(folder: Path, format_: str) -> Job:
    folder.mkdir(exist_ok=True)
    (folder / "event.avsc").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (folder / "event.v1.avsc").write_text(json.dumps(OLD), encoding="utf-8")
    (folder / "job.yaml").write_text(
        "job: a\nsource: {topic: a, schema: event.avsc, key: key, event_time: at, format: " + format_ + "}\n"
        "window: {kind: tumbling, size: 1m}\nlateness: 1h\nretention: 30d\npartitions: 1\nmax_event_bytes: 9000\n"
        "measures: {total: {measure: sum, field: big}}\n",
        encoding="utf-8",
    )
    return load_job(folder / "job.yaml")


def told(job_: Job, values: Sequence[bytes | None]) -> list[tuple[str | None, str | None]]:
    """(reason, field) of each, without Spark."""
    samples = [Sample(0, at, AT, None, one, 0) for at, one in enumerate(values)]
    flaws = (found for _, found in judge_records(job_, samples, known_schemas(job_, None)))
    return [(one.reason, one.field) if isinstance(one, Flaw) else (None, None) for one in flaws]


def done(spark: SparkSession, job_: Job, values: Sequence[bytes | None]) -> list[tuple[str | None, str | None]]:
    """The same as the driver has it."""
    return [(one["__reason"], one["field"]) for one in judged(spark, job_, values)]


def judged(spark: SparkSession, job_: Job, values: Sequence[bytes | None], *more: str) -> list[Row]:
    """What the driver makes of records; `more`: SQL beside reason and field."""
    written = datetime.fromtimestamp(AT / 1000, UTC)
    rows = [("a", 0, at, written, None if one is None else bytearray(one)) for at, one in enumerate(values)]
    names = "topic string, partition int, offset long, timestamp timestamp, value binary"
    raw = spark.createDataFrame(rows, names).coalesce(1)
    frame = decode(raw, job_, known_schemas(job_, None), only("a", "a"), explained=True)
    return frame.selectExpr("offset", "__reason", "__flaw.field as field", *more).orderBy("offset").collect()


def differing(values: Sequence[bytes | None], mine: Sequence[Any], theirs: Sequence[Any]) -> list[str]:
    return [
        f"{mine[at]} and not {theirs[at]}: {one!r:.80} … {(one or b'')[-30:]!r}"
        for at, one in enumerate(values)
        # Where Spark's reader of Avro gives up on a record, the driver does not know the field.
        if mine[at] != theirs[at] and (theirs[at] != (rejection.UNDECODABLE, None) or mine[at][0] != theirs[at][0])
    ]


TIMES: dict[str, list[int | None]] = {
    rejection.NO_EVENT_TIME: [None],
    rejection.UNDECODABLE: [YEARS[0] // 1000 - 1, YEARS[1] // 1000 + 1, 2**62],
    rejection.TOO_FAR_AHEAD: [AT + DAY + 1, YEARS[1] // 1000],
    rejection.TOO_FAR_BEHIND: [AT - MAX_BEHIND_MS - 1, AT // 1000, YEARS[0] // 1000],
}
FINE: list[int | None] = [AT, AT + DAY, AT - MAX_BEHIND_MS, -1]


def test_json_is_told_as_it_is_done(spark: SparkSession, tmp_path: Path) -> None:
    """Times at each bound, keys at theirs, numbers and depths at the parser's, other formats, no value."""

    def with_(**given: Any) -> bytes:
        return json.dumps({"key": "a", "at": AT, **given}).encode()

    def raw(field: str, token: str) -> bytes:
        return with_()[:-1] + f',"{field}":{token}}}'.encode()

    wholes = [f"{'1' * size}" for size in (1_000, 1_001)]
    values = [
        *(with_(at=one) for ones in (*TIMES.values(), FINE) for one in ones if one is None or abs(one) < 10**15),
        *(raw("at", f'"{one}"') for one in ("0000-01-01T00:00:00Z", "0199-12-31T23:59:59Z", "0200-01-01T00:00:00Z",
          "2023-11-14T22:13:20+01:99", "2023-11-14T22:13:20+01:59", "2023-11-14T22:13:20-18:00",
          "2023-11-14T22:13:20+18:01", "2023-11-14T22:13:20+0000", "2023-11-14T22:13:20+00",
          "2023-11-14 24:00:00")),
        *(with_(key=one) for one in (None, "", "k" * 4_096, "k" * 4_097, "ü" * 2_049)),
        *(raw(field, one) for field in ("other", "note", "n", "big") for one in (*wholes, f"-{wholes[0]}",
          f"0.{wholes[0]}", f"0.{wholes[1]}", f"-1.{wholes[0][1:]}", f"1.{wholes[0]}", f"1e{wholes[0]}",
          "0.5", "-0")),
        *(raw("big", f'"{one}"') for one in ("9" * 18, "9" * 19, f"-{'9' * 28}.5", "0.12345678901", "1" * 1_001)),
        b'{"x":' * 900 + b"1" + b"}" * 899 + b"," + with_()[1:], b'{"x":' * 1_001 + b"1" + b"}" * 1_001,
        None, b"", b"x" * 9_001, Codec(SCHEMA).header + b"x", confluent_header(3) + with_(), confluent_header(3),
    ]  # fmt: skip
    made = job(tmp_path, "json")
    expected, found = told(made, values), done(spark, made, values)
    assert differing(values, expected, found) == []
    wanted = {*TIMES, rejection.NO_KEY, rejection.KEY_TOO_LARGE, rejection.NO_ROOM, rejection.NO_VALUE,
              rejection.TOO_LARGE, None}  # fmt: skip
    assert {reason for reason, _ in expected} == wanted


def test_avro_is_told_as_it_is_done(spark: SparkSession, tmp_path: Path) -> None:
    """The same of two versions of Avro; texts that are not UTF-8, decimals beyond their types, damaged bytes."""
    plain = {**SCHEMA, "fields": [{**one, "type": ["null", bare(one["type"][1])]} for one in FIELDS]}
    codec, header = Codec(plain), Codec(SCHEMA).header

    def with_(**given: Any) -> bytes:
        return header + codec.body({**dict.fromkeys(TYPES), "key": b"a", "at": AT, **given})

    good = with_(note=b"n", price=b"\x01", n=7, flag=True, kind="B", seen=5)
    old = Codec({**OLD, "fields": [*plain["fields"][:2], OLD["fields"][2]]}).body({"key": b"a", "at": AT, "n": 1})
    values = [
        good, Codec(OLD).header + old, Codec(OLD).header + old[:-1], Codec({**OLD, "name": "X"}).header + old,
        *(with_(at=one) for ones in (*TIMES.values(), FINE) for one in ones),
        *(with_(seen=one) for one in (YEARS[0], YEARS[0] - 1, YEARS[1], YEARS[1] + 1, 2**62)),
        *(with_(key=one) for one in (None, b"", b"k" * 4_096, b"k" * 4_097, b"\xff", b"\xed\xa0\x80")),
        with_(note=b"\xc3("), *(with_(price=size(one)) for one in (10**9 - 1, 10**9, -(10**9), 2**63, 2**64 + 1)),
        *(with_(big=size(one)) for one in (10**28 - 1, 10**28, 10**38 - 1, -(10**38), 2**200)),
        good + b"\0", good[:-1], header, header[:9], b"{}", None, b"", with_(note=b"n" * 9_000),
        confluent_header(1) + b"{}", confluent_header(1) + b"x", *damaged(good, 150),
    ]  # fmt: skip
    made = job(tmp_path, "avro")
    expected, found = told(made, values), done(spark, made, values)
    assert differing(values, expected, found) == []
    wanted = {*TIMES, rejection.NO_KEY, rejection.KEY_TOO_LARGE, rejection.NO_ROOM, rejection.NO_VALUE,
              rejection.UNKNOWN_SCHEMA, rejection.TOO_LARGE, None}  # fmt: skip
    assert {reason for reason, _ in expected} == wanted


@pytest.mark.slow
def test_paths_are_told_as_they_are_done(spark: SparkSession, tmp_path: Path, asked_here: None) -> None:
    """Of records, maps and arrays, in both formats: what is null or missing on the way, an element that is not
    there, and values at their bounds. Spark tells the columns' types."""
    types = {"Id": "string", **{name: TYPES[name] for name in ("at", "price")}}
    fields = [{"name": name, "type": ["null", one]} for name, one in types.items()]
    user = {
        "type": "record",
        "name": "User",
        "fields": [*fields, {"name": "kind", "type": ["null", TYPES["kind"]]}],
    }
    item = {"type": "record", "name": "Item", "fields": [*fields, {"name": "kind", "type": ["null", "Kind"]}]}
    nested = [
        {"name": "user", "type": ["null", user], "default": None},
        {"name": "tags", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "items", "type": {"type": "array", "items": ["null", item]}},
    ]
    schema = {"type": "record", "name": "Event", "namespace": "test", "fields": nested}
    columns = {"id": "user.id", "tag": "tags['it\\'s']", "sku": "ITEMS[1].id", "at": "user.at",
               "price": "user.price", "big": "items[0].price", "kind": "user.kind"}  # fmt: skip

    def event(**given: Any) -> dict[str, Any]:
        one = {"Id": "u", "at": AT, "price": "1.50", "kind": "A"}
        return {"user": {**one, **given}, "tags": {"it's": "t"}, "items": [one, one]}

    events = [
        event(), *(event(**{name: None}) for name in ("Id", "at", "price", "kind")), {**event(), "user": None},
        *({**event(), "tags": one} for one in ({}, {"it's": None}, {"It's": "t"})),
        *({**event(), "items": one} for one in ([], [None], [None, None], [event()["user"]])),
        *(event(at=one) for ones in (*TIMES.values(), FINE) for one in ones if one is None or abs(one) < 10**15),
        *(event(Id=one) for one in ("", "k" * 4_095, "k" * 4_096, "ü" * 2_049)),
        *(event(price=one) for one in ("9999999.99", "-0.01")),
    ]  # fmt: skip
    plain = json.loads(json.dumps(schema), object_hook=lambda one: bare(one) if "logicalType" in one else one)
    codec, header = Codec(plain), Codec(schema).header
    for format_ in ("json", "avro"):
        folder = tmp_path / format_
        folder.mkdir()
        (folder / "event.avsc").write_text(json.dumps(schema), encoding="utf-8")
        written = {
            "job": "a",
            "source": {"topic": "a", "schema": "event.avsc", "format": format_, "columns": columns,
                       "key": ["id", "tag"], "event_time": "at"},
            "window": {"kind": "tumbling", "size": "1m"},
            "lateness": "1h",
            "retention": "30d",
            "measures": {"total": {"measure": "sum", "field": "price"},
                         "skus": {"measure": "last", "field": "sku"}},
        }  # fmt: skip
        (folder / "job.yaml").write_text(json.dumps(written), encoding="utf-8")
        made = load_job(folder / "job.yaml")
        paths = column_paths(made)
        assert paths is not None
        assert paths["sku"] == ("items", 1, "Id")
        values: list[bytes | None] = [json.dumps(one).encode() for one in events]
        if format_ == "avro":
            values = [header + codec.body(cents(one)) for one in events]
            values += [one.replace(b"\x02u", b"\x02\xff") for one in values[:1] if one]
        shown = [f"event.{one}" for one in columns if one != "at"]
        found = judged(spark, made, values, "unix_micros(event.at) as at", *shown)
        expected = told(made, values)
        assert differing(values, expected, [(one["__reason"], one["field"]) for one in found]) == [], format_
        assert {reason for reason, _ in expected} >= {None, rejection.NO_KEY, rejection.KEY_TOO_LARGE,
            rejection.FAILED_EXPRESSION, rejection.NO_EVENT_TIME, rejection.TOO_FAR_AHEAD}  # fmt: skip
        samples = [Sample(0, at, AT, None, one, 0) for at, one in enumerate(values)]
        read = [one for _, one in judge_records(made, samples, known_schemas(made, None))]
        mine = [{name: one[name] for name in columns} for one in read if isinstance(one, dict)]
        assert mine == [{name: one[name] for name in columns} for one in found if one["__reason"] is None]


def cents(node: Any) -> Any:
    """An event with its prices as Avro has them."""
    if isinstance(node, list):
        return [cents(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        name: size(int(one.replace(".", ""))) if name == "price" and one else cents(one)
        for name, one in node.items()
    }


def bare(kind: Any) -> Any:
    """What any bytes may be written as."""
    if isinstance(kind, dict) and "logicalType" in kind:
        return kind["type"]
    return "bytes" if kind == "string" else kind


def size(number: int) -> bytes:
    return number.to_bytes(30, "big", signed=True)


def damaged(value: bytes, count: int) -> list[bytes]:
    rng = random.Random(7)
    made = []
    for _ in range(count):
        one = bytearray(value)
        one[rng.randrange(10, len(one))] = rng.randrange(256)
        made.append(bytes(one))
    return made

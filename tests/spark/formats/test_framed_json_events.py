"""JSON events behind a registry's framing in Spark: as plain JSON, as Python reads them, as DuckDB sums them."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from cutwater.adapters.events.event_encoder import event_encoder
from cutwater.core.events.formats import JSON_SCHEMA, WriterSchema, confluent_header
from cutwater.core.events.framed_json import FramedJsonReader
from cutwater.core.events.rejection import Flaw
from support.events import wide
from support.events.spark_decoder import read

pytestmark = pytest.mark.spark
HEAD, LATER, BAD = confluent_header(3), confluent_header(2**31 - 1), confluent_header(9)
KNOWN = (
    WriterSchema(HEAD, {}, "number 3"),
    WriterSchema(LATER, {}, "the newest"),
    WriterSchema(BAD, {}, "number 9", "version 2 is AVRO, and it's not read"),
)


@pytest.mark.slow
def test_events_of_every_type_are_those_of_plain_json(spark: SparkSession, tmp_path: Path) -> None:
    """300 with extreme values, by two numbers; the sums are DuckDB's, from the same bytes."""
    made = wide.events(300, seed=21)
    plain = wide.job(tmp_path / "json", wide.SCHEMA, "format: json")
    bodies = [event_encoder(plain, None)(event) for event in made]
    job = wide.job(tmp_path / "framed", wide.SCHEMA, "format: confluent-json")
    framed = [(HEAD, LATER)[at % 2] + one for at, one in enumerate(bodies)]
    found = read(spark, job, framed, KNOWN)
    assert found == read(spark, plain, bodies, ())
    assert not [one for one in found if isinstance(one, tuple)]
    (tmp_path / "bodies.ndjson").write_bytes(b"\n".join(one[5:] for one in framed))
    columns = "{key: 'VARCHAR', small: 'INTEGER', big: 'HUGEINT', label: 'VARCHAR'}"
    of_file = f"read_json('{tmp_path / 'bodies.ndjson'}', format='newline_delimited', columns={columns})"
    with duckdb.connect() as db:
        query = f"SELECT key, count(*), sum(small), sum(big), max(label) FROM {of_file} GROUP BY key ORDER BY key"
        oracle = db.execute(query).fetchall()
    keys = sorted({one["key"] for one in found})
    of = {key: [one for one in found if one["key"] == key] for key in keys}
    assert oracle == [
        (key, len(some), sum(one["small"] for one in some), sum(one["big"] for one in some),
         max(one["label"] for one in some))
        for key, some in of.items()
    ]  # fmt: skip


def test_what_is_no_event_is_told_as_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Framing, number, body and field: reason, rule and field are those of `init` and `doctor`."""
    fields = [
        {"name": "key", "type": "string"},
        {"name": "at", "type": wide.TYPES["seen"]},
        {"name": "n", "type": "int"},
    ]
    schema = {"type": "record", "name": "Event", "fields": fields}
    job = wide.job(tmp_path, schema, "format: confluent-json")
    body = json.dumps({"key": "k", "at": 1_700_000_000_000, "n": 1}).encode()
    values = [
        confluent_header(4) + body, BAD + body, body, b"\xc3\x01" + bytes(9), b"\xc3\x01", HEAD[:4], b"",
        b"\x01" + body, HEAD, HEAD + b" ", HEAD + HEAD + body, HEAD + b"\xc3\x01" + body, HEAD + body + b"x",
        HEAD + body[:-1], HEAD + b"[]", HEAD + b"\xff" + body, HEAD + body.replace(b"1}", b'"1"}'), HEAD + b"{}",
        HEAD + b"\x02}", None,
    ]  # fmt: skip
    found = read(spark, job, [*values, HEAD + body], KNOWN)
    reader = FramedJsonReader(schema, KNOWN)
    expected = [(one.reason, one.rule, one.field) for one in map(reader.read, values) if isinstance(one, Flaw)]
    assert found[:-1] == expected
    assert found[-1]["n"] == 1
    assert {one[0] for one in read(spark, job, [HEAD + body, BAD + body], ())} == {"unknown schema"}


@pytest.mark.parametrize("kind", ["avro", "confluent", "json"])
def test_another_format_says_which_one_reads_it(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    job = wide.job(tmp_path, wide.SCHEMA, f"format: {kind}")
    assert read(spark, job, [HEAD + b'{"a":1}'], ()) == [("undecodable", JSON_SCHEMA, None)]


def test_a_repeated_name_is_noticed_behind_the_framing(spark: SparkSession, tmp_path: Path) -> None:
    """By the setting of the job file, as in plain JSON."""
    fields = [{"name": "key", "type": "string"}, {"name": "at", "type": wide.TYPES["seen"]}]
    schema = {"type": "record", "name": "Event", "fields": fields}
    value = HEAD + b'{"key":"a","key":"b","at":1700000000000}'
    last = wide.job(tmp_path / "last", schema, "format: confluent-json")
    reject = wide.job(tmp_path / "reject", schema, "format: confluent-json, repeated_names: reject")
    (one,), (other,) = read(spark, last, [value], KNOWN), read(spark, reject, [value], KNOWN)
    assert one["key"] == "b"
    assert other[1] == "the object has a name twice (source.repeated_names)"

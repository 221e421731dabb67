"""Conditions and computed columns: no event ends the query, and none is lost silently."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files import expressions as checked_expressions
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.events.rejection import FAILED_EXPRESSION, NO_KEY, UNDECODABLE
from cutwater.core.generations.source_topics import only
from cutwater.core.job.job import Job
from cutwater_spark.query.decoding import LEFT_OUT, decode

pytestmark = pytest.mark.spark
AT = 1_700_000_000_000
ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": ["null", "string"]}]}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "test",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "a", "type": ["null", "int"]},
        {"name": "b", "type": ["null", "int"]},
        {"name": "written", "type": ["null", "string"]},
        {"name": "address", "type": ["null", ADDRESS]},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "items", "type": {"type": "array", "items": "long"}},
    ],
}


@pytest.fixture(autouse=True, scope="module")
def types_as_declared() -> Iterator[None]:
    """Spark's check of the expressions, which is not what is tested here, would take seconds for each job."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checked_expressions, "find_spec", lambda _name: None)
        yield


def job_of(folder: Path, columns: dict[str, Any], where: str = "", **source: Any) -> Job:
    """A job with these expressions."""
    (folder / "order.avsc").write_text(json.dumps(SCHEMA))
    written = {
        "job": "orders",
        "source": {"topic": "orders", "schema": "order.avsc", "key": "key", "event_time": "at", "columns": columns}
        | ({"where": where} if where else {})
        | source,
        "window": {"kind": "tumbling", "size": "1h"},
        "lateness": "1h",
        "retention": "1d",
        "measures": {"orders": {"measure": "count"}},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(written))
    return load_job(folder / "job.yaml")


def event(**given: Any) -> dict[str, Any]:
    empty = {"a": None, "b": None, "written": None, "address": None, "tags": {}, "items": []}
    return {"key": "k", "at": AT, **empty, **given}


def records(spark: SparkSession, events: list[dict[str, Any]]) -> DataFrame:
    codec = Codec(SCHEMA)
    written = datetime.fromtimestamp(AT / 1000, UTC)
    rows = [("t", 0, at, written, bytearray(codec.encode(one))) for at, one in enumerate(events)]
    return spark.createDataFrame(
        rows, "topic string, partition int, offset long, timestamp timestamp, value binary"
    ).coalesce(1)


def judged(spark: SparkSession, job: Job, events: list[dict[str, Any]], explained: bool = False) -> list[Any]:
    frame = decode(records(spark, events), job, known_schemas(job, None), only("t", "local"), explained)
    return list(frame.orderBy("offset").collect())


def outcome(row: Any) -> str:
    if row[LEFT_OUT]:
        assert (row["event"], row["__reason"]) == (None, None)
        return "left out"
    assert (row["event"] is None) == (row["__reason"] is not None)
    return row["__reason"] or "used"


WHOLE = st.none() | st.integers(-3, 3) | st.sampled_from([2**31 - 1, -(2**31)])
TEXTS = st.none() | st.sampled_from(["", "12", "1.25", "x", "99999999999", " 7 ", "1e3"])


@settings(max_examples=8, deadline=None)
@example([(2**31 - 1, 3, None), (1, 0, None), (1, 1, "x"), (2, 0, "x"), (3, 3, "12")])
@given(st.lists(st.tuples(WHOLE, WHOLE, TEXTS), min_size=1, max_size=60))
def test_columns_are_those_of_duckdb_and_errors_are_dead_letters(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, given_: list[tuple[Any, Any, Any]]
) -> None:
    """An error makes a dead letter, also in an expression that occurs twice, which Spark computes beforehand."""
    folder = tmp_path_factory.mktemp("job")
    columns = {
        "quotient": {"sql": "a / b", "type": "double"},
        "product": {"sql": "a * b", "type": "int"},
        "twice": {"sql": "(a * b) + (a * b)", "type": "long"},
        "number": {"sql": "written", "type": "int"},
    }
    job = job_of(folder, columns, where="coalesce(a, 0) <> 2 -- a comment")
    rows = judged(spark, job, [event(a=a, b=b, written=text) for a, b, text in given_])
    with duckdb.connect() as db:
        for row, (a, b, written) in zip(rows, given_, strict=True):
            if a == 2:
                assert outcome(row) == "left out"
                continue
            wide = None if a is None or b is None else a * b
            overflows = wide is not None and not -(2**31) <= 2 * wide < 2**31
            is_number = written is None or re.fullmatch(r" *[0-9]{1,9} *", written)
            if (a is not None and b == 0) or overflows or not is_number:
                assert outcome(row) == FAILED_EXPRESSION, (a, b)
                continue
            asked = "select ?::int / ?::int, ?::int * ?::int, trim(?)::int"
            [wanted] = db.execute(asked, [a, b, a, b, written]).fetchall()
            assert tuple(row["event"][one] for one in ("quotient", "product", "number")) == wanted
            assert row["event"]["twice"] == (None if wide is None else 2 * wide)


def test_an_explained_dead_letter_names_the_expression(spark: SparkSession, tmp_path: Path) -> None:
    columns = {
        "quotient": {"sql": "a div b", "type": "long"},
        "number": {"sql": "cast(written as decimal(10,2))", "type": "decimal(10,2)"},
    }
    job = job_of(tmp_path, columns, where="element_at(items, 1) > 0")
    events = [
        event(a=1, b=0, items=[1]),
        event(written="x", items=[1]),
        event(a=7, b=2, written="1.25", items=[1]),
        event(a=1, b=0, items=[0]),
        event(items=[]),
    ]
    rows = judged(spark, job, events, explained=True)
    assert [outcome(one) for one in rows] == [
        FAILED_EXPRESSION, FAILED_EXPRESSION, "used", "left out", FAILED_EXPRESSION,
    ]  # fmt: skip
    assert [one["__flaw"] and one["__flaw"]["field"] for one in rows] == [
        "source.columns.quotient", "source.columns.number", None, None, "source.where",
    ]  # fmt: skip
    assert (rows[2]["event"]["quotient"], rows[2]["event"]["number"]) == (3, Decimal("1.25"))
    plain = judged(spark, job, events)
    assert [outcome(one) for one in plain] == [outcome(one) for one in rows], "the stream judges alike"


def test_paths_reach_into_records_maps_and_arrays(spark: SparkSession, tmp_path: Path) -> None:
    columns = {
        "city": {"sql": "address.city", "type": "string"},
        "region": {"sql": "tags['region']", "type": "string"},
        "first_item": {"sql": "get(items, 0)", "type": "long"},
        "moment": {"sql": "timestamp_seconds(get(items, 1))", "type": "timestamp"},
    }
    job = job_of(tmp_path, columns, key="city", event_time="moment")
    events = [
        event(address={"city": "Ulm"}, tags={"region": "south"}, items=[5, AT // 1000]),
        event(address=None, items=[5, AT // 1000]),
    ]
    used, keyless = judged(spark, job, events)
    assert (used["event"]["city"], used["event"]["region"], used["event"]["first_item"]) == ("Ulm", "south", 5)
    assert used["event"]["moment"].timestamp() == AT / 1000
    assert outcome(keyless) == NO_KEY


@pytest.mark.slow
def test_fields_named_as_kafkas_columns_are_the_events_own(spark: SparkSession, tmp_path: Path) -> None:
    """`key` is a column of Kafka's records and a field of the event: expressions see the field."""
    job = job_of(tmp_path, {"shout": {"sql": "upper(key)", "type": "string"}}, where="key <> 'no'")
    rows = judged(spark, job, [event(key="yes"), event(key="no")])
    assert [outcome(one) for one in rows] == ["used", "left out"]
    assert rows[0]["event"]["shout"] == "YES"


def test_texts_that_are_no_utf8_never_come_out_of_an_expression(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of(tmp_path, {"part": {"sql": "cast(unhex(written) as string)", "type": "string"}})
    bad, good = judged(spark, job, [event(written="FF"), event(written="41")])
    assert outcome(bad) == UNDECODABLE
    assert good["event"]["part"] == "A"


def test_a_job_without_expressions_is_planned_as_before(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of(tmp_path, {})
    frame = decode(records(spark, [event()]), job, known_schemas(job, None), only("t", "local"))
    plan = frame._jdf.queryExecution().optimizedPlan().toString()  # type: ignore[union-attr]
    assert "tryeval" not in plan
    shaped = decode(
        records(spark, [event()]), job_of(tmp_path, {}, "a > 0"), known_schemas(job, None), only("t", "local")
    )
    assert "tryeval" in shaped._jdf.queryExecution().optimizedPlan().toString()  # type: ignore[union-attr]

"""Elements of an array as events: rows equal DuckDB's, and a record counts as a whole or not at all."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files import expressions as checked_expressions
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.events.rejection import (
    ELEMENTS_MAX,
    FAILED_EXPRESSION,
    NO_EVENT_TIME,
    NO_KEY,
    NO_ROOM,
    UNDECODABLE,
)
from cutwater.core.generations.source_topics import only
from cutwater.core.job.job import Job
from cutwater_spark.query.computed_columns import ELEMENTS
from cutwater_spark.query.decoding import LEFT_OUT, decode, record_key
from support.harness import flow
from support.rejected_events import dead_letters

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("shared_spark")]
AT = 1_700_000_040_000
ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [
        {"name": "sku", "type": ["null", "string"]},
        {"name": "count", "type": "int"},
        {"name": "cents", "type": "long"},
    ],
}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "test",
    "fields": [
        {"name": "shop", "type": "string"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "items", "type": ["null", {"type": "array", "items": ITEM}]},
    ],
}
EXPLODE: dict[str, Any] = {
    "array": "items",
    "as": "item",
    "where": "item.count <> 0 -- returned",
    "columns": {
        "sku": {"sql": "item.sku", "type": "string"},
        "cents": {"sql": "item.count * item.cents", "type": "long"},
        "share": {"sql": "item.cents div (item.count - 3)", "type": "long"},
    },
}
MEASURES = {
    "items": {"measure": "count"},
    "cents": {"measure": "sum", "field": "cents"},
    "first": {"measure": "first", "field": "cents"},
    "last": {"measure": "last", "field": "cents"},
}


@pytest.fixture
def types_as_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's check of the expressions would take seconds for each job."""
    monkeypatch.setattr(checked_expressions, "find_spec", lambda _name: None)


def job_text(name: str = "orders", key: Any = "sku", **more: Any) -> str:
    source = {"topic": f"{name}.events", "schema": "event.avsc", "key": key, "event_time": "at"}
    return yaml.safe_dump(
        {
            "job": name,
            "source": {**source, "explode": {**EXPLODE, **more}},
            "window": {"kind": "tumbling", "size": "1m"},
            "lateness": "1h",
            "retention": "30d",
            "partitions": 2,
            "shuffle_partitions": 1,
            "measures": MEASURES,
        }
    )


def job_of(folder: Path, key: Any = "sku", **more: Any) -> Job:
    (folder / "event.avsc").write_text(json.dumps(SCHEMA))
    (folder / "job.yaml").write_text(job_text(key=key, **more))
    return load_job(folder / "job.yaml")


def order(*items: tuple[str | None, int, int] | None, at: int | None = AT) -> dict[str, Any]:
    listed = [{"sku": one[0], "count": one[1], "cents": one[2]} for one in items if one]
    return {"shop": "a", "at": at, "items": None if items == (None,) else listed}


def judged(spark: SparkSession, job: Job, events: list[dict[str, Any]], explained: bool) -> list[Any]:
    rows = [(at, bytearray(Codec(SCHEMA).encode(one))) for at, one in enumerate(events)]
    raw = spark.createDataFrame(rows, "offset long, value binary").withColumns(
        {
            "topic": F.lit("t"),
            "partition": F.lit(0),
            "timestamp": F.expr(f"timestamp_millis({AT}L)"),
        }
    )
    frame = decode(raw, job, known_schemas(job, None), only("t", "local"), explained)
    key = f"if({LEFT_OUT} or __reason is not null, null, {record_key(job)}) as first_key"
    return list(frame.selectExpr("*", key).orderBy("offset").collect())


def test_a_record_counts_with_all_its_elements_or_not_at_all(
    spark: SparkSession, tmp_path: Path, types_as_declared: None
) -> None:
    """The stream and the lists judge alike; a dead letter names the element and what is wrong with it."""
    job = job_of(tmp_path)
    events = [
        order(("a", 1, 5), ("b", 0, 7), ("c", 2, 3)),
        order(("a", 1, 5), (None, 1, 5)),
        order(("a", 1, 5), ("b", 3, 5)),
        order(("b", 0, 1)),
        order(),
        order(None),
        order(("a", 1, 5), at=None),
        order(at=None),
        order(*[("a", 1, 1)] * (ELEMENTS_MAX + 1)),
        order(("a", 2**31 - 1, 2**62), (None, 0, 0)),
        order((None, 0, 0), ("z", 1, 1)),
    ]
    rows, plain = (judged(spark, job, events, explained) for explained in (True, False))
    assert [(one["__reason"], one[LEFT_OUT]) for one in rows] == [
        (None, False),
        (NO_KEY, False),
        (FAILED_EXPRESSION, False),
        *[(None, True)] * 3,
        (NO_EVENT_TIME, False),
        (NO_EVENT_TIME, False),
        (NO_ROOM, False),
        (FAILED_EXPRESSION, False),
        (None, False),
    ]
    assert [(one["__reason"], one[LEFT_OUT]) for one in plain] == [
        (one["__reason"], one[LEFT_OUT]) for one in rows
    ]
    flaws = {at: (one["__flaw"]["field"], one["__flaw"]["rule"]) for at, one in enumerate(rows) if one["__flaw"]}
    assert flaws[1][0] == "sku"
    assert flaws[1][1].startswith("of element 1 is null"), flaws[1]
    assert (flaws[2][0], flaws[9][0]) == ("source.explode.columns.share", "source.explode.columns.cents")
    assert flaws[8] == ("source.explode.array", "has 10001 elements, and an array may have 10000")
    columns = ("__index", "sku", "cents", "share")
    found = [[tuple(one[name] for name in columns) for one in rows[at][ELEMENTS]] for at in (0, 10)]
    assert found == [[(0, "a", 5, -2), (2, "c", 6, -3)], [(1, "z", 1, 0)]]
    assert [one["first_key"] for one in rows if one["first_key"]] == ["a", "z"]
    assert [one[ELEMENTS] for one in rows if one["__reason"]] == [None] * 6


def test_texts_of_elements_are_read_by_all(spark: SparkSession, tmp_path: Path, types_as_declared: None) -> None:
    columns = {**EXPLODE["columns"], "part": {"sql": "cast(unhex(item.sku) as string)", "type": "string"}}
    job = job_of(tmp_path, columns=columns)
    bad, good = judged(spark, job, [order(("41", 1, 1), ("FF", 1, 1)), order(("41", 1, 1))], explained=True)
    assert (bad["__reason"], bad["__flaw"]["field"]) == (UNDECODABLE, "part")
    assert good["__reason"] is None


ORACLE = """
with each as (
  select "at", position, unnest(items) as item, generate_subscripts(items, 1) as index from events
  where position not in (select position from (select position, unnest(items) as item from events)
                         where item.count <> 0 and (item.sku is null or item.count = 3))
)
select {key} as key, "at" // 60000 * 60000 as start, count(*), sum(item.count::bigint * item.cents)::bigint,
  first(item.count::bigint * item.cents order by "at", index),
  last(item.count::bigint * item.cents order by "at", index)
from each where item.count <> 0 group by all
"""


@pytest.mark.slow
@pytest.mark.parametrize("key", ["sku", ["shop", "sku"]])
def test_every_row_is_that_of_duckdb(broker: Any, tmp_path: Path, unique: Callable[[str], str], key: Any) -> None:
    """First and last go by the index within a record; one with a flawed element is one dead letter."""
    rng, name = random.Random(5), unique("orders")
    times = rng.sample(range(320_000), 1_200)  # so only the elements of a record have one time
    made = [
        order(
            *(
                (rng.choice(["a", "b", "c", None] if number % 20 == 0 else ["a", "b", "c"]),
                 rng.choice([0, 1, 2, 3] if number % 30 == 0 else [0, 1, 2]), rng.randrange(500))
                for _ in range(rng.randrange(4))
            ),
            at=AT + times[number],
        )
        for number in range(1_200)
    ]  # fmt: skip
    with flow(broker.cluster, job_text(name, key), tmp_path, json.dumps(SCHEMA)) as job:
        state = job.state_after(made)
        found = dead_letters(job.cluster, name)
    with duckdb.connect() as db:
        db.register("events", pa.Table.from_pylist([{**one, "position": at} for at, one in enumerate(made)]))
        shown = "item.sku" if key == "sku" else """'["a","' || item.sku || '"]'"""
        wanted = db.execute(ORACLE.format(key=shown)).fetchall()
    assert state == {
        (key_, start): {"items": count, "cents": cents, "first": first, "last": last}
        for key_, start, count, cents, first, last in wanted
    }
    flawed = [
        one
        for one in made
        if any(item["count"] != 0 and (item["sku"] is None or item["count"] == 3) for item in one["items"])
    ]
    assert len(flawed) > 10, "the fault happened"
    assert len(found.entries) == len(flawed)
    assert {one.reason for one in found.entries} == {NO_KEY, FAILED_EXPRESSION}

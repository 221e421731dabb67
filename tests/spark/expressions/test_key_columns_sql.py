"""Keys of several columns: the same bytes in Spark as in Python, and a real job's rows against DuckDB."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cutwater.core.events.key_columns import KeyColumn, key_text, key_values
from cutwater.core.events.rejection import NO_KEY
from cutwater.core.job.job import Job
from cutwater_spark.query.sql import key_text_of
from support.harness import flow
from support.rejected_events import dead_letters
from unit.adapters.job_files.test_key_columns import load

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("shared_spark")]
START_MS = 1_700_000_040_000
EVERY_ASCII = "".join(map(chr, range(160)))
TWO = (KeyColumn("airport", "string"), KeyColumn("carrier", "string"))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
pairs = st.lists(st.tuples(texts, texts), min_size=1, max_size=50)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([(EVERY_ASCII, "\u2028\u2029\ufeff\ufffd\uffff😀"), ("\\u000b", "\\\x0b"), ("", "</script>")])
@given(pairs)
def test_spark_writes_the_same_text(spark: SparkSession, tmp_path: Path, values: list[tuple[str, str]]) -> None:
    """For each pair of texts; and the text is read back as them."""
    job: Job = load(tmp_path, "[airport, carrier]")
    rows = spark.createDataFrame(values, "a string, b string").selectExpr(key_text_of(job, ["a", "b"]) + " as key")
    found = [row["key"] for row in rows.collect()]
    assert found == [key_text(one) for one in values]
    assert [tuple(key_values(one, TWO).values()) for one in found] == values


def test_a_key_of_no_column(spark: SparkSession, tmp_path: Path) -> None:
    """Is one text too."""
    job = load(tmp_path, "[]")
    assert [row[0] for row in spark.range(2).selectExpr(key_text_of(job, [])).collect()] == [key_text([])] * 2


SCHEMA = {
    "type": "record",
    "name": "Flight",
    "namespace": "test",
    "fields": [
        {"name": "airport", "type": ["null", "string"]},
        {"name": "carrier", "type": "string"},
        {"name": "number", "type": "int"},
        {"name": "cancelled", "type": "boolean"},
        {"name": "delay", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
JOB = """job: @NAME@
source:
  topic: @NAME@.events
  schema: event.avsc
  where: not cancelled
  columns:
    line: {sql: upper(carrier), type: string}
  key: @KEY@
  event_time: at
window: {kind: tumbling, size: 1m}
lateness: 1h
retention: 30d
partitions: 2
shuffle_partitions: 1
measures:
  flights: {measure: count}
  delay: {measure: sum, field: delay}
"""
ORACLE = """
select [{texts}]::varchar[] as key, "at" // 60000 * 60000 as start, count(*), sum(delay)::bigint
from events where not cancelled and {usable} group by all
"""


def flights(count: int) -> list[dict[str, Any]]:
    rng = random.Random(7)
    return [
        {
            "airport": rng.choice(["JFK", 'L"GA', "E\\WR\x0b", "é", None]),
            "carrier": rng.choice(["ua", "b6", ""]),
            "number": rng.randrange(3),
            "cancelled": rng.random() < 0.1,
            "delay": rng.randrange(-9, 90),
            "at": START_MS + rng.randrange(600_000),
        }
        for _ in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "texts"), [("[airport, line, number]", "airport, upper(carrier), number::varchar"), ("[]", "")]
)
def test_every_row_is_that_of_duckdb(
    broker: Any, tmp_path: Path, unique: Callable[[str], str], key: str, texts: str
) -> None:
    """Two fields and a computed column, or none: one row a window. A null in any column is a dead letter."""
    made = flights(1_500)
    name = unique("flights")
    with flow(
        broker.cluster, JOB.replace("@NAME@", name).replace("@KEY@", key), tmp_path, json.dumps(SCHEMA)
    ) as job:
        state = job.state_after(made)
        found = dead_letters(job.cluster, name)
    with duckdb.connect() as db:
        db.register("events", pa.Table.from_pylist(made))
        usable = "airport is not null" if texts else "true"
        wanted = db.execute(ORACLE.format(texts=texts, usable=usable)).fetchall()
    assert state == {
        (key_text(one), start): {"flights": count, "delay": delay} for one, start, count, delay in wanted
    }
    of_nowhere = [one for one in made if one["airport"] is None and not one["cancelled"]] if texts else []
    assert bool(of_nowhere) == bool(texts), "the fault happened"
    assert [(one.reason, one.field) for one in found.entries] == [(NO_KEY, "airport")] * len(of_nowhere)

"""Random schemas, expressions and events: what the driver makes of them is what DuckDB makes of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.events.rejection import FAILED_EXPRESSION
from cutwater.core.generations.source_topics import only
from cutwater.core.job.job import Job
from cutwater_spark.query.decoding import LEFT_OUT, decode
from support.events.random_jobs import AT, RandomJob, Sql, as_json, random_jobs

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("asked_here", "as_in_a_driver")]
USED, LEFT = "used", "left out"


def loaded(folder: Path, made: RandomJob) -> Job:
    (folder / "random.avsc").write_text(json.dumps(made.schema))
    written = {
        "job": "random",
        "source": {"topic": "t", "schema": "random.avsc", "key": "key", "event_time": "at", **made.source()},
        "window": {"kind": "tumbling", "size": "1h"},
        "lateness": "1h",
        "retention": "1d",
        "measures": {"events": {"measure": "count"}},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(written, sort_keys=False, width=10**6))
    return load_job(folder / "job.yaml")


def judged(spark: SparkSession, job: Job, made: RandomJob) -> list[tuple[str, dict[str, Any]]]:
    codec = Codec(made.schema)
    values = [
        codec.encode({"key": "k", "at": AT, **one}) if made.format == "avro" else as_json(one)
        for one in made.events
    ]
    sent = datetime.fromtimestamp(AT / 1000, UTC)
    rows = [("t", 0, at, sent, bytearray(one)) for at, one in enumerate(values)]
    raw = spark.createDataFrame(
        rows, "topic string, partition int, offset long, timestamp timestamp, value binary"
    ).coalesce(1)
    found = decode(raw, job, known_schemas(job, None), only("t", "local")).orderBy("offset").collect()
    return [
        (LEFT if row[LEFT_OUT] else row["__reason"] or USED, row["event"] and row["event"].asDict())
        for row in found
    ]


class Oracle:
    """DuckDB, event by event, so that an error is that of one event."""

    def __init__(self, db: duckdb.DuckDBPyConnection, made: RandomJob) -> None:
        self._db = db
        self._made = made

    def judge(self, event: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        try:
            if self._made.where is not None and self._value(event, self._made.where) is not True:
                return LEFT, {}
            return USED, {name: self._value(event, one) for name, one in self._made.columns.items()}
        except duckdb.Error:
            return FAILED_EXPRESSION, {}

    def _value(self, event: dict[str, Any], sql: Sql) -> Any:
        columns, given_ = [], []
        for one in self._made.fields:
            value = event[one.name]
            if one.form == "map" and value is not None:
                columns.append(f"map(?::varchar[], ?::{one.duck.split(', ')[1][:-1]}[]) as {one.name}")
                given_ += [list(value), list(value.values())]
            else:
                columns.append(f"?::{one.duck} as {one.name}")
                given_.append(value)
        [row] = self._db.execute(f"select {sql.duck} from (select {', '.join(columns)})", given_).fetchall()
        return row[0]


@pytest.mark.slow
def test_every_event_is_judged_as_by_duckdb(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Used with these values, left out by the condition, or a dead letter because an expression has an error."""
    told: set[str] = set()

    @settings(max_examples=150, deadline=None)
    @given(random_jobs())
    def holds(made: RandomJob) -> None:
        job = loaded(tmp_path_factory.mktemp("job"), made)
        with duckdb.connect() as db:
            oracle = Oracle(db, made)
            for event, (outcome, values) in zip(made.events, judged(spark, job, made), strict=True):
                wanted, columns = oracle.judge(event)
                assert outcome == wanted, (event, made)
                assert {name: values[name] for name in columns} == columns, (event, made)
                told.add(outcome)

    holds()
    assert told == {USED, LEFT, FAILED_EXPRESSION}


SPOILT = {
    "{0} = unknown_field": "the schema has no field 'unknown_field'",
    "({0}": "Syntax error",
    "rand() > 0 or {0} is null": "uses rand()",
    "max({0}) is null": "aggregates events",
    "no_function({0})": "uses no_function(), a function that Spark does not have",
}


@pytest.mark.parametrize("examples", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_a_spoilt_expression_is_refused_with_its_line_and_no_other(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, examples: int
) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(random_jobs(), st.data())
    def holds(made: RandomJob, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(list(made.columns)))
        form, why = data.draw(st.sampled_from(list(SPOILT.items())))
        wrong = made.columns[name]._replace(spark=form.format(made.columns[name].spark))
        folder = tmp_path_factory.mktemp("job")
        with pytest.raises(UsageError) as refused:
            loaded(folder, made._replace(columns={**made.columns, name: wrong}))
        [line] = str(refused.value).splitlines()
        lines = (folder / "job.yaml").read_text().splitlines()
        [number] = [at for at, one in enumerate(lines, 1) if one.startswith(f"    {name}:")]
        assert f"job.yaml:{number}: source.columns.{name}: {why}" in line, (line, made)

    holds()

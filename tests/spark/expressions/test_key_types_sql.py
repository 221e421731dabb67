"""Keys of every type: Spark's text is Python's, its dead letters too, and a job's rows are those of DuckDB."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cutwater.adapters.events.event_encoder import event_encoder, known_schemas
from cutwater.adapters.job_files import expressions
from cutwater.core.events.key_columns import DAYS, key_text
from cutwater.core.events.rejection import FAILED_EXPRESSION, NO_KEY, UNDECODABLE, Flaw
from cutwater.core.generations.source_topics import only
from cutwater.core.job.job import Job
from cutwater.operations.event_sample import judge_records
from cutwater.operations.topic_sample import Sample
from cutwater_spark.query.decoding import decode, record_key
from support.harness import flow
from support.rejected_events import dead_letters
from unit.adapters.job_files.test_key_types import COLUMNS, EVENT, load

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("as_in_a_driver"),
    pytest.mark.usefixtures("shared_spark"),
]
AT = 1_700_000_000_000
EVERY = "[flag, day, id, again, price, huge, tiny, name]"
"""`again` refers to the enum that another field defines."""
Outcome = tuple[str | None, str | None, str | None]
"""Reason and field of a dead letter, else the key."""


def unscaled(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    numbers = st.integers(-most, most) | st.sampled_from([0, 1, -1, most, -most])
    return numbers.map(lambda one: Decimal((int(one < 0), Decimal(abs(one)).as_tuple().digits, -scale)))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "day": st.dates(),
    "id": st.binary(min_size=16, max_size=16),
    "written": st.uuids().map(lambda one: str(one).upper()),
    "again": st.sampled_from(["first", "second"]),
    "price": unscaled(9, 2),
    "huge": unscaled(38, 10),
    "tiny": unscaled(38, 38),
    "name": st.text(st.characters(exclude_categories=["Cs"]), max_size=9) | st.sampled_from(["null", "[null]"]),
    "number": st.integers(-(2**31), 2**31 - 1),
}
DAYS_OF_AVRO = (
    st.integers(-(2**31), 2**31 - 1) | st.integers(DAYS[0] - 2, DAYS[0]) | st.integers(DAYS[1], DAYS[1] + 2)
)


def events(**others: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    each = {name: st.none() | one for name, one in {**VALUES, **others}.items()}
    return st.lists(st.fixed_dictionaries(each), min_size=1, max_size=40)


_EDGES: dict[str, list[Any]] = {
    "day": [date.min, date(1582, 10, 4), date(1582, 10, 10), date(1582, 10, 15), date(1900, 2, 28), date.max],
    "price": [Decimal("-0.00"), Decimal("0.01"), Decimal("-9999999.99")],
    "huge": [Decimal("0E-10"), Decimal("1E-10"), Decimal("9" * 28), Decimal("-" + "9" * 28 + "." + "9" * 10)],
    "tiny": [Decimal("0E-38"), Decimal("-1E-38"), Decimal("0." + "9" * 38)],
    "id": [bytes(16), bytes([255] * 16), bytes(range(16))],
    "flag": [True, False, None],
    "name": ["", "null", "[null]", '"', "\x01\x1f\\u000b"],
}
EDGES: list[dict[str, Any]] = [
    {**dict.fromkeys(VALUES), name: value} for name, values in _EDGES.items() for value in values
]


def values_of(job: Job, made: list[dict[str, Any]]) -> list[bytes]:
    encode, fields = event_encoder(job, None), {one["name"] for one in job.event_schema["fields"]}
    given_ = {name: value for name, value in EVENT.items() if name in fields}
    return [encode({**given_, **one}) for one in made]


def of_python(job: Job, values: Sequence[bytes]) -> list[Outcome]:
    samples = [Sample(0, at, AT, None, one, 0) for at, one in enumerate(values)]
    found = [one for _, one in judge_records(job, samples, known_schemas(job, None))]
    return [
        (one.reason, one.field, None) if isinstance(one, Flaw) else (None, None, job.key_of(one)) for one in found
    ]


def of_spark(spark: SparkSession, job: Job, values: Sequence[bytes]) -> list[Outcome]:
    written = datetime.fromtimestamp(AT / 1000, UTC)
    rows = [("t", 0, at, written, bytearray(one)) for at, one in enumerate(values)]
    names = "topic string, partition int, offset long, timestamp timestamp, value binary"
    raw = spark.createDataFrame(rows, names).coalesce(1)
    frame = decode(raw, job, known_schemas(job, None), only("t", "local"), explained=True)
    key = f"case when event is not null then {record_key(job)} end as found"
    found = frame.selectExpr("offset", "__reason", "__flaw.field as field", key).orderBy("offset").collect()
    return [(one["__reason"], one["field"], one["found"]) for one in found]


SETTINGS = settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@SETTINGS
@example(EDGES)
@example([{**EDGES[0], "day": days} for days in (*DAYS, DAYS[0] - 1, DAYS[1] + 1, 2**31 - 1, -(2**31))])
@given(events(day=DAYS_OF_AVRO))
def test_spark_and_python_judge_and_name_avro_events_alike(
    spark: SparkSession, tmp_path: Path, made: list[dict[str, Any]]
) -> None:
    """Each type and null; days of any year, of which those beyond the bounds are dead letters."""
    job = load(tmp_path, EVERY, "group", nullable=True)
    values = values_of(job, made)
    assert of_spark(spark, job, values) == of_python(job, values)


@pytest.mark.slow
@SETTINGS
@example(EDGES)
@given(events())
def test_spark_and_python_name_json_events_alike(
    spark: SparkSession, tmp_path: Path, made: list[dict[str, Any]]
) -> None:
    """The same texts from JSON; and a null is a dead letter by default."""
    made = [{name: value for name, value in one.items() if name != "name" or value is not None} for one in made]
    for nulls in ("group", "reject"):
        job = load(tmp_path, EVERY, nulls, "json", nullable=True)
        values = values_of(job, made)
        found = of_spark(spark, job, values)
        assert found == of_python(job, values)
        if nulls == "reject":
            assert {one[0] for one in found} <= {NO_KEY, None}


@pytest.mark.parametrize("column", ["flag", "day", "id", "tiny"])
def test_a_key_of_one_column_is_plain_text(spark: SparkSession, tmp_path: Path, column: str) -> None:
    """The same as in a list, without its quotes; a null is a dead letter."""
    job, listed = (load(tmp_path, key, nullable=True) for key in (column, f"[{column}]"))
    made = [{**one, column: one[column] if one[column] is not None else EVENT[column]} for one in EDGES]
    values = values_of(job, [*made, {column: None}])
    *alone, nothing = of_spark(spark, job, values)
    assert nothing == (NO_KEY, column, None)
    assert [*alone, nothing] == of_python(job, values)
    assert [key_text([key]) for _, _, key in alone] == [key for _, _, key in of_spark(spark, listed, values[:-1])]


@pytest.fixture
def types_as_declared() -> Iterator[None]:
    """Spark's check of the expressions, which is not what is tested here, would take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expressions, "find_spec", lambda _name: None)
        yield


@pytest.mark.usefixtures("types_as_declared")
def test_computed_dates_and_uuids(spark: SparkSession, tmp_path: Path) -> None:
    """A date of a time; a text that is a UUID in any case, and any other text as a dead letter."""
    columns = COLUMNS.replace("to_date(seen)", "'date_add(to_date(seen), number)'")
    job = load(tmp_path, "[born, one]", "group", nullable=True, columns=columns)
    one = "01234567-89ab-cdef-0123-456789abcdef"
    made: list[dict[str, Any]] = [
        {"written": one.upper(), "seen": 1_357_603_200_000_000, "number": 0},
        {"written": None, "seen": None, "number": 0},
        {"written": f"{one}\n", "seen": 0, "number": 0},
        {"written": one.replace("-", ""), "seen": 0, "number": 0},
        {"written": one, "seen": 0, "number": DAYS[1]},
        {"written": one, "seen": 0, "number": DAYS[1] + 1},
        {"written": one, "seen": 86_400_000_000, "number": 2**31 - 1},
    ]
    *usable, beyond = of_spark(spark, job, values_of(job, made))
    assert usable == [
        (None, None, f'["2013-01-08","{one}"]'),
        (None, None, "[null,null]"),
        (UNDECODABLE, "one", None),
        (UNDECODABLE, "one", None),
        (None, None, f'["9999-12-31","{one}"]'),
        (UNDECODABLE, "born", None),
    ]
    # Spark's date_add wraps around silently: either way it is no key.
    assert beyond[0] in (UNDECODABLE, FAILED_EXPRESSION)


FIELDS: dict[str, Any] = {
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
    "day": {"type": "int", "logicalType": "date"},
    "cancelled": ["null", "boolean"],
    "carrier": ["null", "string"],
    "id": {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"},
    "delay": "long",
    "at": {"type": "long", "logicalType": "timestamp-millis"},
}
JOB = """job: @NAME@
source:
  topic: @NAME@.events
  schema: event.avsc
  columns:
    line: {sql: upper(carrier), type: string}
  key: [price, day, cancelled, line, id]
  null_key: @NULLS@
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
select [price::varchar, day::varchar, cancelled::varchar, upper(carrier), id::uuid::varchar] as key,
       "at" // 60000 * 60000 as start, count(*), sum(delay)::bigint
from events where {usable} group by all
"""


def flights(count: int) -> list[dict[str, Any]]:
    rng = random.Random(8)
    prices = [Decimal(one).scaleb(-3) for one in (0, 1, -5, 10**20 - 1, -(10**20) + 1)]
    return [
        {
            "price": rng.choice(prices),
            "day": rng.choice([date.min, date.max, date(1582, 10, 9) + timedelta(rng.randrange(2))]),
            "cancelled": rng.choice([True, False, None]),
            "carrier": rng.choice(["UA", "null", "", None]),
            "id": uuid.UUID(int=rng.randrange(2)).bytes,
            "delay": rng.randrange(-9, 90),
            "at": AT // 60_000 * 60_000 + rng.randrange(180_000),
        }
        for _ in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("nulls", ["group", "reject"])
def test_every_row_is_that_of_duckdb(
    broker: Any, tmp_path: Path, unique: Callable[[str], str], nulls: str
) -> None:
    """Decimals, dates, booleans, UUIDs and nulls, which are keys of their own or dead letters."""
    made, name = flights(1_500), unique("typed")
    fields = [{"name": one, "type": type_} for one, type_ in FIELDS.items()]
    schema = json.dumps({"type": "record", "name": "Flight", "namespace": "test", "fields": fields})
    with flow(broker.cluster, JOB.replace("@NAME@", name).replace("@NULLS@", nulls), tmp_path, schema) as job:
        state = job.state_after(made)
        found = dead_letters(job.cluster, name)
    table = pa.Table.from_pylist([{**one, "id": one["id"].hex()} for one in made])
    usable = "true" if nulls == "group" else "cancelled is not null and carrier is not null"
    with duckdb.connect() as db:
        db.register("events", table)
        wanted = db.execute(ORACLE.format(usable=usable)).fetchall()
    assert state == {
        (key_text(one), start): {"flights": count, "delay": delay} for one, start, count, delay in wanted
    }
    nothing = [one for one in made if one["cancelled"] is None or one["carrier"] is None]
    assert len(found.entries) == (0 if nulls == "group" else len(nothing))
    assert nothing, "the fault happened"

"""A user's function: what its plan may hold, and that no record is lost, multiplied or able to end the query."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files import expressions as checked_expressions
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.events.rejection import FAILED_EXPRESSION, KEY_TOO_LARGE, NO_EVENT_TIME, NO_KEY, UNDECODABLE
from cutwater.core.generations.source_topics import only
from cutwater.core.job.job import Job
from cutwater_spark.query.decoding import LEFT_OUT, decode
from cutwater_spark.tools.transform_check import check_transform

pytestmark = pytest.mark.spark
AT = 1_700_000_040_000
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Flight",
    "namespace": "test",
    "fields": [
        {"name": "code", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "a", "type": ["null", "int"]},
        {"name": "b", "type": ["null", "int"]},
    ],
}
TABLE = "code,region,tier\nJFK,east,1\nLAX,west,2\nXXX,,3\n"
BEGIN = "from pyspark.sql import DataFrame, functions as F, Window\ndef f(events, airports):\n"


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders that functions are imported from are on no other test's path."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture(autouse=True, scope="module")
def types_as_declared() -> Iterator[None]:
    """Spark's check of the expressions, which is not what is tested here, would take seconds for each job."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checked_expressions, "find_spec", lambda _name: None)
        yield


def job_of(folder: Path, body: str, columns: dict[str, str], table: str = TABLE, **source: Any) -> Job:
    (folder / "flight.avsc").write_text(json.dumps(SCHEMA))
    (folder / "airports.csv").write_text(table)
    (folder / "mine.py").write_text(f"{BEGIN}    {body}\n")
    transform = {"function": "mine:f", "columns": columns, "tables": {"airports": "airports.csv"}}
    written = {
        "job": "flights",
        "source": {
            "topic": "flights",
            "schema": "flight.avsc",
            "key": "code",
            "event_time": "at",
            "transform": transform,
            **source,
        },
        "window": {"kind": "tumbling", "size": "1h"},
        "lateness": "1h",
        "retention": "1d",
        "measures": {"flights": {"measure": "count"}},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(written))
    return load_job(folder / "job.yaml")


def event(code: str | None = "JFK", a: int | None = 1, b: int | None = 1) -> dict[str, Any]:
    return {"code": code, "at": AT, "a": a, "b": b}


def judged(spark: SparkSession, job: Job, events: list[dict[str, Any]], explained: bool = False) -> list[Any]:
    rows = [(at, bytearray(Codec(SCHEMA).encode(one))) for at, one in enumerate(events)]
    raw = spark.createDataFrame(rows, "offset long, value binary").withColumns(
        {"topic": F.lit("t"), "partition": F.lit(0), "timestamp": F.expr(f"timestamp_millis({AT}L)")}
    )
    frame = decode(raw, job, known_schemas(job, None), only("t", "local"), explained)
    return list(frame.orderBy("offset").collect())


def outcome(row: Any) -> str:
    assert (row["event"] is None) == (row["__reason"] is not None or row[LEFT_OUT])
    return "left out" if row[LEFT_OUT] else row["__reason"] or "used"


def test_joins_filters_and_columns_keep_each_record(spark: SparkSession, tmp_path: Path) -> None:
    """One row of each record, whatever the function makes of it: used, left out or a dead letter."""
    body = (
        "return (events.where('a <> 9').join(airports.where(\"region <> ''\"), 'code')"
        ".withColumn('tier', F.col('tier').cast('int')).withColumn('share', F.expr('a div b'))"
        ".where('share + (a div b) <> 14').select('region', 'tier', 'share'))"
    )
    job = job_of(tmp_path, body, {"region": "string", "tier": "int", "share": "long"}, key="region")
    events = [
        event(), event("LAX", 6, 2), event("XXX"), event("???"), event(a=9, b=0), event(a=1, b=0), event(a=7),
        event(None), event(a=None),
    ]  # fmt: skip
    rows = judged(spark, job, events, explained=True)
    assert [outcome(one) for one in rows] == [
        "used", "used", "left out", "left out", "left out", FAILED_EXPRESSION, "left out", "left out", "left out",
    ]  # fmt: skip
    assert rows[1]["event"].asDict() == {**rows[1]["event"].asDict(), "region": "west", "tier": 2, "share": 3}
    assert rows[5]["__flaw"]["field"] == "source.transform"
    assert [outcome(one) for one in judged(spark, job, events)] == [outcome(one) for one in rows]


def test_flaws_behind_the_function_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    body = (
        "return events.join(airports, 'code', 'left').withColumn('moment', F.expr('if(a = 0, null, at)'))"
        ".withColumn('note', F.expr(\"if(b = 0, cast(unhex('FF') as string), 'x')\"))"
        ".withColumn('region', F.expr(\"if(a = 4, lpad('', 5000, 'x'), region)\"))"
    )
    columns = {"moment": "timestamp", "note": "string", "region": "string"}
    job = job_of(tmp_path, body, columns, key="region", event_time="moment")
    rows = judged(spark, job, [event(), event("?"), event(a=0), event(b=0), event(a=4)], explained=True)
    assert [outcome(one) for one in rows] == ["used", NO_KEY, NO_EVENT_TIME, UNDECODABLE, KEY_TOO_LARGE]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("left_semi", ["used", "left out", "left out"]),
        ("left_anti", ["left out", "used", "used"]),
        ("left", ["used", "used", "used"]),
    ],
)
def test_kinds_of_join(spark: SparkSession, tmp_path: Path, kind: str, wanted: list[str]) -> None:
    """For semi and anti joins a key may be repeated in the table: they make no rows."""
    repeated = TABLE + ("JFK,again,4\n" if kind != "left" else "")
    job = job_of(tmp_path, f"return events.join(airports, 'code', '{kind}')", {}, repeated, null_key="group")
    rows = judged(spark, job, [event(), event("?"), event(None)])
    assert [outcome(one) for one in rows] == wanted


def test_a_query_in_sql_is_a_function_too(spark: SparkSession, tmp_path: Path) -> None:
    body = (
        'return events.sparkSession.sql("select e.*, upper(t.region) as region from {e} e left join {t} t '
        'on e.code = t.code where e.a > 0", e=events, t=airports)'
    )
    job = job_of(tmp_path, body, {"region": "string"})
    rows = judged(spark, job, [event(), event(a=-1)])
    assert [outcome(one) for one in rows] == ["used", "left out"]
    assert rows[0]["event"]["region"] == "EAST"


def test_a_filter_that_leaves_out_all_leaves_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes away what is below a condition that is false; the records are still judged."""
    job = job_of(tmp_path, "return events.where('false').join(airports.where('false'), 'code')", {})
    assert [outcome(one) for one in judged(spark, job, [event(), event()])] == ["left out"] * 2


REFUSED = {
    "events.groupBy('code').count()": "operator Aggregate: .* 'measures'",
    "events.dropDuplicates(['code'])": "operator Deduplicate.* the events that were seen",
    "events.orderBy('a')": "operator Sort: .* leave it out",
    "events.limit(5)": "operator GlobalLimit: .* the number of rows",
    "events.union(events)": "operator Union: .* source.explode",
    "events.withColumn('n', F.row_number().over(Window.partitionBy('code').orderBy('a')))": "operator Window",
    "events.withColumn('n', F.explode(F.array('a', 'b')))": "operator Generate: .* source.explode",
    "events.mapInPandas(lambda rows: rows, 'a int')": "operator MapInPandas",
    "events.withColumn('n', F.udf(lambda one: one)('code'))": "a function of your own",
    "events.withColumn('n', F.rand())": r"uses rand\(\), which may give another value",
    "events.where(F.col('at') < F.current_timestamp())": "another value when an epoch is repeated",
    "events.withColumn('n', F.expr('uuid()'))": "another value when an epoch is repeated",
    "events.withColumn('n', F.monotonically_increasing_id())": "another value when an epoch is repeated",
    "events.withColumn('n', F.input_file_name())": "another value when an epoch is repeated",
    "events.withColumn('a', F.expr('a + 1'))": "another column 'a' than the events: give it a name of its own",
    "airports": "not made of the events, but of LocalRelation",
    "events.join(airports, 'code', 'full')": "FullOuter .*; allowed: inner, left",
    "airports.join(events, 'code')": "events on its right",
    "events.crossJoin(airports)": "kind Cross",
    "events.alias('x').join(events.alias('y'), 'code')": "joins the events with events",
    "events.join(airports, F.length(events.code) == F.length(airports.code))": "only a column of the events may",
    "events.join(airports, events.a == airports.tier)": "of the same type",
    "events.join(events.sparkSession.range(3), F.col('id') == F.col('a'))": "of the same type",
    "events.join(events.sparkSession.createDataFrame([('a',)], 'code string'), 'code')": "source.transform.tables",
    "events.join(airports.groupBy('code').count(), 'code')": "joined table has the operator Aggregate",
    "events.select('nowhere')": "nowhere",
    "1": "returned int: return the DataFrame",
    "1 / 0": "raised ZeroDivisionError",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_a_function_may_not_do(spark: SparkSession, tmp_path: Path, body: str) -> None:
    job = job_of(tmp_path, f"return {body}", {})
    with pytest.raises(UsageError, match=f"^source.transform.*({REFUSED[body]})"):
        judged(spark, job, [event()])


def test_a_repeated_key_of_a_table_is_named(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of(tmp_path, "return events.join(airports, 'code')", {}, TABLE + "LAX,other,4\n")
    with pytest.raises(UsageError, match=r"several rows with code='LAX', .* join by the table's key"):
        judged(spark, job, [event()])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"regin": "string"}, "no column 'regin', which is declared; it has: "),
        ({"tier": "int"}, r"'tier' is string, and is declared as int: cast it .* \.cast\('int'\)"),
    ],
)
def test_columns_are_as_declared(spark: SparkSession, tmp_path: Path, columns: dict[str, str], said: str) -> None:
    job = job_of(tmp_path, "return events.join(airports, 'code')", columns)
    with pytest.raises(UsageError, match=said):
        judged(spark, job, [event()])


def test_a_table_that_changes_meanwhile_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of(tmp_path, "return events.join(airports, 'code')", {})
    (tmp_path / "airports.csv").write_text(TABLE.replace("east", "north"))
    with pytest.raises(UsageError, match=r"airports.csv has changed meanwhile"):
        judged(spark, job, [event()])


def test_a_function_in_an_archive_is_used(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `spark-submit --py-files` puts it on the path: the executors need none of it."""
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("packed.py", f"{BEGIN}    return events.where('a > 1')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "packed.zip"))
    job_of(tmp_path, "return events", {})
    document = yaml.safe_load((tmp_path / "job.yaml").read_text())
    document["source"]["transform"]["function"] = "packed:f"
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(document))
    rows = judged(spark, load_job(tmp_path / "job.yaml"), [event(a=1), event(a=2)])
    assert [outcome(row) for row in rows] == ["left out", "used"]


def test_doctor_finds_it_without_events(spark: SparkSession, tmp_path: Path) -> None:
    """A function that can be used, one whose plan cannot, and a table that multiplies events."""
    for name, body, table, said in (
        ("fit", "return events.join(airports, 'code')", TABLE, ""),
        ("state", "return events.distinct()", TABLE, "source.transform .*Deduplicate|Aggregate|Distinct"),
        ("table", "return events.join(airports, 'code')", TABLE + "LAX,other,4\n", "several rows with code='LAX'"),
    ):
        (tmp_path / name).mkdir()
        job = job_of(tmp_path / name, body, {"region": "string"} if not said else {}, table)
        with pytest.raises(UsageError, match=said) if said else nullcontext():
            check_transform(spark, job)


@pytest.mark.slow
def test_doctor_says_what_to_do(tmp_path: Path) -> None:
    """The command, with Spark in a process of its own."""
    for body, level, said in (
        ("return events.distinct()", "error", "source.transform (mine:f)"),
        ("return events", "ok", "mine:f can be used"),
    ):
        job_of(tmp_path, body, {})
        command = [sys.executable, "-m", "cutwater.cli.main", "doctor", str(tmp_path / "job.yaml"), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        (found,) = [one for one in json.loads(done.stdout)["findings"] if one["check"] == "transform"]
        assert (found["level"], said in found["found"]) == (level, True), found

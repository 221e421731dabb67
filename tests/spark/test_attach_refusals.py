"""What `attach` and `describe` refuse, on a real session: the message says what to do, and nothing is started."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.events.rejection import YEARS
from cutwater.core.job.job import Job
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.generation import Generation
from cutwater.publisher.encoding import JsonEncoder
from cutwater.views.query.presenter import Presenter
from cutwater_spark import session
from cutwater_spark.attach import attach, describe, dropped_of
from cutwater_spark.query.columns import readable_rows, row_columns, rows
from cutwater_spark.query.query import changelog_rows
from cutwater_spark.session import adapt

pytestmark = pytest.mark.spark
EXAMPLE = Path(__file__).parents[2] / "examples" / "attach"


def events(spark: SparkSession) -> DataFrame:
    columns = ("timestamp as at", "cast(value % 3 as string) as region", "value as cents", "array(value) as tags")
    return spark.readStream.format("rate").load().selectExpr(*columns)


def totals(spark: SparkSession) -> Any:
    return events(spark).withWatermark("at", "1 hour").groupBy(F.window("at", "10 minutes"), "region")


def values() -> list[Any]:
    total = F.sum("cents")
    return [F.count("*").alias("orders"), total.alias("cents"), F.max("cents").alias("largest")]


def good(spark: SparkSession) -> DataFrame:
    return totals(spark).agg(*values(), F.count_if(F.col("cents") > 5).alias("large"))  # type: ignore[no-any-return]


def test_describe_writes_the_example_files(spark: SparkSession, tmp_path: Path) -> None:
    """From the example's columns come the example's schema and a file that loads; a second time is refused."""
    told = {"key": "region", "size": "10m", "lateness": "1h", "retention": "30d"}
    describe(good(spark), tmp_path / "orders.yaml", job="orders", **told)
    made, shipped = load_job(tmp_path / "orders.yaml"), load_job(EXAMPLE / "orders.yaml")
    assert made.state_schema == shipped.state_schema
    assert (made.window, made.retention_ms) == (shipped.window, shipped.retention_ms)
    rows(good(spark), made, made.attached)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="exists already"):
        describe(good(spark), tmp_path / "orders.yaml", job="orders", **told)


def frames(spark: SparkSession) -> dict[str, DataFrame]:
    """By the words of the refusal."""
    found, no_watermark = totals(spark), events(spark).groupBy(F.window("at", "10 minutes"), "region")
    marked = events(spark).withWatermark("at", "1 hour")
    received = events(spark).withColumn("received", F.current_timestamp()).withWatermark("received", "1 hour")
    slid = received.groupBy(F.window("at", "10 minutes", "5 minutes"), "region")
    derived = marked.groupBy(F.window(F.expr("at + interval 1 second"), "10 minutes"), "region")
    return {
        "watermark is on 'received', but 'window' is a window of 'at'": received.groupBy(
            F.window("at", "10 minutes"), "region"
        ).agg(*values()),
        "watermark is on 'received', but 'window' is a window of 'at': ": slid.agg(*values()),
        "watermark is on 'at', but 'window' is a window of 'cast\\(at [+] ": derived.agg(*values()),
        "not streaming": spark.range(3).toDF("region"),
        "no window column": marked.groupBy("region").agg(*values()),
        "no watermark": no_watermark.agg(*values()),
        "groups by 3 columns": marked.groupBy(F.window("at", "10 minutes"), "region", "cents").agg(F.count("*")),
        "session windows": marked.groupBy(F.session_window("at", "5 minutes").alias("window"), "region").count(),
        "no aggregation": marked.select("region", F.window("at", "10 minutes")),
        "column 'tags' is array<bigint>": found.agg(F.first("tags").alias("tags")),
        "no column 'orders'": found.agg(F.count("*").alias("other")),
        "column 'orders' is not long": found.agg(F.avg("cents").alias("orders")),
        "extra are not in the schema": good(spark).withColumn("extra", F.col("orders")),
        "key column 'region' is missing": found.agg(*values()).drop("region"),
    }


def test_a_query_that_does_not_fit_is_refused(spark: SparkSession) -> None:
    """Each kind by its own words, from the plan and the columns alone: no broker is asked."""
    for said, frame in frames(spark).items():
        with pytest.raises(UsageError, match=said):
            attach(frame, EXAMPLE / "orders.yaml")


def test_a_watermark_that_went_a_long_way_is_still_the_windows(spark: SparkSession) -> None:
    """Renamed, through a union, below a window of its own name: what Spark closes windows by is not refused."""
    job = load_job(EXAMPLE / "orders.yaml")
    assert job.attached is not None
    marked = events(spark).withWatermark("at", "1 hour")
    for frame in (
        marked.withColumnRenamed("at", "moment").groupBy(F.window("moment", "10 minutes"), "region"),
        marked.union(marked).groupBy(F.window("at", "10 minutes"), "region"),
        marked.withColumn("window", F.window("at", "10 minutes")).groupBy("window", "region"),
        events(spark).withWatermark("at", "1 hour").dropDuplicates(["region", "at"])
        .groupBy(F.window("at", "10 minutes", "5 minutes"), "region"),
    ):  # fmt: skip
        rows(frame.agg(*values(), F.count("*").alias("large")), job, job.attached)


def test_the_session_is_made_fit(spark: SparkSession) -> None:
    """Kafka leaves the list of V1 sources, and Spark's default state store gives way to RocksDB."""
    spark.conf.unset("spark.sql.sources.useV1SourceList")
    assert "kafka" in str(spark.conf.get("spark.sql.sources.useV1SourceList"))
    adapt(spark)
    assert str(spark.conf.get("spark.sql.sources.useV1SourceList")) == "avro,csv,json,orc,parquet,text"
    assert "RocksDB" in str(spark.conf.get("spark.sql.streaming.stateStore.providerClass"))


@pytest.mark.slow
def test_a_wrong_window_or_a_null_key_ends_the_query_with_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    """The file says 10 minutes: rows of other windows never reach the changelog, nor do rows without a key."""
    job = load_job(Path(shutil.copytree(EXAMPLE, tmp_path / "example")) / "orders.yaml")
    assert job.attached is not None
    marked = events(spark).withWatermark("at", "1 hour")
    hours = marked.groupBy(F.window("at", "1 hour"), "region")
    nameless = marked.withColumn("region", F.lit(None).cast("string")).groupBy(
        F.window("at", "10 minutes"), "region"
    )
    damaged = marked.withColumn("region", F.expr("cast(X'FF31' as string)"))
    huge = marked.withColumn("region", F.expr("repeat('k', 5000)"))
    ten = F.window("at", "10 minutes")
    for number, (said, grouped) in enumerate(
        (
            ("windows of 600000 ms", hours),
            ("region is null", nameless),
            ("not UTF-8", damaged.groupBy(ten, "region")),
            ("more than 4096 bytes", huge.groupBy(ten, "region")),
        )
    ):
        made = rows(grouped.agg(*values(), F.count("*").alias("large")), job, job.attached)
        query = made.writeStream.outputMode("update").format("noop")
        started = query.option("checkpointLocation", str(tmp_path / str(number))).start()
        with pytest.raises(Exception, match=said):
            started.awaitTermination(60)


RANGES: dict[str, tuple[Any, list[str]]] = {
    "flag": ("boolean", ["true", "false"]),
    "tiny": ("int", ["tinyint(-128)", "tinyint(127)"]),
    "short": ("int", ["smallint(-32768)", "smallint(32767)"]),
    "small": ("int", ["-2147483648", "2147483647"]),
    "big": ("long", ["-9223372036854775807L - 1L", "9223372036854775807L"]),
    "half": ("float", [f"float('{one}')" for one in ("NaN", "Infinity", "-Infinity", "3.4e38", "1e-45")]),
    "ratio": ("double", [f"double('{one}')" for one in ("NaN", "Infinity", "-Infinity", "1.7e308", "5e-324")]),
    "label": ("string", ["''", "'\\u0000'", "'\\U0010ffff'", "repeat('x', 70000)"]),
    "moment": (
        {"type": "long", "logicalType": "timestamp-micros"},
        ["timestamp_micros(-62135596800000000L)", "timestamp_micros(253402300799999999L)"],
    ),
    **{
        f"d{precision}_{scale}": (
            {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale},
            [f"cast('{sign}{'9' * precision}e-{scale}' as decimal({precision},{scale}))" for sign in ("", "-")],
        )
        for precision, scale in ((1, 0), (9, 9), (18, 2), (38, 0), (38, 38))
    },
}
"""The whole range of each type that a column may have: Avro's, and values as SQL."""
WINDOW = "named_struct('start', timestamp_millis({0}L), 'end', timestamp_millis({0}L + 600000L)) as window"
AT = 1_700_000_000_000


def ranged(folder: Path) -> Job:
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, (kind, _) in RANGES.items()]
    (folder / "s.avsc").write_text(json.dumps({"type": "record", "name": "S", "fields": fields}), encoding="utf-8")
    (folder / "j.yaml").write_text(
        "job: a\nattached: {key: region, schema: s.avsc}\nwindow: {kind: tumbling, size: 10m}\n"
        "lateness: 1h\nretention: 30d\n",
        encoding="utf-8",
    )
    return load_job(folder / "j.yaml")


def written(spark: SparkSession, job: Job, columns: dict[str, str], window: int = AT) -> list[Any]:
    """The changelog's keys and values of one row with these columns, the others NULL."""
    assert job.attached is not None
    checked = one_row(spark, columns, window).selectExpr(*row_columns(job, job.attached))
    header = Codec(job.state_schema).header
    return changelog_rows(checked, job, Writer(Generation(1, "local"), 1, 1), header).collect()


def one_row(spark: SparkSession, columns: dict[str, str], window: int = AT) -> DataFrame:
    types = {name: spark.sql(f"select {sql[0]} as x").schema[0].dataType.simpleString()
             for name, (_, sql) in RANGES.items()}  # fmt: skip
    row = [f"{columns.get(name, f'cast(null as {kind})')} as {name}" for name, kind in types.items()]
    return spark.range(1).selectExpr("'k' as region", WINDOW.format(window), *row)


def test_what_stands_on_the_changelog_can_be_read_back(spark: SparkSession, tmp_path: Path) -> None:
    """Each allowed type at both ends of its range, and NULL: by the view, and as JSON."""
    job = ranged(tmp_path)
    presenter, encoder = Presenter(job), JsonEncoder(job)
    encoder.begin(1, "update")
    for at in range(5):
        columns = {name: sql[at % len(sql)] for name, (_, sql) in RANGES.items()}
        (row,) = written(spark, job, {} if at == 4 else columns)
        shown = presenter.values(bytes(row["value"]))
        assert all((shown[name] is None) == (at == 4) for name in RANGES)
        assert is_readable(job, one_row(spark, {} if at == 4 else columns))
        json.loads(encoder.value(bytes(row["key"]), bytes(row["value"])))


@pytest.mark.parametrize(
    ("columns", "window", "said"),
    [
        ({"moment": "timestamp_micros(-62135596800000001L)"}, AT, "moment has a time outside the years 1 to 99"),
        ({"moment": "timestamp_micros(253402300800000000L)"}, AT, "moment has a time outside the years 1 to 99"),
        (
            {"moment": "timestamp_micros(9223372036854775807L)"},
            AT,
            "moment has a time outside the years 1 to 9999",
        ),
        ({"label": "cast(X'FF31' as string)"}, AT, "label has a text that is not UTF-8"),
        ({"label": "repeat('x', 3000000)"}, AT, "label has a text of more than 27"),
        ({}, YEARS[0] // 1_000 - 1, "window has a time outside the years 200 to 9799"),
        ({}, YEARS[1] // 1_000 + 1, "window has a time outside the years 200 to 9799"),
    ],
)
def test_what_nobody_could_read_back_ends_the_query_before(
    spark: SparkSession, tmp_path: Path, columns: dict[str, str], window: int, said: str
) -> None:
    """One microsecond, or one text, beyond: the row is never written, and the reason names the column.

    Such a row, and no other one, may be dropped instead.
    """
    with pytest.raises(Exception, match=said):
        written(spark, ranged(tmp_path), columns, window)
    assert not is_readable(ranged(tmp_path), one_row(spark, columns, window))


def is_readable(job: Job, row: DataFrame) -> bool:
    assert job.attached is not None
    return row.filter(readable_rows(job, job.attached)).count() == 1


@pytest.mark.slow
def test_rows_that_nobody_could_read_are_dropped_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    """With `unreadable: drop` a query goes on with the other rows: keys that are null, no text, or too long."""
    job = load_job(Path(shutil.copytree(EXAMPLE, tmp_path / "example")) / "orders.yaml")
    text = (tmp_path / "example/orders.yaml").read_text()
    (tmp_path / "example/orders.yaml").write_text(text.replace("attached: {", "attached: {unreadable: drop, "))
    again = load_job(tmp_path / "example/orders.yaml")
    assert again.attached is not None
    assert again.attached.drops_unreadable
    assert again.definition == job.definition, "it may be set while the job runs"
    (tmp_path / "events").mkdir()
    lines = [{"region": f"r{number % 5}", "cents": number} for number in range(100)]
    (tmp_path / "events/one.json").write_text("\n".join(map(json.dumps, lines)))
    region = F.expr(
        "case region when 'r0' then cast(X'FF31' as string) when 'r1' then repeat('k', 5000) when 'r2' then null "
        "else region end"
    )
    made = (
        spark.readStream.schema("region string, cents long").json(str(tmp_path / "events"))
        .withColumns({"region": region, "at": F.timestamp_seconds(F.lit(1_700_000_000))})
        .withWatermark("at", "1 hour").groupBy(F.window("at", "10 minutes"), "region")
        .agg(*values(), F.count("*").alias("large"))
    )  # fmt: skip
    found: list[tuple[dict[str, int], int]] = []

    def keep(batch: DataFrame, _epoch: int) -> None:
        orders = {row["__key"]: row["orders"] for row in batch.collect()}
        (running,) = spark.streams.active
        execution: Any = running._jsq.streamingQuery().lastExecution()  # type: ignore[attr-defined]
        found.append((orders, dropped_of(execution)))

    query = rows(made, again, again.attached).writeStream.outputMode("update").foreachBatch(keep)
    started = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert started.awaitTermination(120)
    assert found[0] == ({"r3": 20, "r4": 20}, 3)


def test_a_checkpoint_in_an_object_store(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the connector it is refused; with it, the store is reached as set, and no key goes to executors."""
    with pytest.raises(UsageError, match="no S3 connector"):
        attach(good(spark), EXAMPLE / "orders.yaml", checkpoint="s3a://bucket/orders")
    hadoop = spark._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.secret.key", "from the environment")
    monkeypatch.setattr(session, "_CONNECTOR", "org.apache.hadoop.fs.LocalFileSystem")
    settings = load_settings({"CUTWATER_S3_ENDPOINT": "http://store:9000"})
    session.reach_checkpoint(spark, settings, "s3a://bucket/orders")
    assert hadoop.get("fs.s3a.endpoint") == "http://store:9000"
    assert hadoop.get("fs.s3a.path.style.access") == "true"
    assert hadoop.get("fs.s3a.secret.key") is None
    assert "Anonymous" not in str(hadoop.get("fs.s3a.aws.credentials.provider"))
    anonymous = load_settings({"CUTWATER_S3_ANONYMOUS": "true"})
    session.reach_checkpoint(spark, anonymous, "s3a://bucket/orders")
    assert "Anonymous" in hadoop.get("fs.s3a.aws.credentials.provider")

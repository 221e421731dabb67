"""What `attach` and `describe` refuse, on a real session: the message says what to do, and nothing is started."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.jobfile import load_job
from cutwater.adapters.settings import load_settings
from cutwater.core.errors import UsageError
from cutwater_spark import session
from cutwater_spark.attach import attach, describe
from cutwater_spark.columns import rows
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
        "watermark stands on 'received', and 'window' is a window of 'at'": received.groupBy(
            F.window("at", "10 minutes"), "region"
        ).agg(*values()),
        "watermark stands on 'received', and 'window' is a window of 'at': ": slid.agg(*values()),
        "watermark stands on 'at', and 'window' is a window of 'cast\\(at [+] ": derived.agg(*values()),
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

"""The aggregation as one streaming DataFrame: native expressions only, no Python per row.

events -> decode -> watermark -> windows -> group by (window, key) -> partials -> changelog rows
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.avro import Codec
from cutwater.adapters.cluster import Cluster
from cutwater.core.formats import WriterSchema
from cutwater.core.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.proof import Writer
from cutwater_spark.formats import with_events
from cutwater_spark.sql import text

INPUT_METRICS = "cutwater_input"
"""Name of the observation on the input: events read, events rejected."""


def kafka_options(cluster: Cluster) -> dict[str, str]:
    """A cluster's settings as options of Spark's Kafka source and sink."""
    return {f"kafka.{name}": value for name, value in cluster.jvm().items()}


def read_events(spark: SparkSession, job: Job, cluster: Cluster) -> DataFrame:
    """The source topic from its beginning; Spark's checkpoint holds the position afterwards."""
    return (
        spark.readStream.format("kafka")
        .options(**kafka_options(cluster))
        .option("subscribe", job.topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        # Spark's default reads aborted records.
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", job.max_events_per_epoch)
        .load()
    )


def decode(raw: DataFrame, job: Job, origin: str, known: Sequence[WriterSchema]) -> DataFrame:
    """Events as columns, beside their place in the source; what cannot be used is counted and left out.

    `known` are the schemas that events may be written with.
    """
    placed = with_events(raw.select("value", "partition", "offset", "timestamp"), job, known).select(
        "event.*",
        F.col(f"event.{job.key_field}").cast("string").alias("__key"),
        F.col(f"event.{job.time_field}").alias("__event_time"),
        F.lit(origin).alias("__origin"),
        F.col("partition").alias("__partition"),
        F.col("offset").alias("__offset"),
        F.col("timestamp").alias("__written"),
    )
    # One event of the far future would make every later one late, for ever.
    ahead = F.col("__event_time") > F.col("__written") + F.expr(
        f"make_dt_interval(0, 0, 0, {job.max_ahead_ms / 1000})"
    )
    usable = F.col("__key").isNotNull() & F.col("__event_time").isNotNull() & ~ahead
    return placed.observe(
        INPUT_METRICS,
        F.count(F.lit(1)).alias("events"),
        F.count_if(~F.coalesce(usable, F.lit(False))).alias("rejected"),
    ).filter(usable)


def aggregate(events: DataFrame, job: Job) -> DataFrame:
    """One row per (key, window) with its partials."""
    window = F.window("__event_time", f"{job.window.size_ms} milliseconds", f"{job.window.slide_ms} milliseconds")
    partials = [partial for measure in job.measures for partial in measure.partials]
    return (
        events.withWatermark("__event_time", f"{job.lateness_ms} milliseconds")
        .select(window.alias("__window"), "*")
        .groupBy("__window", "__key")
        .agg(*(F.expr(partial.over_events).alias(partial.column) for partial in partials))
    )


def changelog_rows(aggregates: DataFrame, job: Job, writer: Writer) -> DataFrame:
    """The records to write: key and value in Avro single-object encoding, the shard's partition, headers."""
    return aggregates.selectExpr(*row_expressions(job, writer))


def row_expressions(job: Job, writer: Writer) -> list[str]:
    """Those columns as SQL: as Column objects they took a hundred calls to the JVM, 60 ms an epoch."""
    names = ", ".join(f"`{partial.column}`" for measure in job.measures for partial in measure.partials)
    key = "named_struct('key', __key, 'window_start', __window.start, 'window_end', __window.end)"
    return [
        f"{_single_object(key, Codec(WINDOW_KEY_SCHEMA))} as key",
        f"{_single_object(f'struct({names})', Codec(job.state_schema))} as value",
        f"{job.shards.partition_sql('__key')} as partition",
        f"{_headers(writer)} as headers",
    ]


def _single_object(record: str, codec: Codec) -> str:
    return f"concat(X'{codec.header.hex()}', to_avro({record}, {text(json.dumps(codec.schema))}))"


def _headers(writer: Writer) -> str:
    headers = {"generation": writer.generation, "attempt": writer.attempt, "epoch": writer.epoch}
    one = "named_struct('key', {}, 'value', cast({} as binary))"
    return f"array({', '.join(one.format(text(name), text(str(value))) for name, value in headers.items())})"

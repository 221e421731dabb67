"""The aggregation as one streaming DataFrame: native expressions only, no Python per row.

events -> decode -> watermark -> windows -> group by (window, key) -> partials -> changelog rows
"""

from __future__ import annotations

import json

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro

from cutwater.adapters.avro import HEADER_BYTES, Codec
from cutwater.core.generations import Generation
from cutwater.core.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.proof import Writer

INPUT_METRICS = "cutwater_input"
"""Name of the observation on the input: events read, events rejected."""

ROW_COLUMNS = ("key", "value", "partition", "headers")


def read_events(spark: SparkSession, job: Job, bootstrap: str) -> DataFrame:
    """The source topic from its beginning; Spark's checkpoint holds the position afterwards."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", job.topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        # Spark's default reads aborted records.
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", job.max_events_per_epoch)
        .load()
    )


def decode(raw: DataFrame, job: Job, origin: str) -> DataFrame:
    """Events as columns, beside their place in the source; what cannot be used is counted and left out."""
    header = Codec(job.event_schema).header
    body = F.expr(f"substring(value, {HEADER_BYTES + 1})")
    event = F.when(
        F.expr(f"substring(value, 1, {HEADER_BYTES}) = X'{header.hex()}'"),
        from_avro(body, json.dumps(job.event_schema), {"mode": "PERMISSIVE"}),
    )
    placed = raw.select(event.alias("event"), "partition", "offset").select(
        "event.*",
        F.col(f"event.{job.key_field}").cast("string").alias("__key"),
        F.col(f"event.{job.time_field}").alias("__event_time"),
        F.lit(origin).alias("__origin"),
        F.col("partition").alias("__partition"),
        F.col("offset").alias("__offset"),
    )
    usable = F.col("__key").isNotNull() & F.col("__event_time").isNotNull()
    return placed.observe(
        INPUT_METRICS, F.count(F.lit(1)).alias("events"), F.count_if(~usable).alias("rejected")
    ).filter(usable)


def aggregate(events: DataFrame, job: Job) -> DataFrame:
    """One row per (key, window) with its partials."""
    window = F.window("__event_time", f"{job.window.size_ms} milliseconds", f"{job.window.slide_ms} milliseconds")
    partials = [partial for measure in job.measures for partial in measure.partials]
    return (
        events.withWatermark("__event_time", f"{job.lateness_ms} milliseconds")
        .select(window.alias("window"), "*")
        .groupBy("window", "__key")
        .agg(*(F.expr(partial.over_events).alias(partial.column) for partial in partials))
    )


def changelog_rows(aggregates: DataFrame, job: Job, writer: Writer) -> DataFrame:
    """The records to write: key and value in Avro single-object encoding, the shard's partition, headers."""
    key = F.struct(
        F.col("__key").alias("key"),
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
    )
    columns = [partial.column for measure in job.measures for partial in measure.partials]
    return aggregates.select(
        _single_object(key, Codec(WINDOW_KEY_SCHEMA)).alias("key"),
        _single_object(F.struct(*columns), Codec(job.state_schema)).alias("value"),
        F.expr(job.shards.partition_sql("__key")).alias("partition"),
        _headers(writer).alias("headers"),
    )


def _single_object(record: Column, codec: Codec) -> Column:
    return F.concat(F.expr(f"X'{codec.header.hex()}'"), to_avro(record, json.dumps(codec.schema)))


def _headers(writer: Writer) -> Column:
    def header(name: str, value: Generation | int) -> Column:
        return F.struct(F.lit(name).alias("key"), F.lit(str(value)).cast("binary").alias("value"))

    return F.array(
        header("generation", writer.generation),
        header("attempt", writer.attempt),
        header("epoch", writer.epoch),
    )

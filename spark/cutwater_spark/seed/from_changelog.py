"""The parent's state at a milestone, from its changelog to files, in one batch of native expressions."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES
from cutwater.core.generations.seed_check import SeedCounts
from cutwater.core.job.job import PLAIN_KEY_SCHEMA, WINDOW_KEY_SCHEMA, Job
from cutwater.core.job.measures import SEED
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, Writer, header_prefix
from cutwater.core.protocol.records import Milestone
from cutwater_spark.query.query import EARLIEST
from cutwater_spark.query.sql import binary, kafka_options, text
from cutwater_spark.seed.changed_rows import changed_seeds, is_kept
from cutwater_spark.seed.parent import Seeding


def write_seed(
    spark: SparkSession, cluster: Cluster, seeding: Seeding, parent: Milestone, folder: str
) -> SeedCounts:
    """Write the rows above the horizon as Parquet: key, window, and a struct of the partials."""
    job, change = seeding.before, seeding.change
    counted = Observation("cutwater_seed")
    # Observed above the grouping and below the filter: rows outside the state are proved, too.
    is_seed = f"newest.value is not null and {is_kept(change, parent)}"
    rows = _newest(_records(spark, cluster, parent), job, parent).observe(counted, *_counts(job, parent, is_seed))
    write_rows(spark, rows.where(is_seed), seeding, folder)
    return SeedCounts(**counted.get)


def write_rows(spark: SparkSession, rows: DataFrame, seeding: Seeding, folder: str) -> None:
    """Write rows with key and window in `at` and the value in `body`, of the parent's job, as seeds."""
    # Parquet's older time types could not hold an early time of a measure.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED")
    read = rows.selectExpr("at", f"{_avro('body', seeding.before.state_schema)} as `{SEED}`")
    made = read.selectExpr(*changed_seeds(seeding.change, seeding.after.state_schema))
    made.write.mode("overwrite").parquet(folder)


def read_seed(spark: SparkSession, folder: str) -> DataFrame:
    """Return the seed as a stream; its first epoch reads all of it."""
    return spark.readStream.schema(spark.read.parquet(folder).schema).parquet(folder)


def _records(spark: SparkSession, cluster: Cluster, parent: Milestone) -> DataFrame:
    ends: dict[str, dict[str, int]] = {}
    for place, end in parent.changelog_cut:
        ends.setdefault(place.topic, {})[str(place.partition)] = end
    firsts = {topic: dict.fromkeys(parts, EARLIEST) for topic, parts in ends.items()}
    raw = (
        spark.read.format("kafka")
        .options(**kafka_options(cluster))
        .option("assign", json.dumps({topic: [int(one) for one in parts] for topic, parts in ends.items()}))
        .option("startingOffsets", json.dumps(firsts))
        .option("endingOffsets", json.dumps(ends))
        .option("failOnDataLoss", "true")
        # A copy is written in transactions; an aborted one below the cut may hold rows of later epochs.
        .option("kafka.isolation.level", "read_committed")
        .option("includeHeaders", "true")
        .load()
    )
    writer = f"get(filter(headers, one -> one.key = {text(WRITER_HEADER)}), 0).value"
    return raw.selectExpr("key", "value", "offset", f"coalesce({writer}, X'') as writer")


def _newest(records: DataFrame, job: Job, parent: Milestone) -> DataFrame:
    """Return one row per key: its newest value, and its value of the milestone's epoch, if any.

    A key stays in one partition for the whole generation, so its offsets are ordered.
    """
    own = binary(Writer(parent.generation, parent.attempt, parent.epoch).header)
    foreign = f"value is not null and not startswith(writer, {binary(header_prefix(parent.generation))})"
    parts = [f"try_cast(split(string(writer), '/')[{at}] as bigint)" for at in (2, 1)]
    when = f"struct({', '.join(parts)})"
    last = f"struct({parent.epoch}L, {parent.attempt}L)"
    later = f"startswith(writer, {binary(header_prefix(parent.generation))}) and {when} > {last}"
    aggregates = [
        "count(1) as records",
        f"count_if({foreign}) as foreign",
        f"count_if({later}) as later",
        "max(struct(offset, value)) as newest",
        f"max(struct(offset, value)) filter (where writer = {own}) as own",
    ]
    framed_key = Codec(WINDOW_KEY_SCHEMA).header
    plain_key = _avro(f"substring(key, {len(framed_key) + 1})", PLAIN_KEY_SCHEMA)
    return (
        records.groupBy("key")
        .agg(*(F.expr(one) for one in aggregates))
        .selectExpr("*", f"case when startswith(key, {binary(framed_key)}) then {plain_key} end as at")
        .selectExpr("*", f"{body_of('newest.value', job)} as body")
    )


def body_of(value: str, job: Job) -> str:
    """Return a changelog's value without its header, SQL; both kinds of headers occur. NULL for any other."""
    framed = Codec(job.state_schema).header
    return (
        f"case when startswith({value}, {binary(framed)}) then substring({value}, {len(framed) + 1}) "
        f"when startswith({value}, X'00') and octet_length({value}) >= {CONFLUENT_HEADER_BYTES} "
        f"then substring({value}, {CONFLUENT_HEADER_BYTES + 1}) end"
    )


def other_windows(job: Job) -> str:
    """Count the rows of windows that are not the job's, as SQL."""
    size, slide = job.row_windows.size_ms, job.row_windows.slide_ms
    return f"count_if(at.window_end - at.window_start != {size}L or pmod(at.window_start, {slide}L) != 0L)"


def _counts(job: Job, parent: Milestone, is_seed: str) -> list[Any]:
    counts = {
        "records": "coalesce(sum(records), 0L)",
        "foreign": "coalesce(sum(foreign), 0L)",
        "later": "coalesce(sum(later), 0L)",
        "own_rows": "count(own)",
        "own_digest": "coalesce(bit_xor(if(own is null, 0L, xxhash64(key, own.value))), 0L)",
        "unreadable": "count_if(at is null or (newest.value is not null and body is null))",
        "other_windows": other_windows(job),
        "deleted": f"count_if(newest.value is null and at.window_end > {parent.horizon_ms}L)",
        "seeds": f"count_if({is_seed})",
    }
    return [F.expr(f"{sql} as {name}") for name, sql in counts.items()]


def _avro(body: str, schema: dict[str, Any]) -> str:
    return f"from_avro({body}, {text(json.dumps(schema))}, map('mode', 'FAILFAST'))"

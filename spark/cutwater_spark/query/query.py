"""The aggregation as one streaming DataFrame: native expressions only, no Python per row.

events -> decode -> watermark -> windows (above the floor) \
                                                            -> group by (window, key) -> partials -> changelog rows
                                          seed, if any -----/
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.driver.input_stats import SKEW_SLOTS, InputStats
from cutwater.core.errors import UnavailableError
from cutwater.core.events.formats import JSON_FORMATS, WriterSchema
from cutwater.core.generations.source_topics import Sources, only
from cutwater.core.generations.start_state import FIRST, StartState
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.job.measures import SEED
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, Writer
from cutwater_spark.query import decoding
from cutwater_spark.query.computed_columns import ELEMENTS
from cutwater_spark.query.decoding import LEFT_OUT, USED, record_key
from cutwater_spark.query.formats import REMARK
from cutwater_spark.query.sources import NUMBER, OFFSET, ORIGIN
from cutwater_spark.query.sql import (
    binary,
    framed_bytes,
    kafka_options,
    key_text_of,
    name,
    single_object_bytes,
    text,
)

_CLEANED = "__cleaned"
SIZE = "__size"
INPUT_METRICS = "cutwater_input"
"""Name of the observation on the input, which `seen_of` reads as `cutwater.core.driver.input_stats.InputStats`."""

POLL_RECORDS = 20_000
EARLIEST = -2
"""Kafka's number for the first offset of the log, at which Spark starts a partition that is new to it."""


def starting_offsets(sources: Sources, origin: StartState) -> str:
    """Return a new query's starting offsets for Spark's source: after the events that the seed contains."""
    if origin == FIRST:
        return "earliest"
    firsts: dict[str, dict[str, int]] = {}
    for place in sources.places:
        offset = origin.source_cut.offset(place, EARLIEST)
        firsts.setdefault(place.topic, {})[str(place.partition)] = offset
    return json.dumps(firsts)


def read_events(
    spark: SparkSession,
    job: Job,
    cluster: Cluster,
    sources: Sources | None = None,
    starting: str = "earliest",
    limit: int | None = None,
    interval_ms: int = 0,
    tasks: int = 0,
) -> DataFrame:
    """Return the sources' records.

    `starting`: the offsets of a new query; later ones use Spark's checkpoint. `limit`: the most events of the
    first epoch; by default the job's bound. `interval_ms`: as in `source_limit.set_limit`. `tasks`: the most that
    read them in an epoch; 0 for one per partition.
    """
    sources = sources or only(job.topic, "")
    limit = limit or job.max_events_per_epoch
    interval = {"minOffsetsPerTrigger": limit, "maxTriggerDelay": f"{interval_ms}ms"} if interval_ms else {}
    raw = (
        spark.readStream.format("kafka")
        .options(**kafka_options(cluster))
        .option("subscribe", ",".join(sources.partitions))
        # Only copies have headers that matter, and Spark makes objects of each.
        .option("includeHeaders", str(bool(sources.copies)).lower())
        .option("startingOffsets", starting)
        .option("failOnDataLoss", "true")
        # Spark's default also reads aborted records.
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", limit)
        .options(**interval)
        # The source asks the broker for its offset range after every poll.
        .option("kafka.max.poll.records", POLL_RECORDS)
        .load()
    )
    return raw.coalesce(tasks) if tasks else raw


def decode(raw: DataFrame, job: Job, known: Sequence[WriterSchema], sources: Sources) -> DataFrame:
    """Return the usable events as columns, with their place in the order; observe and drop the others.

    `known`: the schemas that events may be written with. The observation has the newest event time of the source
    partitions, and the next offset of each copied partition.
    """
    placed = decoding.decode(raw, job, known, sources).select(
        "event.*",
        *([] if job.explode else [F.expr(f"{record_key(job)} as __key")]),
        F.col(f"event.{job.time_field}").alias("__event_time"),
        ORIGIN,
        F.col("partition").alias("__partition"),
        OFFSET,
        NUMBER,
        "__reason",
        REMARK,
        LEFT_OUT,
        *([ELEMENTS] if job.explode else []),
        F.expr(f"octet_length(value) as {SIZE}"),
    )
    slots = min(len(sources.places), SKEW_SLOTS)
    newest = [
        f"unix_millis(max(case when {NUMBER} % {slots} = {slot} then __event_time end))" for slot in range(slots)
    ]
    copied = [number for number, place in enumerate(sources.places) if place.topic in sources.copies]
    observed = [
        F.expr("count(1) as events"),
        F.expr("count_if(__reason is not null) as rejected"),
        F.expr(f"sum({SIZE}) as size"),
        F.expr(f"count_if({REMARK}) as {'repeated' if job.format.kind in JSON_FORMATS else 'defaulted'}"),
        F.expr("unix_millis(min(__event_time)) as oldest"),
        *(F.expr(f"{one} as newest_{slot}") for slot, one in enumerate(newest)),
        *([F.expr(f"count_if({LEFT_OUT}) as left_out")] if job.where or job.explode or job.transform else []),
        *([F.expr(f"count_if({NUMBER} is null) as unknown")] if copied else []),
        *(F.expr(f"max(case when {NUMBER} = {number} then {OFFSET} end) as copied_{number}") for number in copied),
    ]
    # The observation also keeps the filter above the decoding: below it, events would be decoded twice.
    used = placed.observe(INPUT_METRICS, *observed).filter(USED).drop(NUMBER, REMARK, SIZE, LEFT_OUT)
    if not job.explode:
        return used
    each = used.selectExpr("*", f"inline({ELEMENTS})").drop(ELEMENTS)
    return each.selectExpr("*", f"{key_text_of(job, [name(one) for one in job.key_fields])} as __key")


def seen_of(metrics: Mapping[str, Any], sources: Sources) -> InputStats:
    """Return the observation on the input. Raise UnavailableError for events of partitions new to the query."""
    if metrics.get("unknown"):
        raise UnavailableError(
            f"{', '.join(sources.copies)} has more partitions than when the query started, so the offsets that it "
            "read are not known. The next attempt runs the epoch again"
        )
    copied = _numbered(metrics, "copied_")
    return InputStats(
        events=metrics["events"],
        rejected=metrics["rejected"],
        oldest_ms=metrics["oldest"],
        newest_ms=_numbered(metrics, "newest_"),
        copied={sources.places[number]: offset + 1 for number, offset in copied.items()},
        size=metrics.get("size") or 0,
        repeated=metrics.get("repeated", 0),
        defaulted=metrics.get("defaulted", 0),
        left_out=metrics.get("left_out", 0),
    )


def _numbered(metrics: Mapping[str, Any], prefix: str) -> dict[int, int]:
    return {
        int(name.removeprefix(prefix)): value
        for name, value in metrics.items()
        if name.startswith(prefix) and value is not None
    }


def aggregate(
    events: DataFrame,
    job: Job,
    seed: DataFrame | None = None,
    floor_ms: int = 0,
    cleans: bool | None = None,
) -> DataFrame:
    """Return one row per (key, window) with its partials, of events and seed together.

    Windows that end at or below the floor take no event. `cleans`: whether Spark evicts these windows; None: Spark
    evicts windows by its own watermark, and the floor is that of a seed.
    """
    windowed = _windowed(events, job, floor_ms, cleans)
    partials = [partial for measure in job.measures for partial in measure.partials]
    if seed is not None or cleans is not None:
        windowed = windowed.where(f"__window.end > timestamp_millis({floor_ms}L)")
    if seed is None:
        return _grouped(windowed, {one.column: one.over_events for one in partials})
    return _grouped(_with_seed(windowed, seed), {one.column: one.over_both for one in partials})


def _windowed(events: DataFrame, job: Job, floor_ms: int, cleans: bool | None) -> DataFrame:
    """Return the events with their windows, and with Spark's watermark if it is to evict.

    A cleaning's watermark is the floor itself: the newest value of a column that has no other. The window's column
    is marked as Spark marks one of a column with a watermark: by that Spark finds what it may evict.
    """
    if cleans is None:
        late = events.withWatermark("__event_time", f"{job.lateness_ms} milliseconds")
        return late.selectExpr(f"{window_of(job)} as __window", "*")
    if not cleans:
        return events.selectExpr(f"{window_of(job)} as __window", "*")
    cleaned = events.selectExpr("*", f"timestamp_millis({floor_ms}L) as {_CLEANED}").withWatermark(
        _CLEANED, "0 seconds"
    )
    window = F.expr(window_of(job)).alias("__window", metadata={"spark.watermarkDelayMs": 0})
    return cleaned.select(window, "*")


def _grouped(rows: DataFrame, aggregates: Mapping[str, str]) -> DataFrame:
    return rows.groupBy("__window", "__key").agg(*(F.expr(sql).alias(name) for name, sql in aggregates.items()))


def _with_seed(events: DataFrame, seed: DataFrame) -> DataFrame:
    """Return events and seed. Events are first: Spark takes the metadata, and so the watermark, of that side."""
    [partials] = [field.dataType for field in seed.schema if field.name == SEED]
    own = {"__window", "__key"}
    columns = [
        F.col(field.name) if field.name in own else F.lit(None).cast(field.dataType).alias(field.name)
        for field in events.schema
    ]
    return events.select("*", F.lit(None).cast(partials).alias(SEED)).union(seed.select(*columns, SEED))


def window_of(job: Job) -> str:
    """Return the window of an event's row, as SQL: for sliding windows a pane, so no event is multiplied."""
    return f"window(__event_time, '{job.row_windows.size_ms} milliseconds')"


def changelog_rows(aggregates: DataFrame, job: Job, writer: Writer, state_header: bytes) -> DataFrame:
    """Return the records to write: key and value in Avro with their schema headers, partition, record headers."""
    return aggregates.selectExpr(*row_expressions(job, writer, state_header))


def row_expressions(job: Job, writer: Writer, state_header: bytes) -> list[str]:
    """Return the records' columns as SQL: Column objects took a hundred calls to the JVM, 60 ms an epoch."""
    names = ", ".join(f"`{partial.column}`" for measure in job.measures for partial in measure.partials)
    key = "named_struct('key', __key, 'window_start', __window.start, 'window_end', __window.end)"
    return [
        f"{single_object_bytes(key, Codec(WINDOW_KEY_SCHEMA))} as key",
        f"{framed_bytes(f'struct({names})', job.state_schema, state_header)} as value",
        f"{job.shards.partition_sql('__key')} as partition",
        f"{_headers(writer)} as headers",
    ]


def _headers(writer: Writer) -> str:
    return f"array(named_struct('key', {text(WRITER_HEADER)}, 'value', {binary(writer.header)}))"

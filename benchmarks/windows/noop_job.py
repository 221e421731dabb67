"""Spark's own limit: the job's query, writing its rows to nowhere. No barrier, no changelog.

python benchmarks/windows/noop_job.py JOBFILE RESULTFILE

Takes the driver's settings from the environment. Runs until SIGTERM; then writes what it counted, and its
state after the last epoch with data, as JSON.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructField, StructType

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.config.settings import Settings, load_settings
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.generations.source_topics import only
from cutwater.core.job.job import Job
from cutwater_spark.query.query import INPUT_METRICS, aggregate, decode, read_events
from cutwater_spark.query.sql import framed_bytes
from cutwater_spark.session import open_session


def to_nowhere(rows: DataFrame, _epoch: int) -> None:
    rows.write.format("noop").mode("append").save()


def start(
    spark: SparkSession,
    job: Job,
    settings: Settings,
    location: str,
    sink: Callable[[DataFrame, int], None] = to_nowhere,
) -> StreamingQuery:
    """The driver's query with another sink."""
    sources = only(job.topic, settings.region)
    events = decode(read_events(spark, job, settings.cluster, sources), job, known_schemas(job, None), sources)
    return (
        aggregate(events, job)
        .writeStream.outputMode("update")
        .queryName(job.name)
        .option("checkpointLocation", location)
        .trigger(processingTime=f"{settings.trigger_ms} milliseconds")
        .foreachBatch(sink)
        .start()
    )


def state_after(spark: SparkSession, job: Job, location: str, epoch: int) -> list[tuple[str, int, str]]:
    """(key, window start in ms, a changelog's value in hex) of every row that Spark holds after an epoch."""
    state = spark.read.format("statestore").option("batchId", epoch).load(location)
    # Spark names these columns by its own rules, some alike: what is known is the order of grouping and buffers.
    window, key = (f"key.`{name}`" for name in state.schema["key"].dataType.names)
    held = state.schema["value"].dataType.fields
    numbered = StructType([StructField(f"b{place}", one.dataType) for place, one in enumerate(held)])
    columns = buffers(job)
    distinct = list(dict.fromkeys(columns.values()))
    first = len(held) - len(distinct)
    row = ", ".join(f"value.b{first + distinct.index(sql)} as `{column}`" for column, sql in columns.items())
    value = framed_bytes(f"struct({row})", job.state_schema, Codec(job.state_schema).header)
    rows = state.withColumn("value", F.col("value").cast(numbered)).selectExpr(
        f"{key} as k", f"unix_millis({window}.start) as start", f"hex({value}) as v"
    )
    return [tuple(one) for one in rows.collect()]


def buffers(job: Job) -> dict[str, str]:
    """The aggregate of each of a row's columns. Spark keeps one buffer for all that are the same."""
    return {one.column: one.over_events for measure in job.measures for one in measure.partials}


def main(arguments: list[str]) -> None:
    job, settings = load_job(Path(arguments[0])), load_settings()
    if settings.checkpoint is None:
        raise UsageError("CUTWATER_CHECKPOINT must name the checkpoint's location")
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    spark = open_session(job, settings, settings.checkpoint)
    query = start(spark, job, settings, settings.checkpoint)
    while not told.is_set():
        if query.awaitTermination(0.2):
            raise SystemExit("the query ended by itself")
    query.processAllAvailable()  # Spark tells of an epoch after its commit, by which we are told to end
    progress: list[dict[str, Any]] = [json.loads(one.json) for one in query.recentProgress]
    query.stop()
    filled = [one for one in progress if one["numInputRows"]]
    told_by_input = [one.get("observedMetrics", {}).get(INPUT_METRICS, {}) for one in filled]
    result = {
        "events": sum(one["numInputRows"] for one in filled),
        "rejected": sum(one.get("rejected", 0) for one in told_by_input),
        "state": state_after(spark, job, settings.checkpoint, filled[-1]["batchId"]) if filled else [],
        "durations_ms": [one["durationMs"] for one in filled],
    }
    Path(arguments[1]).write_text(json.dumps(result), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])

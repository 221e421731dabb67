"""Events that are read as less than they hold are used, and counted: symbols nobody knows, names twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.event_encoder import defaulted
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.events.formats import WriterSchema, confluent_header
from cutwater.core.generations.source_topics import only
from cutwater.core.job.job import Job
from cutwater_spark.query.query import INPUT_METRICS, decode, seen_of
from support.events import readings_of_schemas as told
from support.events import wide

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("as_in_a_driver")]
SOURCES = only("a", "a", 1)
COLUMNS = "topic string, partition int, offset long, timestamp timestamp, value binary"
WRITTEN = datetime.fromtimestamp(told.AT_MS / 1000, UTC)


def seen(
    spark: SparkSession, folder: Path, job: Job, known: Sequence[WriterSchema], values: Sequence[bytes]
) -> tuple[list[Any], InputStats]:
    """The events that one epoch of a stream uses, and what it has observed."""
    rows = [("a", 0, at, WRITTEN, bytearray(one)) for at, one in enumerate(values)]
    spark.createDataFrame(rows, COLUMNS).coalesce(1).write.parquet(str(folder / "in"))
    raw = spark.readStream.schema(COLUMNS).parquet(str(folder / "in"))
    events: list[Any] = []
    query = (
        decode(raw, job, known, SOURCES)
        .writeStream.foreachBatch(lambda batch, _: events.extend(batch.collect()))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    progress = query.lastProgress
    assert progress is not None
    return sorted(events, key=lambda one: str(one["__key"])), seen_of(
        progress["observedMetrics"][INPUT_METRICS].asDict(), SOURCES
    )


def test_a_symbol_that_takes_a_default_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    """The finding: BLUE was read as UNKNOWN without a word. Of versions without such symbols nothing counts."""
    reader = told.record(["null", told.enum("UNKNOWN", "RED", default="UNKNOWN")], default=None)
    writers = [told.record(told.enum(*symbols)) for symbols in (("RED",), ("BLUE", "RED"), ("GREY",))]
    known = [WriterSchema(confluent_header(at), one, f"number {at}") for at, one in enumerate(writers)]
    job = wide.job(tmp_path / "job", reader, "format: confluent, registry: 'http://127.0.0.1:1'")
    sent = [(0, "RED"), (1, "RED"), (1, "BLUE"), (2, "GREY"), (1, "BLUE")]
    values = [
        confluent_header(at) + Codec(writers[at]).body({"key": f"k{place}", "at": told.AT_MS, "x": symbol})
        for place, (at, symbol) in enumerate(sent)
    ]
    far = confluent_header(1) + Codec(writers[1]).body({"key": "far", "at": 0, "x": "BLUE"})
    events, found = seen(spark, tmp_path, job, known, [*values, far, values[2][:-1]])
    assert [one["x"] for one in events] == ["RED", "RED", "UNKNOWN", "UNKNOWN", "UNKNOWN"]
    assert (found.events, found.rejected, found.defaulted, found.repeated) == (7, 2, 3, 0)
    assert defaulted(job, tuple(known)) == [
        "schema number 1: enum test.Colour: the symbols BLUE are read as UNKNOWN",
        "schema number 2: enum test.Colour: the symbols GREY are read as UNKNOWN",
    ], "which the driver logs at its start"


def test_a_name_that_stands_twice_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    """In usable events alone."""
    job = wide.job(tmp_path / "job", told.record("int"), "format: json")
    values = [f'{{"key":"k","at":{told.AT_MS},"x":{one}}}'.encode() for one in ("1", "5", '1,"x":2', '1,"x":"3"')]
    events, found = seen(spark, tmp_path, job, (), values)
    assert [one["x"] for one in events] == [1, 5, 2]
    assert (found.events, found.rejected, found.defaulted, found.repeated) == (4, 1, 0, 1)

"""Rows of seeds and events whose measures of `kept: state` were counted again, or not, against DuckDB.

Events and seeds are DataFrames here, so one query has each case; `test_state_measures.py` has the processes.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.generations.source_topics import only
from cutwater.core.job.job import Job
from cutwater.core.job.measures import SEED
from cutwater_spark.query.query import aggregate, decode
from cutwater_spark.seed.recounted_state import counted_rows, with_state

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SIZE_MS = 600_000
START_MS = 1_700_000_000_000 // SIZE_MS * SIZE_MS
EVENT = {
    "type": "record",
    "name": "Sale",
    "namespace": "test",
    "fields": [
        {"name": "shop", "type": "string"},
        {"name": "product", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "pieces", "type": ["null", "int"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}
JOB = """job: recounted
source: {topic: recounted.events, schema: event.avsc, key: shop, event_time: at}
window: {kind: tumbling, size: 10m}
lateness: 40m
retention: 2d
measures:
  sales: {measure: count}
  products: {measure: distinct, field: product, sketch: theta, kept: state}
  carriers: {measure: distinct, field: product, kept: state}
  revenue: {measure: sum, field: price, kept: state}
  newest: {measure: last, field: pieces, kept: state}
  mean: {measure: avg, field: pieces, kept: state}
derived:
  per_product: sales / products
  seen: carriers
  worth: revenue - mean
  last_pieces: newest
"""
STORED = {
    "per_product": "count(*)::DOUBLE / nullif(count(distinct product), 0)",
    "seen": "count(distinct product)::DOUBLE",
    "worth": "sum(price)::DOUBLE - avg(pieces)",
    "last_pieces": "max_by(pieces, at_ms::HUGEINT * 1000000 + number) filter (pieces is not null)",
}
RECORDS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
BELOW, LOST = 400, 9
"""The first events are below the milestone; every so many of these is lost since."""
Events = list[tuple[int, dict[str, Any]]]


def events() -> Events:
    """Sales 10 s apart, up to 35 minutes out of order."""
    rng = random.Random(3)

    def one(number: int) -> dict[str, Any]:
        shop = rng.randrange(12)
        at_ms = START_MS + number * 10_000 - rng.randrange(35 * 60_000)
        return {
            "shop": f"s{shop}",
            "product": f"p{rng.randrange(5)}" if shop and rng.random() > 0.1 else None,
            "at": datetime.fromtimestamp(at_ms / 1000, UTC),
            "pieces": rng.randrange(-5, 20) if shop != 1 else None,
            "price": Decimal(rng.randrange(1, 40_000)).scaleb(-2),
        }

    return [(number, one(number)) for number in range(700)]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "event.avsc").write_text(json.dumps(EVENT))
    (tmp_path / "job.yaml").write_text(JOB)
    return load_job(tmp_path / "job.yaml")


def records(spark: SparkSession, given: Events) -> DataFrame:
    codec, written = Codec(EVENT), datetime(2026, 1, 1)
    rows = [
        (b"", codec.encode(one), "recounted.events", 0, number, written, 0, list[Any]()) for number, one in given
    ]
    return spark.createDataFrame(rows, RECORDS)


def rows_of(given: Events) -> dict[tuple[str, int], list[int]]:
    """The numbers of each row's events."""
    found: dict[tuple[str, int], list[int]] = {}
    for number, one in given:
        start_ms = round(one["at"].timestamp() * 1000) // SIZE_MS * SIZE_MS
        found.setdefault((one["shop"], start_ms), []).append(number)
    return found


def test_a_value_is_exact_or_null(spark: SparkSession, job: Job, tmp_path: Path) -> None:
    """Null only of a row with events of before and after, of which the recount has not found all of before."""
    every = events()
    below, above = every[:BELOW], every[BELOW:]
    found = [one for one in below if one[0] % LOST]
    known, sources = known_schemas(job, None), only(job.topic, "local", 1)
    in_rows = [part for one in job.measures for part in one.partials]
    first = aggregate(decode(records(spark, below), job, known, sources), job)
    made = ", ".join(f"'{part.column}', `{part.column}`" for part in in_rows)
    seeds = stored(first.selectExpr("__key", "__window", f"named_struct({made}) as {SEED}"), tmp_path / "rows")
    counted = counted_rows(records(spark, found), job, known, sources, 0)
    seed = stored(with_state(seeds, counted, job), tmp_path / "seed")
    later = decode(records(spark, above), job, known, sources)
    told = aggregate(later, job, seed).select("*", F.expr("unix_millis(__window.start) as start_ms")).collect()
    served = {(row["__key"], row.start_ms): row for row in told}
    expected = oracle(every)
    before, after, lost = rows_of(below), rows_of(above), rows_of([one for one in below if one not in found])
    without = before.keys() & after.keys() & lost.keys()
    kinds = without, before.keys() & after.keys() - lost.keys(), before.keys() & lost.keys() - after.keys()
    assert all(len(one) > 3 for one in kinds), "the test must make rows of each kind"
    assert served.keys() == expected.keys()
    for place, row in expected.items():
        assert served[place]["sales"] == row["sales"]
        for name in STORED:
            if place in without or row[name] is None:
                assert served[place][name] is None, (name, place)
            else:
                assert served[place][name] == pytest.approx(row[name], rel=1e-12), (name, place)


def stored(rows: DataFrame, folder: Path) -> DataFrame:
    """As a driver has them: read from files."""
    rows.write.parquet(str(folder))
    return rows.sparkSession.read.parquet(str(folder))


def oracle(every: Events) -> dict[tuple[str, int], dict[str, Any]]:
    """All events in DuckDB, by key and start of the window."""
    frame = pd.DataFrame(
        [{**one, "at": None, "at_ms": round(one["at"].timestamp() * 1000), "number": at} for at, one in every]
    )
    frame["pieces"] = frame["pieces"].astype("Int64")
    columns = ", ".join(f"{sql} as {name}" for name, sql in STORED.items())
    start = f"(at_ms // {SIZE_MS} * {SIZE_MS})::BIGINT"
    found = duckdb.sql(f"select shop, {start}, count(*) as sales, {columns} from frame group by all")
    names = found.columns
    return {(row[0], row[1]): dict(zip(names[2:], row[2:], strict=True)) for row in found.fetchall()}

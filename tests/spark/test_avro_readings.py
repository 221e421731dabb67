"""What Spark makes of Avro events that another schema wrote is what the table says, and what fastavro reads."""

from __future__ import annotations

import io
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import Row, SparkSession
from test_formats import decoded

from cutwater.adapters.events.event_encoder import unreadable
from cutwater.core.events.formats import WriterSchema, confluent_header
from cutwater.core.events.rejection import UNDECODABLE
from support.events import readings_of_schemas as told
from support.events import wide

pytestmark = pytest.mark.spark
REGISTRY = "format: confluent, registry: 'http://127.0.0.1:1'"


def body(writer: Any, value: Any) -> bytes:
    out = io.BytesIO()
    event = {"key": "k", "at": told.AT_MS, "x": value}
    fastavro.schemaless_writer(out, fastavro.parse_schema(told.plain(told.record(writer))), event)
    return out.getvalue()


def by_fastavro(pair: told.Pair, value: Any) -> Any:
    """What another implementation of Avro reads; UNDECODABLE where it refuses, or where the table does."""
    if told.outcome(pair).startswith("rejected: "):
        return UNDECODABLE
    writer, reader = (fastavro.parse_schema(told.record(one)) for one in (pair.writer, pair.reader))
    try:
        found = fastavro.schemaless_reader(io.BytesIO(body(pair.writer, value)), writer, reader)["x"]
    except (ValueError, TypeError, LookupError, fastavro.read.SchemaResolutionError):
        return UNDECODABLE
    digits = {"decimal(10,2)": 10, "decimal(12,2)": 12}.get(told.shown(pair.reader))
    if isinstance(found, Decimal) and digits and len(found.as_tuple().digits) > digits:
        return UNDECODABLE
    return found


def same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, Row):
        mine = mine.asDict()
    if isinstance(theirs, time) and not isinstance(mine, time):  # Spark has milliseconds of a day as a number
        theirs = (theirs.hour * 3600 + theirs.minute * 60 + theirs.second) * 1_000_000 + theirs.microsecond
        return mine in (theirs, theirs // 1_000)
    if isinstance(mine, datetime) and isinstance(theirs, datetime):
        return mine.astimezone(UTC) == theirs.astimezone(UTC)
    return bool(mine == theirs)


@pytest.mark.parametrize("kind", sorted({told.shown(one.reader) for one in told.PAIRS}))
@pytest.mark.slow
def test_each_pair_is_read_as_the_table_says(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """No value is counted as another one, and none is rejected that fastavro reads as itself."""
    pairs = [one for one in told.PAIRS if told.shown(one.reader) == kind]
    job = wide.job(tmp_path / "job", told.record(pairs[0].reader), REGISTRY)
    known = [WriterSchema(confluent_header(at), told.record(one.writer), str(at)) for at, one in enumerate(pairs)]
    asked = [(at, one, value) for at, one in enumerate(pairs) for value in one.values]
    values = [confluent_header(at) + body(one.writer, value) for at, one, value in asked]
    for (_, pair, value), found in zip(asked, decoded(spark, job, values, known), strict=True):
        mine = found if isinstance(found, str) else found["x"]
        assert same(mine, by_fastavro(pair, value)), (pair, value, mine)


def test_no_meaning_changes_in_silence_and_names_are_no_obstacle(spark: SparkSession, tmp_path: Path) -> None:
    """The findings: decimals and times counted as other ones; an alias in another namespace."""
    reader = told.record(["null", told.MONEY], default=None, aliases=["price"])
    job = wide.job(tmp_path / "job", reader, REGISTRY)
    elsewhere = {**told.record(told.MONEY), "name": "Sale", "namespace": "elsewhere"}
    elsewhere["fields"][2]["name"] = "price"
    late = told.record(told.MONEY)
    late["fields"][1] = {"name": "at", "type": "long"}
    schemas = [told.record(told.decimal(12, 3)), told.record("bytes"), late, elsewhere]
    known = [WriterSchema(confluent_header(at), one, f"number {at}") for at, one in enumerate(schemas)]
    number = told.unscaled(12_345)[0]
    values = [confluent_header(at) + body("bytes", number) for at in range(4)]
    found = decoded(spark, job, values, known)
    assert found[:3] == [UNDECODABLE] * 3
    assert found[3]["x"] == Decimal("123.45")
    assert [line.split(": ")[:2] for line in unreadable(job, tuple(known))] == [
        ["schema number 0", "x"],
        ["schema number 1", "x"],
        ["schema number 2", "at"],
    ], "what the driver's log says is what is done"

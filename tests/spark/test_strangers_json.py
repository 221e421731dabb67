"""JSON of strangers: ten thousand records in one batch, judged a second time by another parser."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from cutwater.core.events.json_events import json_fields
from cutwater.core.events.rejection import UNDECODABLE
from cutwater_spark.query.formats import with_events
from support.events import jsonoracle, wide
from support.events.strangers import SCHEMA, SEED, records

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("as_in_a_driver")]


@pytest.mark.variations
@pytest.mark.parametrize(("cases", "seed"), [(3_000, SEED), *((25_000, SEED + at) for at in range(1, 5))])
def test_a_second_parser_agrees_on_every_record(
    spark: SparkSession, tmp_path: Path, cases: int, seed: int
) -> None:
    """Accepted or rejected, the value of every field to its last digit, and whether a name stands twice.

    In parts: beside other tests, a hundred thousand at once take longer than a test may.
    """
    job = wide.job(tmp_path, SCHEMA, "format: json")
    fields = json_fields(SCHEMA)
    made = records(cases, seed)
    wanted = [jsonoracle.read(one, fields) for one in made]
    found = _decoded(spark, job, made)
    wrong = [
        (value, mine, theirs)
        for value, mine, theirs in zip(made, found, wanted, strict=True)
        if not _agree(mine, theirs)
    ]
    assert wrong[:5] == [], f"{len(wrong)} of {len(made)}"
    accepted = sum(one.event is not None for one in wanted)
    assert cases // 5 < accepted < cases * 4 // 5, f"{accepted} accepted: the cases must be of both kinds"
    assert sum(one.repeats for one in wanted) > cases // 50


def _decoded(spark: SparkSession, job: Any, values: list[bytes]) -> list[tuple[Any, ...]]:
    table = pa.table({"number": list(range(len(values))), "value": pa.array(values, pa.binary())})
    frame = with_events(spark.createDataFrame(table).coalesce(1), job, ())
    columns = [
        f"unix_micros(event.{one.name}) as {one.name}" if one.kind.startswith("timestamp") else f"event.{one.name}"
        for one in json_fields(SCHEMA)
    ]
    shown = frame.selectExpr("number", "__reason", "__remark as twice", *columns).toArrow().sort_by("number")
    rows = shown.to_pylist()
    names = [one.name for one in json_fields(SCHEMA)]
    return [(one["__reason"], one["twice"], {name: one[name] for name in names}) for one in rows]


def _agree(mine: tuple[Any, ...], theirs: jsonoracle.Read) -> bool:
    reason, twice, event = mine
    if theirs.event is None:
        return bool(reason == UNDECODABLE)
    return reason is None and twice == theirs.repeats and all(map(_same, event.values(), theirs.event.values()))


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        return (
            mine == theirs or (math.isnan(mine) and math.isnan(theirs)) or math.isclose(mine, theirs, rel_tol=1e-7)
        )
    return bool(mine == theirs) and (not isinstance(mine, Decimal) or str(mine) == str(theirs) or mine == theirs)


def test_the_oracle_reads_what_python_writes() -> None:
    """The second parser by itself: an event of plain values is read as what was written."""
    event = {"key": "größe", "at": 1, "n": 5, "x": 0.5, "w": "1.5"}
    read = jsonoracle.read(json.dumps(event).encode(), json_fields(SCHEMA)).event
    assert read is not None
    assert {name: read[name] for name in event} == {**event, "at": 1_000, "w": Decimal("1.5")}

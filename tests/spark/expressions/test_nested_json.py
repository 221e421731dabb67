"""Nested events in JSON: random schemas and records, by Spark, by Python, and by another parser."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from cutwater.core.events import json_records
from cutwater.core.events.json_events import REPEATED_NAMES, JsonField, json_fields
from cutwater.core.events.rejection import UNDECODABLE, Flaw
from cutwater.core.job.job import Job
from cutwater_spark.query.formats import with_events
from support.events import jsonoracle, wide
from support.events.nested import Nested

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("as_in_a_driver")]
CASES, LONG = 1_000, b"1234567890123456789012345678901234567890"


def decoded(spark: SparkSession, job: Job, values: list[bytes]) -> list[dict[str, Any]]:
    table = pa.table({"number": list(range(len(values))), "value": pa.array(values, pa.binary())})
    frame = with_events(spark.createDataFrame(table).coalesce(1), job, (), explained=True)
    shown = frame.selectExpr("number", "event", "__remark as twice", "__flaw as flaw").orderBy("number")
    return [one.asDict(recursive=True) for one in shown.collect()]


def agree(mine: Any, theirs: Any, field: JsonField) -> bool:
    """Whether a value of Spark is one of Python, where times are microseconds."""
    if mine is None or theirs is None:
        return mine is theirs
    if field.kind == "record":
        return all(agree(mine[one.name], theirs[one.name], one) for one in field.fields)
    if field.item is not None:
        pairs = dict(enumerate(mine)) if field.kind == "array" else dict(mine)
        others = dict(enumerate(theirs)) if field.kind == "array" else theirs
        item = field.item
        return pairs.keys() == others.keys() and all(agree(pairs[one], others[one], item) for one in pairs)
    if isinstance(mine, datetime):
        return (mine.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) == theirs
    if isinstance(mine, float):
        return (math.isnan(mine) and math.isnan(theirs)) or math.isclose(mine, theirs, rel_tol=1e-7)
    mine = bytes(mine) if isinstance(mine, bytearray) else mine
    return bool(type(mine) is type(theirs) and mine == theirs)


@pytest.mark.parametrize(
    "seed", [pytest.param(1), *(pytest.param(one, marks=pytest.mark.slow) for one in (2, 3, 4))]
)
def test_three_readings_of_a_nested_event_are_one(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Spark's values are those of Python and of the other parser; a rejected event has one path and one rule."""
    nested = Nested(seed)
    job, fields = wide.job(tmp_path, nested.schema, "format: json"), json_fields(nested.schema)
    made = nested.records(CASES)
    accepted = twice = within = 0
    for value, row in zip(made, decoded(spark, job, made), strict=True):
        told, theirs = json_records.read(value, fields), jsonoracle.read(value, fields)
        if isinstance(told, Flaw):
            flaw = row["flaw"]
            assert theirs.event is None, value
            assert (told.reason, told.field) == (UNDECODABLE, flaw["field"]), value
            # Spark's parser may stop at another mistake of the text, and has no whole number of so many digits.
            assert told.field is None or told.rule == flaw["rule"] or LONG in value, value
            within += "." in (told.field or "") or "[" in (told.field or "")
            continue
        assert row["flaw"] is None, (value, row["flaw"])
        assert theirs.event is not None, value
        for one in fields:
            assert agree(row["event"][one.name], told[one.name], one), (value, one.name)
            assert agree(row["event"][one.name], theirs.event[one.name], one), (value, one.name)
        assert row["twice"] == theirs.repeats, value
        accepted += 1
        twice += theirs.repeats
    assert CASES // 5 < accepted < CASES * 19 // 20
    assert within > CASES // 50
    assert twice > 3


POINT = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}
TWICE: dict[str, Any] = {
    "type": "record",
    "name": "E",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "at", "type": wide.TYPES["seen"]},
        {"name": "p", "type": ["null", POINT], "default": None},
        {"name": "ps", "type": {"type": "array", "items": {"type": "map", "values": "P"}}, "default": []},
    ],
}


@pytest.mark.parametrize("rule", REPEATED_NAMES)
def test_a_name_twice_inside_of_an_event_is_judged_by_the_setting(
    spark: SparkSession, tmp_path: Path, rule: str
) -> None:
    """In a record, in a map, in a record of a map of an array; in what the schema does not name it is nobody's."""
    job = wide.job(tmp_path, TWICE, f"format: json, repeated_names: {rule}")
    told = [
        '"p":{"x":1,"x":2}', '"ps":[{},{"a":{"x":1},"a":{"x":2}}]', '"ps":[{"a":{"x":1,"\\u0078":2}}]',
        '"p":{"x":2},"other":{"x":1,"x":2}', '"p":{"x":2,"o":{"x":1,"x":2}}',
    ]  # fmt: skip
    values = [f'{{"key":"a","at":1,{one}}}'.encode() for one in told]
    found = decoded(spark, job, values)
    assert [row["flaw"] is not None for row in found] == [rule == "reject"] * 3 + [False] * 2
    assert [row["twice"] for row in found] == [rule == "last"] * 3 + [False] * 2
    if rule == "last":
        assert found[0]["event"]["p"] == {"x": 2}
        assert [dict(one) for one in found[1]["event"]["ps"]] == [{}, {"a": {"x": 2}}]


def test_an_array_has_a_bound(spark: SparkSession, tmp_path: Path) -> None:
    """One element more is a dead letter, and so is one name more of a map."""
    job = wide.job(tmp_path, TWICE, "format: json")
    places = [f"[{', '.join(['{}'] * count)}]" for count in (10_000, 10_001)]
    names = [",".join(f'"{one}":{{"x":1}}' for one in range(count)) for count in (10_000, 10_001)]
    values = [
        f'{{"key":"a","at":1,"ps":{one}}}'.encode() for one in (*places, *(f"[{{{told}}}]" for told in names))
    ]
    found = [row["flaw"] for row in decoded(spark, job, values)]
    assert found == [
        None,
        {"field": "ps", "rule": "is not an array of at most 10,000 elements"},
        None,
        {"field": "ps[0]", "rule": "is not an object of at most 10,000 names"},
    ]
    fields = json_fields(TWICE)
    python = [json_records.read(one, fields) for one in values]
    assert [{"field": one.field, "rule": one.rule} if isinstance(one, Flaw) else None for one in python] == found

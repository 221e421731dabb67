"""Nested events in JSON: random schemas and records, by Spark, by Python, and by another parser."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from cutwater.core.events import json_records
from cutwater.core.events.json_events import (
    HALF_PAIR,
    NO_OBJECT,
    REPEATED_NAMES,
    SOMETHING_BEHIND,
    JsonField,
    json_fields,
)
from cutwater.core.events.rejection import UNDECODABLE, YEARS_RULE, Flaw
from cutwater.core.job.job import Job
from cutwater_spark.query.formats import with_events
from support.events import jsonoracle, wide
from support.events.complex_types import FIRST_FLAWS, MEETING, Nested

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("as_in_a_driver")]


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


def same_flaw(value: bytes, told: Flaw, shown: dict[str, Any]) -> bool:
    """Whether Spark shows Python's flaw: the first one in the order of the schema, depth first.

    Three differences are allowed. Half of a surrogate pair inside of a field cannot be in a VARIANT: to Spark the
    event is no JSON object. Of a number of more than 38 digits that is to be a time, Spark may not know that
    it is whole, as Python does.
    """
    if b"\\ud" in value.lower() and told.rule in (HALF_PAIR, SOMETHING_BEHIND) and shown["rule"] == NO_OBJECT:
        return True
    if (told.reason, told.field) != (UNDECODABLE, shown["field"]):
        return False
    long = re.search(rb"[0-9]{39}", value) is not None
    in_doubt = long and told.rule == YEARS_RULE and shown["rule"].startswith("is not ")
    # A VARIANT drops zeros behind the point: 1.0, which is no time, looks whole.
    zeros = re.search(rb"[0-9][.]0", value) is not None
    in_doubt |= zeros and told.rule.startswith("is not ") and shown["rule"].startswith(YEARS_RULE)
    return bool(told.rule == shown["rule"] or in_doubt)


def difference(value: bytes, row: dict[str, Any], fields: tuple[JsonField, ...]) -> str:
    """How the three readings of an event differ; empty if they do not."""
    told, theirs = json_records.read(value, fields), jsonoracle.read(value, fields)
    if isinstance(told, Flaw) != (theirs.event is None) or isinstance(told, Flaw) != (row["flaw"] is not None):
        return f"accepted by some only: {told} / {theirs.event} / {row['flaw']}"
    if isinstance(told, Flaw):
        return "" if same_flaw(value, told, row["flaw"]) else f"{told} / {row['flaw']}"
    assert theirs.event is not None
    for one in fields:
        mine = row["event"][one.name]
        if not agree(mine, told[one.name], one) or not agree(mine, theirs.event[one.name], one):
            return f"{one.name}: {mine} / {told[one.name]} / {theirs.event[one.name]}"
    return "" if row["twice"] == theirs.repeats else f"a name twice: {row['twice']} / {theirs.repeats}"


@pytest.mark.parametrize(
    ("seed", "cases"), [(1, 400), *(pytest.param(one, 1_000, marks=pytest.mark.slow) for one in (1, 2, 3, 4))]
)
def test_three_readings_of_a_nested_event_are_one(
    spark: SparkSession, tmp_path: Path, seed: int, cases: int
) -> None:
    """Spark's values are those of Python and of the other parser; a rejected event has one path and one rule."""
    nested = Nested(seed)
    job, fields = wide.job(tmp_path, nested.schema, "format: json"), json_fields(nested.schema)
    made = nested.records(cases)
    rows = decoded(spark, job, made)
    found = ((value, difference(value, row, fields)) for value, row in zip(made, rows, strict=True))
    wrong = [(value, why) for value, why in found if why]
    assert wrong[:5] == [], f"{len(wrong)} of {cases}"
    paths = [row["flaw"]["field"] or "" for row in rows if row["flaw"]]
    assert cases // 5 < cases - len(paths) < cases * 19 // 20, "events of both kinds"
    assert sum("." in one or "[" in one for one in paths) > cases // 100
    assert sum(row["twice"] for row in rows) > 3


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


def test_of_several_flaws_the_first_in_the_order_of_the_schema_is_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Python's decoder tells the same, and the same rule."""
    job, fields = wide.job(tmp_path, MEETING, "format: json"), json_fields(MEETING)
    values = [f'{{"key":"a","at":1,{told}}}'.encode() for told in FIRST_FLAWS]
    rows = decoded(spark, job, values)
    assert [row["flaw"] and row["flaw"]["field"] for row in rows] == list(FIRST_FLAWS.values())
    assert [difference(value, row, fields) for value, row in zip(values, rows, strict=True)] == [""] * len(rows)


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_name_has_a_bound(spark: SparkSession, tmp_path: Path) -> None:
    """That of Spark's parser, which Python's decoder has too."""
    fields = [*TWICE["fields"][:2], {"name": "m", "type": {"type": "map", "values": "int"}}]
    job = wide.job(tmp_path, {**TWICE, "fields": fields}, "format: json")
    names = ["k" * 50_000, "k" * 50_001, "\\u0041" * 50_000, "\U0001f600" * 25_000, "\U0001f600" * 25_001]
    made = [f'{{"key":"a","at":1,"m":{{"{one}":1}}}}'.encode() for one in names]
    made += [f'{{"key":"a","at":1,"m":{{}},"other":{{"{one}":1}}}}'.encode() for one in names]
    found = [row["flaw"] is None for row in decoded(spark, job, made)]
    assert found == [True, False, True, True, False] * 2
    python = [json_records.read(one, json_fields(job.event_schema)) for one in made]
    assert [not isinstance(one, Flaw) for one in python] == found


@pytest.mark.slow
def test_a_schema_at_its_bounds_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Eight levels of each kind, and beside them as many fields as a schema may have inside of others."""
    deep: Any = wide.TYPES["seen"]
    for level in range(8):
        record = {"type": "record", "name": f"L{level}", "fields": [{"name": "x", "type": deep}]}
        deep = [{"type": "array", "items": deep}, {"type": "map", "values": deep}, record][level % 3]
    broad = {"type": "record", "name": "B", "fields": [{"name": f"f{one}", "type": "int"} for one in range(392)]}
    fields = [*TWICE["fields"][:2], {"name": "deep", "type": deep}, {"name": "broad", "type": broad}]
    schema = {"type": "record", "name": "E", "fields": fields}
    job, made = wide.job(tmp_path, schema, "format: json"), []
    for leaf, last in (("1700000000000", 391), ("true", 391), ("1", 390)):
        token = leaf
        for level in range(8):
            token = [f"[{token}]", f'{{"k":{token}}}', f'{{"x":{token}}}'][level % 3]
        told = ",".join(f'"f{one}":{one}' for one in range(last + 1))
        made.append(f'{{"key":"a","at":1,"deep":{token},"broad":{{{told}}}}}'.encode())
    rows = decoded(spark, job, made)
    assert [difference(value, row, json_fields(schema)) for value, row in zip(made, rows, strict=True)] == [""] * 3
    assert rows[0]["event"]["broad"]["f391"] == 391
    assert [row["flaw"] and row["flaw"]["field"] for row in rows] == [
        None, "deep['k'][0]" + ".x['k'][0]" * 2, "broad.f391",
    ]  # fmt: skip

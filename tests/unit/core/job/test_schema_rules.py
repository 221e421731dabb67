"""A job's schema that no query could be planned by is refused when the job file is read, with field and reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from support.events import odd_schemas

RECORD = {"type": "record", "name": "R"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": "my-field", "type": "int"}, "field 'my-field': no name that Avro allows"),
    ({"name": "1x", "type": "int"}, "field '1x': no name"),
    ({"name": "a.b", "type": "int"}, "field 'a.b': no name"),
    ({"name": "x", "type": {**RECORD, "fields": [{"name": "a-b", "type": "int"}]}}, "field 'a-b' of t.R: no name"),
    ({"name": "x", "type": {**RECORD, "name": "a-b", "fields": []}}, "'t.a-b' is not a type name"),
    ({"name": "x", "type": {**RECORD, "namespace": "a-b", "fields": []}}, "'a-b.R' is not a type name"),
    ({"name": "x", "type": ["null", "int", "int"]}, "field 'x': int is in a union more than once"),
    (
        {"name": "x", "type": ["null", *[{"type": "map", "values": one} for one in ("int", "long")]]},
        "field 'x': map is in a union more than once",
    ),
    ({"name": "x", "type": ["null", ["int"]]}, "field 'x': a union is nested in a union"),
    ({"name": "x", "type": {"type": ["null", "int"]}}, "a type is written as"),
    ({"name": "x", "type": {"type": "enum", "name": "C", "symbols": []}}, "enum t.C: it has no symbols"),
    ({"name": "x", "type": {"type": "enum", "name": "C", "symbols": ["A-B"]}}, "enum t.C: 'A-B' is not a valid"),
    (
        {"name": "x", "type": {"type": "enum", "name": "C", "symbols": ["A"], "default": "Z"}},
        "enum t.C: the default 'Z' is none of its symbols",
    ),
    ({"name": "x", "type": {"type": "fixed", "name": "F", "size": -1}}, "fixed t.F: -1 is not a valid size"),
    (
        {"name": "x", "type": {**RECORD, "fields": [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]}},
        "a, A of t.R differ in case alone",
    ),
    (
        {"name": "x", "type": ["null", {**RECORD, "fields": [{"name": "r", "type": ["null", "R"]}]}]},
        "t.R is recursive, which Spark does not support",
    ),
    ({"name": "x", "type": {"type": "array", "items": "null"}}, "x: an item takes 0 bytes"),
    ({"name": "x", "type": "int", "order": "up"}, "field 'x': order 'up'"),
    ({"name": "x", "type": "int", "aliases": "y"}, "field 'x': aliases must be a list"),
    *(
        ({"name": "x", "type": {"type": base, "logicalType": logical, **more}}, f"field 'x': {said}")
        for base, logical, more, said in (
            ("int", "timestamp-millis", {}, "timestamp-millis is declared on int"),
            ("string", "timestamp-micros", {}, "timestamp-micros is declared on string"),
            ("string", "date", {}, "date is declared on string"),
            ("long", "time-millis", {}, "time-millis is declared on long"),
            ("string", "decimal", {"precision": 4}, "decimal is declared on string"),
            ("bytes", "decimal", {}, "a decimal's precision is a number from 1 to 38, not None"),
            ("bytes", "decimal", {"precision": 0}, "a decimal's precision"),
            ("bytes", "decimal", {"precision": 39}, "a decimal's precision"),
            ("bytes", "decimal", {"precision": 4, "scale": 5}, "a decimal's scale"),
            ("bytes", "decimal", {"precision": 4, "scale": -1}, "a decimal's scale"),
        )
    ),
    (
        {
            "name": "x",
            "type": {"type": "array", "items": {"type": "bytes", "logicalType": "decimal", "precision": 50}},
        },
        "field 'x': a decimal's precision",
    ),
    (
        {"name": "x", "type": {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 5}},
        "2 bytes do not hold 5 digits",
    ),
    ({"name": "x", "type": {"type": "fixed", "name": "F", "size": 2, "logicalType": "uuid"}}, "uuid has 16 bytes"),
    *(
        ({"name": "x", "type": kind, "default": default}, "field 'x': the default")
        for kind, default in (
            ("int", 2**40),
            ("int", "a"),
            ("int", True),
            ("long", 1.5),
            ("string", None),
            ("bytes", "\u0100"),
            ("bytes", "a\u0100"),
            ("double", "1.5"),
            ({"type": "fixed", "name": "F", "size": 2}, "a"),
            ({"type": "enum", "name": "C", "symbols": ["A"]}, "B"),
            ({"type": "long", "logicalType": "timestamp-millis"}, 10**17),
            ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 2}, "\x7f\xff"),
            ({"type": "array", "items": "int"}, ["a"]),
            (["null", "int"], "a"),
        )
    ),
]


@pytest.mark.parametrize(("field", "said"), REFUSED, ids=lambda one: one if isinstance(one, str) else "")
def test_a_mistake_is_told_with_its_field(tmp_path: Path, field: dict[str, Any], said: str) -> None:
    """Else the query, or each event, would fail while it runs."""
    path = odd_schemas.job_file(tmp_path, schema(field))
    with pytest.raises(UsageError) as refused:
        load_job(path)
    assert said in str(refused.value)
    assert "job.yaml:2: source.schema: " in str(refused.value)


def schema(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "E", "namespace": "t", "fields": [*odd_schemas.BASE, *fields]}


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    """One run names each of them."""
    some = [*REFUSED[:3], REFUSED[6], REFUSED[9], REFUSED[16]]
    path = odd_schemas.job_file(tmp_path, schema(*(one for one, _ in some)))
    with pytest.raises(UsageError) as refused:
        load_job(path)
    assert [said for _, said in some if said not in str(refused.value)] == []


@pytest.mark.parametrize(
    "field",
    [
        {"name": "x", "type": ["null", {"type": "map", "values": "int"}, {"type": "array", "items": "string"}]},
        {"name": "größe", "type": "int"},
        {"name": "x", "type": ["null", "int"], "default": 0},
        {"name": "x", "type": "double", "default": 1},
        {"name": "x", "type": "double", "default": "NaN"},
        {"name": "x", "type": "bytes", "default": "a\u00ff"},
        {"name": "x", "type": {"type": "bytes", "logicalType": "country", "precision": 1}, "default": "\x7f"},
        {"name": "x", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38}},
        {"name": "x", "type": {"type": "bytes", "logicalType": "decimal", "precision": 2}, "default": "\u00ff"},
        {"name": "x", "type": {"type": "string", "logicalType": "country"}},
        {"name": "x", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        {"name": "x", "type": {"type": "map", "values": "null"}},
        {
            "name": "x",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "default": "\x01",
        },
    ],
)
def test_what_spark_reads_is_not_refused(tmp_path: Path, field: dict[str, Any]) -> None:
    """Names in any letters, a default of any branch, logical types that Avro does not know."""
    assert load_job(odd_schemas.job_file(tmp_path, schema(field))).name == "odd"


def test_events_in_json_may_have_other_names(tmp_path: Path) -> None:
    """There a name is a text; only types must be ones that Avro has."""
    fields = [{"name": one, "type": "int"} for one in ("my-field", "1x", "a.b")]
    assert load_job(odd_schemas.job_file(tmp_path, schema(*fields), "json")).name == "odd"
    for kind in (["null", ["int"]], ["null", "int", "int"]):
        with pytest.raises(UsageError, match="field 'x': "):
            load_job(odd_schemas.job_file(tmp_path, schema({"name": "x", "type": kind}), "json"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(odd_schemas.schemas)
def test_whatever_stands_there_nothing_else_comes_out(tmp_path: Path, schema: Any) -> None:
    """A job, or one error with file, line and field."""
    for kind in ("avro", "json"):
        path = odd_schemas.job_file(tmp_path, schema, kind)
        text = said(path)
        assert not text or "job.yaml:2: source.schema: " in text


def said(path: Path) -> str:
    try:
        load_job(path)
    except UsageError as error:
        return str(error)
    return ""

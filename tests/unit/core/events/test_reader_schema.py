"""Symbols of a writer's enums that the job's schema does not know, and decimals that Spark would cut."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from cutwater.core.events.reader_schema import Correction, UnknownSymbols, reader_schema, unknown_symbols
from support.events import readings_of_schemas as told

READER = told.enum("UNKNOWN", "RED", default="UNKNOWN")
BLUE = UnknownSymbols(("BLUE",), "UNKNOWN")


def found(writer: Any, reader: Any, **field: Any) -> Any:
    return unknown_symbols([told.record(writer)], told.record(reader, **field)).get("test.Colour")


def test_a_symbol_that_takes_a_default_is_found() -> None:
    """Nullable on either side, in another namespace, under another name of the field; not without a default."""
    blue = told.enum("RED", "BLUE")
    for wrap in (lambda one: one, lambda one: ["null", one]):
        assert found(wrap(blue), wrap(READER)) == BLUE
    assert found(blue, ["null", READER]) == BLUE
    assert found({"type": "array", "items": blue}, {"type": "array", "items": READER}) == BLUE
    assert found({**blue, "namespace": "elsewhere"}, READER) == BLUE
    renamed = told.record(blue)
    renamed["fields"][2]["name"] = "old"
    assert unknown_symbols([renamed], told.record(READER, aliases=["old"])) == {"test.Colour": BLUE}
    assert found(told.enum("RED"), READER) is None
    assert found(blue, told.COLOURS) is None, "rejected, by its value"
    assert found("string", READER) is None
    assert unknown_symbols([told.record("int")], {**told.record("int"), "fields": []}) == {}


def test_of_several_writers_each_symbol_is_there_once() -> None:
    """In the order in which the schemas have them."""
    writers = [told.record(told.enum(*symbols)) for symbols in (("BLUE",), ("RED",), ("GREY", "BLUE"))]
    unknown = UnknownSymbols(("BLUE", "GREY"), "UNKNOWN")
    assert unknown_symbols(writers, told.record(READER)) == {"test.Colour": unknown}
    assert unknown_symbols([], told.record(READER)) == {}


def test_the_schema_reads_what_was_sent() -> None:
    """In each field of the enum, one that refers to it by name too; all other schemas stay as they are."""
    fields = [
        {"name": "x", "type": ["null", READER]},
        {"name": "y", "type": {"type": "map", "values": "Colour"}},
        {"name": "n", "type": "int"},
    ]
    reader = {"type": "record", "name": "Event", "namespace": "test", "fields": fields}
    enum = told.enum("BLUE", "RED")
    writer = {**reader, "fields": [{"name": "x", "type": enum}, *fields[1:]]}
    made = reader_schema(reader, [writer])
    of = Correction(unknown=BLUE)
    assert made.correction == Correction(fields={"x": of, "y": Correction(item=of, is_map=True), "n": None})
    out = io.BytesIO()
    event = {"x": "BLUE", "y": {"k": "BLUE"}, "n": 1}
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), event)
    for schema, seen in ((reader, "UNKNOWN"), (made.schema, "BLUE")):
        parsed = fastavro.parse_schema(writer), fastavro.parse_schema(schema)
        read = fastavro.schemaless_reader(io.BytesIO(out.getvalue()), *parsed)
        assert read == {"x": seen, "y": {"k": seen}, "n": 1}
    unchanged = reader_schema(reader, [reader])
    assert unchanged.schema is reader
    assert unchanged.correction is None


@pytest.mark.parametrize(
    ("kind", "digits", "precision"),
    [
        (told.decimal(9, 2), "decimal(9,2)", 38),
        (told.decimal(18, 0), "decimal(18,0)", 38),
        (told.decimal(19, 0), "", 19),
        ({**told.decimal(9, 2), "type": "fixed", "name": "D", "size": 8}, "", 9),
        ({**told.decimal(9, 2), "type": "fixed", "name": "D", "size": 9}, "decimal(9,2)", 21),
        ({**told.decimal(9, 2), "type": "fixed", "name": "D", "size": 12}, "decimal(9,2)", 28),
        ({**told.decimal(9, 2), "type": "fixed", "name": "D", "size": 40}, "decimal(9,2)", 38),
    ],
)
def test_a_decimal_that_spark_would_cut_is_read_with_more_digits(kind: Any, digits: str, precision: int) -> None:
    """Those of 18 digits or less whose bytes may exceed a long, at any depth."""
    item = {
        "type": "record",
        "name": "Item",
        "fields": [{"name": "of", "type": "int"}, {"name": "d", "type": kind}],
    }
    made = reader_schema(told.record(["null", {"type": "array", "items": item}]), [])
    of = Correction(item=Correction(fields={"of": None, "d": Correction(decimal=digits)}))
    assert made.correction == (Correction(fields={"key": None, "at": None, "x": of}) if digits else None)
    fastavro.parse_schema(made.schema)
    read = made.schema["fields"][2]["type"][1]["items"]["fields"][1]["type"]
    assert (read["precision"], read["scale"]) == (precision, kind["scale"])
    assert read.get("size") == kind.get("size")


@pytest.mark.parametrize(
    "kind",
    [
        "bytes",
        {"type": "bytes", "logicalType": "decimal"},
        {"type": "bytes", "logicalType": "other", "precision": 9},
    ],
)
def test_bytes_without_a_decimal_stay_as_they_are(kind: Any) -> None:
    """Avro ignores a logical type that it does not know, and a decimal without precision."""
    schema = told.record(kind)
    assert reader_schema(schema, []) == (schema, None)

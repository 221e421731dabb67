"""Symbols of a writer's enums that the job's schema does not know: found, read as they are, so that they count."""

from __future__ import annotations

import io
from typing import Any

import fastavro

from cutwater.core.events.enum_symbols import UnknownSymbols, all_unknown, unknown_symbols, widened
from support.events import readings_of_schemas as told

READER = told.enum("UNKNOWN", "RED", default="UNKNOWN")
BLUE = UnknownSymbols(("BLUE",), "UNKNOWN")


def found(writer: Any, reader: Any, **field: Any) -> Any:
    return unknown_symbols(told.record(writer), told.record(reader, **field)).get("x")


def test_a_symbol_that_takes_a_default_is_found() -> None:
    """Nullable on either side, in another namespace, under another name of the field; not without a default."""
    blue = told.enum("RED", "BLUE")
    for wrap in (lambda one: one, lambda one: ["null", one]):
        assert found(wrap(blue), wrap(READER)) == BLUE
    assert found(blue, ["null", READER]) == BLUE
    assert found({**blue, "namespace": "elsewhere"}, READER) == BLUE
    renamed = told.record(blue)
    renamed["fields"][2]["name"] = "old"
    assert unknown_symbols(renamed, told.record(READER, aliases=["old"])) == {"x": BLUE}
    assert found(told.enum("RED"), READER) is None
    assert found(blue, told.COLOURS) is None, "rejected, by its value"
    assert found("string", READER) is None
    assert unknown_symbols(told.record("int"), {**told.record("int"), "fields": []}) == {}


def test_of_several_writers_each_symbol_is_there_once() -> None:
    """In the order in which the schemas have them."""
    writers = [told.record(told.enum(*symbols)) for symbols in (("BLUE",), ("RED",), ("GREY", "BLUE"))]
    assert all_unknown(writers, told.record(READER)) == {"x": UnknownSymbols(("BLUE", "GREY"), "UNKNOWN")}
    assert all_unknown([], told.record(READER)) == {}


def test_a_widened_schema_reads_what_was_sent() -> None:
    """In each field of the enum, one that refers to it by name too; all other schemas stay as they are."""
    fields = [
        {"name": "x", "type": ["null", READER]},
        {"name": "y", "type": "Colour"},
        {"name": "n", "type": "int"},
    ]
    reader = {"type": "record", "name": "Event", "namespace": "test", "fields": fields}
    enum = told.enum("BLUE", "RED")
    writer = {**reader, "fields": [{"name": "x", "type": enum}, {"name": "y", "type": "Colour"}, fields[2]]}
    unknown = unknown_symbols(writer, reader)
    assert unknown == {"x": BLUE, "y": BLUE}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), {"x": "BLUE", "y": "BLUE", "n": 1})
    for schema, seen in ((reader, "UNKNOWN"), (widened(reader, unknown), "BLUE")):
        parsed = fastavro.parse_schema(writer), fastavro.parse_schema(schema)
        assert fastavro.schemaless_reader(io.BytesIO(out.getvalue()), *parsed) == {"x": seen, "y": seen, "n": 1}
    assert widened(reader, {}) is reader

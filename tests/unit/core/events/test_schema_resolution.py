"""Which Avro events are read by another schema: the table, against fastavro's reading, and names made alike."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from cutwater.core.events.schema_alignment import aligned
from cutwater.core.events.schema_compatibility import reading
from support.events import readings_of_schemas as told


def test_the_page_is_the_table() -> None:
    """docs/RESOLUTION.md says what `reading` decides; on a difference print `readings_of_schemas.page()` to it."""
    assert told.PAGE.read_text(encoding="utf-8") == told.page()


def read(writer: Any, reader: Any, value: Any) -> Any:
    """What fastavro reads of a value; raises what it raises."""
    out = io.BytesIO()
    event = {"key": "k", "at": told.AT_MS, "x": value}
    fastavro.schemaless_writer(out, fastavro.parse_schema(told.plain(told.record(writer))), event)
    schemas = fastavro.parse_schema(told.record(writer)), fastavro.parse_schema(told.record(reader))
    out.seek(0)
    return fastavro.schemaless_reader(out, *schemas)["x"]


@pytest.mark.parametrize("pair", told.PAIRS, ids=lambda one: f"{told.shown(one.writer)}-{told.shown(one.reader)}")
def test_the_table_is_avros_but_for_other_meanings(pair: told.Pair) -> None:
    """What it calls read is read; what it rejects by value fastavro refuses; the rest Avro does not notice."""
    found, refused = reading(told.record(pair.writer), told.record(pair.reader)), 0
    for value in pair.values:
        try:
            read(pair.writer, pair.reader, value)
        except (ValueError, TypeError, LookupError, fastavro.read.SchemaResolutionError):
            refused += 1
    if not found.problems:
        assert not refused
    if found.unfit and not found.refused:
        assert refused


@pytest.mark.parametrize("writer", told.TYPES)
def test_each_type_by_each_type_is_avros_but_for_other_meanings(writer: str) -> None:
    """Whatever is read, fastavro reads as well; what is rejected by value, it refuses."""
    for pair in told.EVERY[writer]:
        test_the_table_is_avros_but_for_other_meanings(pair)


def test_what_the_findings_counted_as_other_values_is_told() -> None:
    """A scale, a unit, a type where none was: each is refused, in a union and in a list, too."""
    for writer, reader in (
        (told.decimal(12, 3), told.MONEY),
        (told.MILLIS, told.MICROS),
        ("bytes", told.MONEY),
        ("long", told.MILLIS),
        ("string", told.logical("uuid", "string")),
    ):
        for wrap in (lambda one: one, lambda one: ["null", one], lambda one: {"type": "array", "items": one}):
            found = reading(told.record(wrap(writer)), told.record(wrap(reader)))
            assert len(found.refused) == 1, (writer, reader)
            assert found.refused[0].startswith("x")
    assert reading(told.record(told.MONEY), told.record(told.decimal(14, 2))).problems == ()
    renamed = {**told.record("int"), "name": "Sale"}
    assert reading(renamed, told.record("int")).problems == ()


def test_a_writer_s_schema_takes_the_reader_s_names() -> None:
    """Records, enums and fields that an alias joins; what refers to them; what the reader does not have stays."""
    kind = {"type": "enum", "name": "Kind", "symbols": ["A"]}
    writer = {
        "type": "record",
        "name": "Old",
        "namespace": "b",
        "fields": [
            {"name": "n", "type": kind},
            {"name": "m", "type": "Kind"},
            {"name": "self", "type": ["null", "Old"]},
            {"name": "many", "type": {"type": "array", "items": "b.Kind"}},
            {"name": "own", "type": {"type": "fixed", "name": "Own", "size": 1}},
        ],
    }
    reader = {
        "type": "record",
        "name": "New",
        "namespace": "c",
        "fields": [{"name": "now", "aliases": ["n"], "type": kind}, {"name": "m", "type": "c.Kind"}],
    }
    made = aligned(writer, reader)
    assert (made["namespace"], made["name"]) == ("c", "New")
    assert [one["name"] for one in made["fields"]] == ["now", "m", "self", "many", "own"]
    types = [one["type"] for one in made["fields"]]
    assert types[0] == {**kind, "namespace": "c"}
    assert types[1:4] == ["c.Kind", ["null", "c.New"], {"type": "array", "items": "c.Kind"}]
    assert types[4]["namespace"] == "b"
    event = {"n": "A", "m": "A", "self": None, "many": ["A"], "own": b"x"}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), event)
    out.seek(0)
    parsed = fastavro.parse_schema(made), fastavro.parse_schema(reader)
    assert fastavro.schemaless_reader(out, *parsed) == {"now": "A", "m": "A"}

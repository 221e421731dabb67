"""Avro events as they are read without Spark: values inside of others, and defaults."""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.adapters.events.avro_events import AvroReader
from cutwater.core.events.formats import AVRO, SINGLE_OBJECT_MARKER, WriterSchema
from cutwater.core.events.rejection import UNDECODABLE, Flaw

HEADER = SINGLE_OBJECT_MARKER + b"8 bytes."
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
HUGE = b"\x08\x7f\xff\xff\xff"
"""21,474,836.47 of MONEY."""


def record(*fields: dict[str, Any], name: str = "Event") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def read(reader: dict[str, Any], writer: dict[str, Any], body: bytes) -> Any:
    return AvroReader(AVRO, reader, [WriterSchema(HEADER, writer, "writer")]).read(HEADER + body)


@pytest.mark.parametrize(
    ("type_", "body", "path"),
    [
        (MONEY, HUGE, "a"),
        (["null", MONEY], b"\x02" + HUGE, "a"),
        (record({"name": "b", "type": MONEY}, name="Inner"), HUGE, "a.b"),
        ({"type": "array", "items": MONEY}, b"\x04\x02\x01" + HUGE + b"\0", "a[1]"),
        ({"type": "map", "values": MONEY}, b"\x02\x02k" + HUGE + b"\0", "a['k']"),
    ],
)
def test_a_decimal_beyond_its_type_is_found_wherever_it_is(type_: Any, body: bytes, path: str) -> None:
    """The driver rejects it with the same path (tests/spark has its rules)."""
    schema = record({"name": "a", "type": type_})
    assert read(schema, schema, body) == Flaw(UNDECODABLE, "is beyond decimal(4,2)", path)


@pytest.mark.parametrize(("default", "value"), [("Infinity", float("inf")), (3, 3.0), (-0.5, -0.5)])
def test_a_default_of_a_number_is_a_number(default: Any, value: float) -> None:
    written = {"name": "a", "type": "string"}
    schema = record(written, {"name": "x", "type": "double", "default": default})
    found = read(schema, record(written), b"\x02k")
    assert found == {"a": "k", "x": value}
    assert type(found["x"]) is float

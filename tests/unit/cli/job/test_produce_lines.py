"""The lines that `cutwater produce` reads, as events."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from cutwater.adapters.avro.codec import MARKER, crc64
from cutwater.adapters.events.avro_events import AvroReader
from cutwater.adapters.events.event_encoder import event_encoder
from cutwater.adapters.events.line_values import line_values
from cutwater.cli.job.produce import EventLines
from cutwater.core.errors import UsageError
from cutwater.core.events import json_records
from cutwater.core.events.formats import WriterSchema
from cutwater.core.events.json_events import json_fields
from support.events import wide

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
FIELDS: dict[str, Any] = {
    "key": {"type": "string", "doc": "A timestamp as its producer writes it."},
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "kind": {"type": "enum", "name": "timestamp_kind", "symbols": ["event", "ingest"]},
    "seen": ["null", {"type": "long", "logicalType": "timestamp-micros"}],
    "here": {"type": "long", "logicalType": "local-timestamp-millis"},
    "x": "double",
}
SCHEMA = {"type": "record", "name": "E", "fields": [{"name": name, "type": of} for name, of in FIELDS.items()]}
LINE = (
    '{"key": "2024", "at": "2024-01-01T12:00:00Z", "kind": "event", "seen": "2024-01-01 12:00:00", '
    '"here": "2024-01-01T12:00:00", "x": 1.5}\n'
)


def read(folder: Path, text: str) -> list[dict[str, Any]]:
    (folder / "events.jsonl").write_bytes(text.encode())
    return list(EventLines(folder / "events.jsonl", line_values(SCHEMA)))


def test_only_fields_of_times_are_read_as_times(tmp_path: Path) -> None:
    [event] = read(tmp_path, LINE)
    assert event == {"key": "2024", "at": NOON, "kind": "event", "seen": NOON, "here": NOON, "x": 1.5}
    event_encoder(wide.job(tmp_path, SCHEMA, "format: avro"), None)(event)


def test_a_file_may_begin_with_a_byte_order_mark_and_have_empty_lines(tmp_path: Path) -> None:
    assert len(read(tmp_path, f"\ufeff{LINE}\r\n\n{LINE}")) == 2


def test_the_standard_input_may_begin_with_a_byte_order_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"\ufeff{LINE}{LINE}"))
    assert len(list(EventLines(Path("-"), dict))) == 2
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{LINE}\ufeff{LINE}"))
    with pytest.raises(UsageError):
        list(EventLines(Path("-"), dict))


@pytest.mark.parametrize(
    ("line", "told"),
    [('{"x": 1e400}', r"1E\+400 is beyond a double"), ('{"at": "noon"}', "noon"), ("[1]", "object")],
)
def test_a_value_is_never_made_another_one(line: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=told):
        read(tmp_path, line)


AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
ID = UUID("0b8f5a1e-5a4e-4f0a-8a43-6f0f6a3c7a11")
TYPES: dict[str, Any] = {
    "key": "string",
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "amount": AMOUNT,
    "raw": "bytes",
    "id": {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"},
    "x": "double",
    "lines": {
        "type": "array",
        "items": {
            "type": "record",
            "name": "Line",
            "fields": [
                {"name": "price", "type": AMOUNT},
                {"name": "seen", "type": ["null", "long"], "default": None},
            ],
        },
    },
    "paid": {"type": "map", "values": {"type": "long", "logicalType": "timestamp-millis"}},
}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": name, "type": of}
        if name in ("key", "at")
        else {"name": name, "type": ["null", of], "default": None}
        for name, of in TYPES.items()
    ],
}


@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('"amount": 123456789012345678.25', {"amount": Decimal("123456789012345678.25")}),
        ('"amount": "12.50"', {"amount": Decimal("12.50")}),
        ('"amount": 12', {"amount": Decimal(12)}),
        ('"raw": "/w=="', {"raw": b"\xff"}),
        (f'"id": "{ID}"', {"id": ID.bytes}),
        ('"x": "NaN"', {"x": "NaN"}),
        ('"x": 0.1', {"x": 0.1}),
        ('"lines": [{"price": 0.10}, {"price": "7"}]', {"lines": [Decimal("0.10"), Decimal(7)]}),
        ('"paid": {"a": "1970-01-01T00:00:01Z", "b": 2000}', {"paid": {"a": 1_000_000, "b": 2_000_000}}),
    ],
)
def test_what_json_has_no_type_for_is_written_as_in_json_events(
    form: str, line: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    """Decimals, bytes, and times inside of others were refused, however they were written."""
    (tmp_path / "events.jsonl").write_text(f'{{"key": "a", "at": 0, {line}}}')
    [event] = EventLines(tmp_path / "events.jsonl", line_values(ORDER))
    value = event_encoder(wide.job(tmp_path, ORDER, f"format: {form}"), None)(event)
    header = MARKER + crc64(ORDER)
    read = (
        AvroReader("avro", ORDER, [WriterSchema(header, ORDER, "")]).read(value)
        if form == "avro"
        else json_records.read(value, json_fields(ORDER))
    )
    assert isinstance(read, dict), read
    found = {name: read[name] for name in expected}
    if "lines" in found:
        found["lines"] = [one["price"] for one in found["lines"]]
    if expected.get("x") == "NaN":
        found["x"] = str(found["x"]).replace("nan", "NaN")
    assert found == expected


@pytest.mark.parametrize(
    ("line", "told"),
    [
        *(('"amount": 0.001', "amount"), ('"amount": "many"', "amount"), ('"amount": 1e400', "amount")),
        *(
            ('"raw": "%"', "'%' is no base64"),
            ('"x": 1e400', "beyond a double"),
            ('"paid": {"a": "noon"}', "noon"),
        ),
        ('"x": 1e99999999999999999999', "beyond a double"),
    ],
)
def test_what_does_not_fit_is_named(line: str, told: str, tmp_path: Path) -> None:
    encode = event_encoder(wide.job(tmp_path, ORDER, "format: avro"), None)
    (tmp_path / "events.jsonl").write_text(f'{{"key": "a", "at": 0, {line}}}')
    with pytest.raises(UsageError, match=told):
        list(map(encode, EventLines(tmp_path / "events.jsonl", line_values(ORDER))))

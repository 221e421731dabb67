"""The lines that `cutwater produce` reads, as events."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.events.event_encoder import event_encoder
from cutwater.cli.job.produce import EventLines, time_fields
from cutwater.core.errors import UsageError
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
    return list(EventLines(folder / "events.jsonl", time_fields(wide.job(folder, SCHEMA, "format: avro"))))


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
    assert len(list(EventLines(Path("-"), set()))) == 2
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{LINE}\ufeff{LINE}"))
    with pytest.raises(UsageError):
        list(EventLines(Path("-"), set()))


@pytest.mark.parametrize(
    ("line", "told"), [('{"x": 1e400}', "1e400 is beyond a double"), ('{"at": "noon"}', "noon"), ("[1]", "object")]
)
def test_a_value_is_never_made_another_one(line: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=told):
        read(tmp_path, line)

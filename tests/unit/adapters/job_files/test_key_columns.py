"""`source.key` as a list: the job that it makes, and a line for each mistake."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.events.key_columns import KeyColumn, column_text, key_prefix, key_text, key_values
from cutwater.core.events.rejection import KEY_TOO_LARGE, MAX_KEY_BYTES, NO_KEY
from cutwater.core.job.job import Job
from cutwater.core.job.usable_events import find_flaw

SCHEMA = """{"type": "record", "name": "Leg", "namespace": "test", "fields": [
  {"name": "airport", "type": ["null", "string"]}, {"name": "carrier", "type": "string"},
  {"name": "number", "type": "int"}, {"name": "late", "type": "double"}, {"name": "to", "type": "string"},
  {"name": "key", "type": "string"},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}"""
FILE = """job: legs
source:
  topic: legs.events
  schema: event.avsc
  key: {key}
  event_time: at
window: {{kind: tumbling, size: 1m}}
lateness: 1h
retention: 30d
measures:
  legs: {{measure: count}}
"""


def load(folder: Path, key: str, **more: str) -> Job:
    (folder / "event.avsc").write_text(SCHEMA)
    path = folder / "job.yaml"
    path.write_text(FILE.format(key=key) + "".join(f"{name}: {text}\n" for name, text in more.items()))
    return load_job(path)


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ("[airport, carrier]", (KeyColumn("airport", "string"), KeyColumn("carrier", "string"))),
        ("[number]", (KeyColumn("number", "long"),)),
        ("[]", ()),
    ],
)
def test_a_list_becomes_columns(tmp_path: Path, key: str, columns: Sequence[KeyColumn]) -> None:
    """And is part of a row's meaning; a single key is told as it always was."""
    job = load(tmp_path, key)
    assert (job.key_field, job.key_columns) == ("", columns)
    assert f'"key": {[[one.name, one.kind] for one in columns]}'.replace("'", '"') in job.meaning
    assert '"key": "carrier"' in load(tmp_path, "carrier").meaning


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("[airport, carier]", "source.key.column 2: the schema has no field 'carier'; .* did you mean 'carrier'?"),
        ("[airport, airport]", "source.key.column 2: 'airport' is in the list twice"),
        ("[late]", "source.key.column 1: field 'late' is double; allowed types: boolean, date, "),
        ("[to]", "source.key.column 1: 'to' is a column of each row, or a parameter of the API: compute a column"),
        ("[key]", "source.key.column 1: 'key' is a column of each row"),
        ("[airport, 5]", "source.key.*string"),
        (str([f"c{at}" for at in range(9)]), "source.key: has 9 columns; allowed are 8"),
    ],
)
def test_mistakes_have_a_line(tmp_path: Path, key: str, told: str) -> None:
    """Each names the file, the line of the key, and what to do."""
    with pytest.raises(UsageError, match=f"job.yaml:5: {told}"):
        load(tmp_path, key)


def test_a_measure_needs_another_name(tmp_path: Path) -> None:
    """Rows have a column for it and for the key."""
    with pytest.raises(
        UsageError, match=r"'carrier' is also the name of a measure or derived value.*rename 'Carrier'"
    ):
        load(tmp_path, "[carrier]", derived="{Carrier: legs * 2}")


def test_events_without_a_usable_key_are_rejected(tmp_path: Path) -> None:
    """A null in any column, and a text of too many bytes, as the driver does."""
    job = load(tmp_path, "[airport, carrier]")
    event: dict[str, Any] = {"airport": "JFK", "carrier": "UA", "at": 0}
    room = MAX_KEY_BYTES - len('["","UA"]')
    assert job.key_of(event) == '["JFK","UA"]'
    assert replace(job, key_columns=()).key_of(event) == "[]"
    for airport, flaw in (
        (None, (NO_KEY, "airport")),
        ("x" * room, None),
        ("x" * (room + 1), (KEY_TOO_LARGE, "airport, carrier")),
        ("é" * (room // 2), None),
        ("\x01" * 700, (KEY_TOO_LARGE, "airport, carrier")),
    ):
        found = find_flaw(job, {}, {**event, "airport": airport}, None)
        assert (found and (found.reason, found.field)) == flaw


def test_a_key_is_read_back() -> None:
    """With a number as one; no other text is a key of these columns."""
    columns = (KeyColumn("airport", "string"), KeyColumn("number", "long"))
    assert key_text(["\x0b\x1f\\u000b\n/\x7fé😀", "7"]) == '["\\u000B\\u001F\\\\u000b\\n/\x7fé😀","7"]'
    assert key_values(key_text(['a"b', "-7"]), columns) == {"airport": 'a"b', "number": -7}
    assert key_prefix(["JFK"]) == '["JFK",'
    assert key_prefix([]) == "["
    assert column_text(columns[1], "007") == "7"
    for text in (
        "JFK",
        '["JFK"]',
        '["JFK",7]',
        '["JFK","x"]',
        '["JFK","7","8"]',
        "[",
        "5",
        '{"a":1}',
        "[" * 9_999,
    ):
        with pytest.raises(UsageError, match=r"is no key of this job|no whole number"):
            key_values(text, columns)
    assert re.match("number='x' is no whole number", str(_error(columns[1], "x")))


def _error(column: KeyColumn, text: str) -> UsageError:
    with pytest.raises(UsageError) as raised:
        column_text(column, text)
    return raised.value

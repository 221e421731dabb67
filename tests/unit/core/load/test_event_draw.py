"""Random events of a load: they fit their schema, and have the key and time that are asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.events.json_events import encode, json_fields
from cutwater.core.events.key_columns import KeyColumn
from cutwater.core.job.columns import ComputedColumn
from cutwater.core.job.measures import FieldType
from cutwater.core.load.event_draw import EventDraw
from cutwater.core.load.time_field import TimeField
from cutwater.core.load.value_draw import Occasion
from support.events import complex_types

FLIGHTS = load_job(Path(__file__).parents[4] / "deploy/jobs/flights.yaml")
AT_US = 1_700_000_000_123_456
PLACE: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "fields": [
        {
            "name": "of",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Of",
                    "fields": [
                        {"name": "id", "type": ["null", "string"]},
                        {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
                    ],
                },
            ],
        },
        {"name": "flag", "type": "boolean"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a", "b", "c"]}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "code", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "number", "type": "long"},
        {"name": "stamp", "type": "double"},
        {"name": "text", "type": "string"},
    ],
}


def job_of(schema: dict[str, Any], time_field: str, **columns: str) -> Any:
    made = tuple(ComputedColumn(name, sql, FieldType("string")) for name, sql in columns.items())
    return replace(FLIGHTS, event_schema=schema, time_field=time_field, columns=made)


@given(st.integers(0, 10_000), st.integers(0, 999))
def test_an_event_fits_any_schema(seed: int, number: int) -> None:
    """As Avro and as JSON; it comes back from Avro with the key and the time that were asked for."""
    schema = complex_types.Nested(seed).schema
    job = replace(job_of(schema, "at"), key_field="key")
    event = EventDraw(job, 1_000, TimeField(job)).make(Occasion(number, AT_US, Random(seed)))
    back = Codec(schema).decode(Codec(schema).encode(event))
    assert back["key"] == f"key-{number}"
    assert back["at"].timestamp() == AT_US // 1_000 / 1_000
    assert encode(event, json_fields(schema))


@pytest.mark.parametrize("keys", [1, 2, 7, 30, 121])
def test_every_number_is_a_key_of_its_own(keys: int) -> None:
    """Also of several columns, each with few values."""
    columns = KeyColumn("number", "long"), KeyColumn("text", "string")
    job = replace(job_of(PLACE, "seen", seen="of.seen"), key_columns=columns)
    draw = EventDraw(job, keys, TimeField(job))
    found = [draw.make(Occasion(number, AT_US, Random(0))) for number in range(keys)]
    assert len({job.key_of(one) for one in found}) == keys
    assert all(len({one[name] for one in found}) <= keys**0.5 + 1 for name in ("number", "text"))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("flag", [False, True]),
        ("kind", ["a", "b", "c"]),
        ("day", [0, 1, 2]),
        ("price", ["0.00", "0.01", "0.02"]),
        ("number", [0, 1, 2]),
        ("text", ["text-0", "text-1", "text-2"]),
    ],
)
def test_a_key_has_values_of_its_type(name: str, values: list[Any]) -> None:
    job = replace(job_of(PLACE, "seen", seen="of.seen"), key_columns=(KeyColumn(name, "string"),))
    draw = EventDraw(job, 1_000, TimeField(job))
    found = [draw.make(Occasion(number, AT_US, Random(0)))[name] for number in range(len(values))]
    assert [str(one) for one in found] == [str(one) for one in values]


def test_a_time_and_a_key_inside_of_a_record() -> None:
    """The record is never null, and neither are they."""
    job = replace(job_of(PLACE, "seen", seen="of.seen", who="of.id"), key_columns=(KeyColumn("who", "string"),))
    draw = EventDraw(job, 10, TimeField(job))
    for seed in range(100):
        assert draw.make(Occasion(3, AT_US, Random(seed)))["of"] == {"id": "id-3", "seen": AT_US}


def test_a_computed_event_time_needs_its_field() -> None:
    job = job_of(PLACE, "seen", seen="timestamp_millis(number)")
    with pytest.raises(UsageError, match="--time-field"):
        TimeField(job)
    assert TimeField(job, "number").value(AT_US) == AT_US // 1_000
    assert TimeField(job, "number", "s").value(AT_US) == AT_US // 1_000_000
    assert TimeField(job, "stamp", "s").value(AT_US) == AT_US / 1_000_000
    assert TimeField(job, "text").value(AT_US) == "2023-11-14T22:13:20.123456Z"
    assert TimeField(job, "of.seen", "s").value(AT_US) == AT_US, "a timestamp has its own unit"
    for wrong in ("flag", "of", "nothing", "of.seen.more", "1 + number"):
        with pytest.raises(UsageError):
            TimeField(job, wrong)

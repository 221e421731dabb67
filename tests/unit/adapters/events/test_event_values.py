"""Values as programs give them: the same event is written in Avro and in JSON, or neither."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import numpy as np
import pytest

from cutwater.adapters.avro.codec import HEADER_BYTES
from cutwater.adapters.events.event_encoder import event_encoder
from cutwater.core.errors import UsageError
from cutwater.core.events import json_records
from cutwater.core.events.json_events import json_fields
from support.events import wide

ID = UUID("0b8f5a1e-5a4e-4f0a-8a43-6f0f6a3c7a11")
NOON = datetime(2024, 1, 1, 12)
NOON_MICROS = 1_704_110_400_000_000
AT = {"type": "long", "logicalType": "timestamp-millis"}
FIELDS: dict[str, Any] = {
    "key": "string",
    "at": AT,
    "id": {"type": "string", "logicalType": "uuid"},
    "raw": {"type": "fixed", "name": "Raw", "size": 16, "logicalType": "uuid"},
    "n": "long",
    "x": "double",
    "f": "float",
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    "paid": {"type": "fixed", "name": "Paid", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 2},
    "ids": {"type": "array", "items": {"type": "string", "logicalType": "uuid"}},
    "times": {"type": "map", "values": ["null", AT]},
    "inner": {"type": "record", "name": "Inner", "fields": [{"name": "m", "type": "int"}]},
}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": name, "type": of}
        if name in ("key", "at")
        else {"name": name, "type": ["null", of], "default": None}
        for name, of in FIELDS.items()
    ],
}
Written = Callable[[dict[str, Any]], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as machine:
        machine.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Returns an event as each format writes it, read again: by fastavro without logical types, and as JSON."""
    avro = event_encoder(wide.job(tmp_path, SCHEMA, "format: avro"), None)
    json = event_encoder(wide.job(tmp_path, SCHEMA, "format: json"), None)
    bare = without_logical_types(SCHEMA)

    def both(event: dict[str, Any]) -> list[dict[str, Any]]:
        event = {"key": "a", "at": 0, **event}
        found: Any = fastavro.schemaless_reader(io.BytesIO(avro(event)[HEADER_BYTES:]), bare, None)
        other = json_records.read(json(event), json_fields(SCHEMA))
        assert isinstance(other, dict), other
        # The reader of JSON has times in microseconds.
        found["at"] *= 1_000
        for name in ("price", "paid"):
            found[name] = found[name] and Decimal(int.from_bytes(found[name], "big", signed=True)).scaleb(-2)
        found["times"] = found["times"] and {name: one and one * 1_000 for name, one in found["times"].items()}
        return [{name: one[name] for name in event if name != "key"} for one in (found, other)]

    return both


def without_logical_types(node: Any) -> Any:
    if isinstance(node, list):
        return [without_logical_types(one) for one in node]
    if isinstance(node, dict):
        return {name: without_logical_types(one) for name, one in node.items() if name != "logicalType"}
    return node


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"at": NOON}, {"at": NOON_MICROS}),
        ({"at": NOON.replace(tzinfo=UTC)}, {"at": NOON_MICROS}),
        ({"times": {"a": NOON, "b": None}}, {"times": {"a": NOON_MICROS, "b": None}}),
        ({"id": ID}, {"id": str(ID)}),
        ({"ids": [ID, str(ID)]}, {"ids": [str(ID)] * 2}),
        ({"raw": ID}, {"raw": ID.bytes}),
        ({"n": np.int64(5), "x": np.float32(1.5)}, {"n": 5, "x": 1.5}),
        ({"n": ("long", 5)}, {"n": 5}),
        ({"inner": {"m": np.int32(7)}}, {"inner": {"m": 7}}),
        ({"f": float("inf")}, {"f": float("inf")}),
        (
            {"price": Decimal("999.99"), "paid": Decimal("-999.9")},
            {"price": Decimal("999.99"), "paid": Decimal("-999.90")},
        ),
        ({"price": Decimal("-0.00"), "paid": Decimal("-0.00")}, {"price": Decimal(0), "paid": Decimal(0)}),
        (
            {"price": b"\x00\x96", "paid": bytearray(b"\xff\xff\xff\x6a")},
            {"price": Decimal("1.50"), "paid": Decimal("-1.50")},
        ),
    ],
)
def test_a_value_is_the_same_in_each_format(
    written: Written, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    expected = {"at": 0, **expected}
    for found in written(given):
        assert {name: found[name] for name in expected} == expected


BEYOND: list[dict[str, Any]] = [
    *({"f": 1e39}, {"n": np.float64(1.5)}, {"n": True}, {"at": "noon"}, {"inner": 5}),
    *({"price": Decimal(1000)}, {"price": Decimal("0.001")}, {"paid": Decimal("-1E+3")}, {"paid": Decimal("NaN")}),
]


@pytest.mark.parametrize("given", BEYOND, ids=str)
def test_a_value_beyond_its_type_is_refused(written: Written, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(given))):
        written(given)

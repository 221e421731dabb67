"""The types of `source.key`, and `source.null_key`: the job that they make, and what is refused."""

from __future__ import annotations

import json
import uuid
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.events.avro_events import AvroReader
from cutwater.adapters.events.event_encoder import event_encoder, known_schemas
from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.job_files import expressions
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UsageError
from cutwater.core.events import json_records
from cutwater.core.events.json_events import json_fields
from cutwater.core.events.key_columns import DAYS, KeyColumn
from cutwater.core.events.rejection import DATES_RULE, NO_KEY, NULL_RULE, UNDECODABLE, Flaw
from cutwater.core.job.job import Job
from cutwater.core.job.usable_events import find_flaw

TYPES: dict[str, Any] = {
    "flag": "boolean",
    "day": {"type": "int", "logicalType": "date"},
    "id": {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"},
    "written": {"type": "string", "logicalType": "uuid"},
    "class": {"type": "enum", "name": "Class", "symbols": ["first", "second"]},
    "again": "Class",
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "huge": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
    "tiny": {"type": "fixed", "name": "Tiny", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 38},
    "name": "string",
    "number": "int",
    "ratio": "float",
    "blob": "bytes",
    "place": {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}]},
    "seen": {"type": "long", "logicalType": "timestamp-micros"},
    "wall": {"type": "long", "logicalType": "local-timestamp-millis"},
    "null": "string",
}
NESTED = ("place",)
FILE = """job: legs
source:
  topic: legs.events
  schema: event.avsc
  columns: {columns}
  key: {key}
  null_key: {nulls}
  event_time: at
  format: {format}
window: {{kind: tumbling, size: 1m}}
lateness: 1h
retention: 30d
measures:
  legs: {{measure: count}}
"""
EVENT: dict[str, Any] = {
    "flag": True, "day": date(2013, 1, 31), "id": uuid.UUID(int=15).bytes, "written": "A" * 8, "class": "first",
    "again": "second",
    "price": Decimal("-1.5"), "name": "JFK", "number": 7, "ratio": 0.5, "blob": b"", "seen": 0, "wall": 0,
    "huge": Decimal(10), "tiny": Decimal(0),
    "null": "", "place": {"x": 1}, "at": 1_700_000_000_000,
}  # fmt: skip


def load(
    folder: Path,
    key: str,
    nulls: str = "reject",
    kind: str = "avro",
    nullable: bool = False,
    columns: str = "{}",
) -> Job:
    """`kind`: json leaves out the types that events in JSON cannot have."""
    left_out = ("wall", *NESTED) if kind == "json" else ()
    types = {name: one for name, one in TYPES.items() if name not in left_out}
    fields = [{"name": name, "type": ["null", one] if nullable else one} for name, one in types.items()]
    fields.append({"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}})
    schema = {"type": "record", "name": "Leg", "namespace": "test", "fields": fields}
    (folder / "event.avsc").write_text(json.dumps(schema))
    path = folder / "job.yaml"
    path.write_text(FILE.format(key=key, nulls=nulls, format=kind, columns=columns))
    return load_job(path)


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [
        ("flag", "boolean", "true"),
        ("day", "date", "2013-01-31"),
        ("id", "uuid", "00000000-0000-0000-0000-00000000000f"),
        ("written", "string", "A" * 8),
        ("class", "string", "first"),
        ("price", "decimal(9,2)", "-1.50"),
        ("name", "string", "JFK"),
        ("number", "string", "7"),
    ],
)
def test_a_key_of_each_type(tmp_path: Path, key: str, kind: str, text: str) -> None:
    """Plain text; the meaning has the type of a key that no earlier version had, so that it cannot change."""
    job = load(tmp_path, key)
    assert (job.key_kind, job.key_columns, job.key_of(EVENT), job.stored_key(text)) == (kind, None, text, text)
    assert json.loads(job.meaning)["key"] == (key if kind == "string" else [key, kind])
    listed = load(tmp_path, f"[{key}]")
    assert listed.key_of(EVENT) == json.dumps([text])
    assert json.loads(listed.meaning)["key"] == [[key, "long" if key == "number" else kind]]


@pytest.mark.parametrize("kind", ["avro", "json"])
def test_a_decoded_event_has_the_same_key(tmp_path: Path, kind: str) -> None:
    """As a sample is read, whose dates, decimals and UUIDs have other forms."""
    job = load(tmp_path, "[flag, day, id, class, price, name, number]", kind=kind)
    encoded = event_encoder(job, None)(
        {name: EVENT[name] for name in (one["name"] for one in job.event_schema["fields"])}
    )
    if kind == "json":
        read: Any = json_records.read(encoded, json_fields(job.event_schema))
    else:
        read = AvroReader("avro", job.event_schema, known_schemas(job, None)).read(encoded)
    assert job.key_of(read) == job.key_of(EVENT)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (
            "ratio",
            r"field 'ratio' is float; .* cast it to a decimal, as in cast\(ratio as decimal\(18,2\)\), in source",
        ),
        ("[blob]", r"field 'blob' is bytes; .* make a text of it, as in hex\(blob\), in source.columns"),
        (
            "place",
            r"field 'place' is record; .* choose a part of it, as in place.name or place\[0\], in source.columns",
        ),
        (
            "seen",
            r"field 'seen' is timestamp-micros; .* make a date of it, as in to_date\(seen\), or a text in source",
        ),
        (
            "wall",
            "field 'wall' is local-timestamp-millis; allowed types: .*, string, uuid$",
        ),
    ],
)
def test_other_types_are_refused(tmp_path: Path, key: str, told: str) -> None:
    """With the way to a key, where there is one."""
    with pytest.raises(UsageError, match=rf"job.yaml:6: source.key.*{told}"):
        load(tmp_path, key)


FINGERPRINTS = {
    "name": "6529508e4c5d2648",
    "number": "921041dddf17cd5d",
    "written": "8e50efbfccf0b83f",
    "[name, number, class]": "ed7e60494ce44e88",
    "[]": "4b5b9863fd88748a",
}
"""By the key, as the version before these types had them."""


@pytest.mark.parametrize("key", FINGERPRINTS)
def test_earlier_keys_mean_what_they_meant(tmp_path: Path, key: str) -> None:
    """A running job goes on, and regions merge."""
    assert load(tmp_path, key).fingerprint == FINGERPRINTS[key]


COLUMNS = "{born: {sql: to_date(seen), type: date}, one: {sql: written, type: uuid}}"


def test_a_computed_column_may_be_a_date_or_uuid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Spark is not installed; a producer, which does not compute them, sends no key."""
    monkeypatch.setattr(expressions, "find_spec", lambda _name: None)
    job = load(tmp_path, "[born, one, name]", "group", columns=COLUMNS)
    assert [one.kind for one in job.key_parts] == ["date", "uuid", "string"]
    writer = EventWriter(Cluster("127.0.0.1:9"), job)
    assert writer.encoded(EVENT).key is None
    plain = EventWriter(Cluster("127.0.0.1:9"), load(tmp_path, "[price, day, name]", "group", nullable=True))
    assert plain.encoded({**EVENT, "name": None}).key == b'["-1.50","2013-01-31",null]'
    with pytest.raises(UsageError, match="outside the years 1 to 9999"):
        plain.encoded({**EVENT, "day": DAYS[1] + 1})


def test_a_null_is_a_value_of_its_own(tmp_path: Path) -> None:
    """By `null_key: group`; a single key is then a list of one column, as any plain text may be a value."""
    job, listed = (load(tmp_path, key, "group", nullable=True) for key in ("name", "[name]"))
    assert (job.definition, job.key_columns, job.key_field) == (listed.definition, listed.key_columns, "")
    assert job.key_columns == (KeyColumn("name", "string", nullable=True),)
    assert json.loads(job.meaning)["key"] == [["name", "string", "null"]]
    assert [job.key_of({"name": one}) for one in (None, "null", "[null]")] == ["[null]", '["null"]', '["[null]"]']
    assert find_flaw(job, {}, {"name": None, "at": 0}, None) is None
    rejecting = load(tmp_path, "[name]", nullable=True)
    assert find_flaw(rejecting, {}, {"name": None, "at": 0}, None) == Flaw(NO_KEY, NULL_RULE, "name")
    assert rejecting.fingerprint != job.fingerprint


@pytest.mark.parametrize(
    ("key", "nulls", "told"),
    [
        ("[]", "group", "source.null_key: the key has no column that could be null"),
        ("name", "grup", "source.null_key: .*'reject' or 'group'.*did you mean 'group'"),
        ('"null"', "group", "source.key: 'null' is a column of each row, or a parameter of the API"),
    ],
)
def test_mistakes_with_nulls(tmp_path: Path, key: str, nulls: str, told: str) -> None:
    """Each has its line."""
    with pytest.raises(UsageError, match=told):
        load(tmp_path, key, nulls)


def test_a_column_may_be_called_null(tmp_path: Path) -> None:
    """Where no null is a key, as before."""
    assert load(tmp_path, '["null"]').key_columns == (KeyColumn("null", "string"),)


@pytest.mark.parametrize("days", [DAYS[0] - 1, DAYS[0], DAYS[1], DAYS[1] + 1, 2**31 - 1])
def test_a_day_of_other_years_is_rejected(tmp_path: Path, days: int) -> None:
    """As the driver does."""
    job = load(tmp_path, "[name, day]", "group")
    fits = DAYS[0] <= days <= DAYS[1]
    found = find_flaw(job, {}, {"name": None, "day": days, "at": 0}, None)
    assert found == (None if fits else Flaw(UNDECODABLE, DATES_RULE, "day"))

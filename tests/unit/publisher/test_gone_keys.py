"""Tombstones of a generation whose key has other columns: a row that is gone has the old key, in the new form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.client.decoding import AvroDecoder, JsonDecoder, OtherRows
from cutwater.core.job.job import TOMBSTONE, UPDATE, WINDOW_KEY_SCHEMA, Job, Output
from cutwater.publisher.encoding import encoder_for, records
from cutwater.views.changelog.row_batch import Piece

HOUR_MS = 3_600_000
TYPES: dict[str, Any] = {
    "shop": "string",
    "product": ["null", "string"],
    "day": {"type": "int", "logicalType": "date"},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    "id": {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"},
    "n": "long",
    "at": {"type": "long", "logicalType": "timestamp-millis"},
}
ID = "01234567-89ab-cdef-0123-456789abcdef"
ALL = ("shop", "product", "day", "price", "id", "n")
OLD_KEY = json.dumps(["s1", "tea", "2024-03-10", "1.50", ID, "7"], separators=(",", ":"))
VALUES = {"shop": "s1", "product": "tea", "day": date(2024, 3, 10), "price": Decimal("1.50"), "id": ID, "n": 7}
CHANGES = {
    "fewer": (f"[{', '.join(ALL)}]", "[day, price, id, n]", OLD_KEY),
    "another order": (f"[{', '.join(ALL)}]", "[product, shop, day, price, id, n]", OLD_KEY),
    "one": (f"[{', '.join(ALL)}]", "shop", OLD_KEY),
    "a list of the one": ("shop", "[shop]", "s1"),
}


def job(folder: Path, key: str, form: str) -> Job:
    fields = [{"name": name, "type": of} for name, of in TYPES.items()]
    (folder / "e.avsc").write_text(json.dumps({"type": "record", "name": "E", "fields": fields}))
    (folder / "j.yaml").write_text(
        f"""
job: j
source: {{topic: t, schema: e.avsc, key: {key}, event_time: at}}
window: {{kind: tumbling, size: 1h}}
lateness: 1m
retention: 1d
measures: {{events: {{measure: count}}}}
output: {{format: {form}}}
"""
    )
    return load_job(folder / "j.yaml")


def written(of: Job, kind: str, key: str, keyed_by: Job | None = None) -> bytes:
    """The only record of a piece."""
    window = {"key": key, "window_start": 0, "window_end": HOUR_MS}
    value = Codec(of.state_schema).encode({"events": 3})
    piece = Piece(-1, [Codec(WINDOW_KEY_SCHEMA).encode(window)], [value], [-1], kind, keyed_by)
    [record] = records(encoder_for(of, None), 7, UPDATE, piece)
    assert record["key"] == key.encode()
    return record["value"]


def decoder(of: Job, others: Sequence[Job]) -> AvroDecoder | JsonDecoder:
    kind = JsonDecoder if of.output.format == "json" else AvroDecoder
    return kind(of, OtherRows(of, lambda: others))


@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_gone_row_has_the_old_key_and_the_new_columns(tmp_path: Path, change: str, form: str) -> None:
    """The publisher ended at such a row, and at each start again; in another order it swapped the columns."""
    before, after, key = CHANGES[change]
    old, new = job(tmp_path, before, form), job(tmp_path, after, form)
    expected = {one.name: VALUES[one.name] for one in new.key_columns or ()}
    gone = written(new, TOMBSTONE, key, old)
    for reader, others in ((new, [old]), (old, [new])):
        found = decoder(reader, others).change(gone)
        assert (found.kind, found.key, found.key_columns) == (TOMBSTONE, key, expected)
        assert set(found.values.values()) == {None}
    kept = decoder(new, [old]).change(written(old, UPDATE, key))
    assert kept.key_columns == {one.name: VALUES[one.name] for one in old.key_columns or ()}
    assert kept.values == {"events": 3}


@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize("null_key", ["reject", "group"])
def test_after_a_rollback_the_gone_key_may_lack_columns(tmp_path: Path, form: str, null_key: str) -> None:
    """The generation that is left had fewer. What has no null in Avro is nothing, or 0."""
    left = job(tmp_path, f"[shop], null_key: {null_key}", form)
    back = job(tmp_path, f"[{', '.join(ALL)}], null_key: {null_key}", form)
    gone = written(back, TOMBSTONE, '["s1"]', left)
    found = decoder(back, [left]).change(gone)
    nothing = {"product": "", "day": date(1970, 1, 1), "price": Decimal(0), "id": str(UUID(int=0)), "n": 0}
    others = nothing if form == "avro" and null_key == "reject" else dict.fromkeys(nothing)
    assert found.key_columns == {"shop": "s1", **others}
    assert (found.key, found.kind) == ('["s1"]', TOMBSTONE)


@pytest.mark.parametrize("form", ["avro", "json"])
def test_a_null_in_a_gone_key_stays_one(tmp_path: Path, form: str) -> None:
    old, new = (job(tmp_path, f"{key}, null_key: group", form) for key in ("[shop, product]", "[product]"))
    gone = written(new, TOMBSTONE, '["s1",null]', old)
    assert decoder(new, [old]).change(gone).key_columns == {"product": None}


def test_rows_of_the_own_key_are_as_before(tmp_path: Path) -> None:
    of = job(tmp_path, "[shop, n]", "json")
    for kind in (UPDATE, TOMBSTONE):
        values = [
            written(replace(of, output=Output(format=form)), kind, '["s1","7"]') for form in ("avro", "json")
        ]
        found = [AvroDecoder(of).change(values[0]), JsonDecoder(of).change(values[1])]
        assert [one.key_columns for one in found] == [{"shop": "s1", "n": 7}] * 2

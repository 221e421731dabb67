"""Keys of several columns in the HTTP API and the output: asked by columns, shown as columns."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from cutwater.adapters.columnar.arrow import schema_of
from cutwater.client.decoding import OutputDecoder
from cutwater.core.errors import UsageError
from cutwater.core.events.key_columns import PARAMETERS, KeyColumn, key_text
from cutwater.core.job.job import UPDATE, Job, Output
from cutwater.publisher.encoding import encoder_for
from cutwater.rehydrator.app import create_app
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.views.query.arrow_batches import batches
from cutwater.views.query.row_blocks import columns_of
from cutwater.views.query.view import State, Status, View
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, Sold, encoded, make_job
from unit.views.store.test_store import entry, rows

COLUMNS = (KeyColumn("airport", "string"), KeyColumn("number", "long"))
KINDS = {"day": "date", "cancelled": "boolean", "price": "decimal(9,2)", "id": "uuid", "carrier": "string"}
TYPED = tuple(KeyColumn(name, kind, nullable=True) for name, kind in KINDS.items())
ONE = uuid.UUID(int=7)
VALUES: list[tuple[Any, ...]] = [
    (date(2013, 1, 1), True, Decimal("-1.50"), str(ONE), "null"),
    (date(2013, 1, 1), True, Decimal("-1.50"), str(ONE), None),
    (date(2013, 1, 1), None, Decimal("0.00"), None, "UA"),
    (date(2013, 1, 1), False, None, None, "[null]"),
    (None, None, None, None, None),
]
SHOWN = ["2013-01-01", True, "-1.50", str(ONE), "null"]
"""The first of them in JSON."""
KEYS = [("JFK", 7), ("JFK", 70), ("JF", 7), ("LGA", -7), ('L"G\x00A', 0), ("", 7)]
DAY = 24


def listed(folder: Path, columns: tuple[KeyColumn, ...] = COLUMNS) -> Job:
    return replace(make_job(folder)[0], key_field="", key_columns=columns)


@pytest.fixture
def view(tmp_path: Path) -> Iterator[View]:
    """Two windows a key, in several segments of the store."""
    job = listed(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    view = View(store, job)
    shown = entry(job, 1)
    sold = [Sold(key_text(map(str, key)), hour, 1) for key in KEYS for hour in (0, 40 * DAY)]
    store.commit(shown, rows(job, store, sold))
    view.show(shown)
    view.status = Status(State.FOLLOWING)
    yield view
    view.close()


@pytest.fixture
def client(view: View) -> TestClient:
    return TestClient(create_app(view, GENERATION, Metrics(), lambda: 4_000_000_000_000))


def keys_of(answer: Any) -> list[tuple[str, int]]:
    assert answer.status_code == 200, answer.text
    return [(row["airport"], row["number"]) for row in answer.json()["rows"]]


def test_a_key_by_its_columns(client: TestClient) -> None:
    """In any order and spelling, by its text too; each row has text and columns."""
    for asked in ("number=7&airport=JFK", "airport=JFK&number=007", 'key=["JFK","7"]', 'key=[ "JFK", "7" ]'):
        answer = client.get(f"/v1/state?{asked}")
        assert keys_of(answer) == [("JFK", 7)] * 2
        assert answer.json()["key"] == answer.json()["rows"][0]["key"] == '["JFK","7"]'
    assert keys_of(client.get('/v1/state/["JFK","7"]')) == [("JFK", 7)] * 2
    assert list(answer.json()["rows"][0])[:5] == ["key", "airport", "number", "window_start", "window_end"]
    assert keys_of(client.get("/v1/state?airport=JFK&number=8")) == []


@pytest.mark.parametrize("limit", [1, 3, 1_000])
@pytest.mark.parametrize("airport", ["JFK", "JF", "", 'L"G\x00A', "nobody"])
def test_leading_columns_choose_rows(client: TestClient, airport: str, limit: int) -> None:
    """All rows with them and no others, in pages of any size."""
    query: dict[str, Any] = {"airport": airport, "limit": limit}
    found: list[tuple[str, int]] = []
    while True:
        answer = client.get("/v1/state", params=query)
        found += keys_of(answer)
        if (following := answer.json()["next"]) is None:
            break
        query["after"] = following
    assert sorted(found) == sorted(2 * [one for one in KEYS if one[0] == airport])


def test_leading_columns_read_no_other_rows(
    view: View, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page would end after that many rows: here none of another key is read."""
    monkeypatch.setattr("cutwater.views.query.view.SCAN_ROWS_MAX", 4)
    answer = client.get("/v1/state?airport=JFK")
    assert len(keys_of(answer)) == 4
    assert answer.json()["next"] is None
    assert len(keys_of(client.get("/v1/state"))) == 4


@pytest.mark.parametrize(
    ("asked", "status", "told"),
    [
        ("number=7", 400, "number: only together with the columns before it: airport"),
        ("airport=JFK&number=x", 422, "is no whole number"),
        ("airport=JFK&airport=LGA", 422, "pass each column once"),
        ("airport=JFK&key=JFK", 422, "no key beside"),
        ("key=JFK", 422, "'JFK' is no key of this job, whose key columns are: airport, number"),
        ("airport=JFK&number=7&shards=0-1", 422, "only without a key"),
    ],
)
def test_what_is_no_key_is_refused(client: TestClient, asked: str, status: int, told: str) -> None:
    """And not answered as if such a key had no rows."""
    answer = client.get(f"/v1/state?{asked}")
    assert (answer.status_code, told in answer.text) == (status, True), answer.text


def test_the_description_has_the_columns(client: TestClient) -> None:
    """As parameters and in rows; no column may have the name of another parameter."""
    described = client.get("/openapi.json").json()
    for path in ("/v1/state", "/v1/global/state"):
        names = {one["name"] for one in described["paths"][path]["get"]["parameters"]}
        assert names - {"airport", "number"} <= PARAMETERS, path
        assert names >= {"airport", "number"}
    row = described["components"]["schemas"]["Row"]
    assert row["properties"]["number"]["type"] == "integer"
    assert {"airport", "number"} <= set(row["required"])


def test_exports_have_the_columns(view: View) -> None:
    """As typed arrays beside the key."""
    _, pieces = view.pieces()
    [batch] = list(batches(view.job, schema_of(view.job, {}), map(columns_of, pieces)))
    assert batch.schema.names[:5] == ["key", "airport", "number", "window_start", "window_end"]
    assert str(batch.schema.field("number").type) == "int64"
    assert {(row["airport"], row["number"]) for row in batch.to_pylist()} == set(KEYS)


@pytest.mark.parametrize("kind", ["avro", "json"])
def test_output_records_have_the_columns(tmp_path: Path, kind: str) -> None:
    """Which `committed()` gives beside key and measures, of a deleted row too."""
    job = replace(listed(tmp_path), output=Output(format=kind))
    encoder = encoder_for(job, None)
    encoder.begin(3, UPDATE)
    sold = [encoded(job, Sold(key_text(map(str, key)), 1, 2)) for key in KEYS]
    records = encoder.records([key for key, _ in sold], [value for _, value in sold])
    gone = encoder.tombstones([key for key, _ in sold])
    decoder = OutputDecoder(job)
    for record in (*records, *gone):
        change = decoder.change(record["value"])
        assert change.key == record["key"].decode() == key_text(map(str, change.key_columns.values()))
        assert set(change.values) == {one.name for one in job.measures}
    assert [tuple(decoder.change(one["value"]).key_columns.values()) for one in records] == KEYS
    if kind == "json":
        assert list(json.loads(records[0]["value"]))[:5] == ["sequence", "kind", "airport", "number", "key"]


def typed_keys(job: Job) -> list[str]:
    return [job.key_of(dict(zip(KINDS, row, strict=True))) for row in VALUES]


@pytest.fixture
def typed_view(tmp_path: Path) -> Iterator[View]:
    """A window a key; each key may have nulls."""
    job = listed(tmp_path, TYPED)
    store = Store(tmp_path / "v", job, GENERATION)
    view = View(store, job)
    shown = entry(job, 1)
    store.commit(shown, rows(job, store, [Sold(key, 0, 1) for key in typed_keys(job)]))
    view.show(shown)
    view.status = Status(State.FOLLOWING)
    yield view
    view.close()


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (f"day=2013-01-01&cancelled=true&price=-1.5&id={str(ONE).upper()}&carrier=null", [0]),
        (f"day=2013-01-01&cancelled=true&price=-01.500&id={ONE}&null=carrier", [1]),
        ("day=2013-01-01&cancelled=true", [0, 1]),
        ("day=2013-01-01&null=cancelled", [2]),
        ("day=2013-01-01&null=cancelled&null=id&price=-0&carrier=UA", [2]),
        ("null=day", [4]),
        (f'key=["2013-01-01","true","-1.5","{ONE}",null]', [1]),
        ("null=day&null=cancelled&null=price&null=id&null=carrier", [4]),
        ("day=2013-01-02", []),
    ],
)
def test_columns_of_each_type_and_null(typed_view: View, asked: str, found: list[int]) -> None:
    """Asked for as they are shown; a null is no text `null`."""
    client = TestClient(create_app(typed_view, GENERATION, Metrics(), lambda: 4_000_000_000_000))
    answer = client.get(f"/v1/state?{asked}")
    assert answer.status_code == 200, answer.text
    keys = typed_keys(typed_view.job)
    assert [row["key"] for row in answer.json()["rows"]] == sorted(keys[one] for one in found)
    if found == [0]:
        (row,) = answer.json()["rows"]
        assert [row[name] for name in KINDS] == SHOWN
    if found == [4]:
        assert all(answer.json()["rows"][0][name] is None for name in KINDS)


@pytest.mark.parametrize(
    ("asked", "status", "told"),
    [
        ("day=2013-1-1", 422, "day='2013-1-1' is no date of the years 1 to 9999"),
        ("day=2013-01-01&cancelled=yes", 422, "is neither true nor false"),
        ("day=2013-01-01&cancelled=true&price=1e2", 422, "price='1e2' is no decimal(9,2)"),
        ("day=2013-01-01&null=day", 422, "pass each column once"),
        ("null=day&null=day", 422, "pass each column once"),
        ("null=port", 422, "null='port' is no column of the key: day, cancelled, price, id, carrier"),
        ("null=carrier", 400, "carrier: only together with the columns before it: day, cancelled, price, id"),
    ],
)
def test_what_no_column_has_is_refused(typed_view: View, asked: str, status: int, told: str) -> None:
    client = TestClient(create_app(typed_view, GENERATION, Metrics(), lambda: 4_000_000_000_000))
    answer = client.get(f"/v1/state?{asked}")
    assert (answer.status_code, told in answer.json()["detail"]) == (status, True), answer.text


def test_nulls_of_other_jobs_are_refused(client: TestClient) -> None:
    """Such events are dead letters: an answer of all rows would be wrong, and one without rows would mislead."""
    answer = client.get("/v1/state?null=airport")
    assert (answer.status_code, "dead letters" in answer.text) == (422, True), answer.text


def test_a_typed_key_of_one_column_is_asked_in_any_spelling(tmp_path: Path) -> None:
    """By path and query; what is none of the type is refused."""
    job = replace(make_job(tmp_path)[0], key_kind="decimal(9,2)")
    own = View(Store(tmp_path / "v", job, GENERATION), job)
    own.show(entry(job, 1))
    own.status = Status(State.FOLLOWING)
    client = TestClient(create_app(own, GENERATION, Metrics(), lambda: 4_000_000_000_000))
    for path in ("/v1/state/01.5", "/v1/state?key=1.500"):
        assert client.get(path).json()["key"] == "1.50"
    answer = client.get("/v1/state/one")
    assert (answer.status_code, "is no decimal(9,2)" in answer.text) == (422, True), answer.text
    own.close()


def test_the_description_has_types_and_nulls(typed_view: View) -> None:
    client = TestClient(create_app(typed_view, GENERATION, Metrics(), lambda: 0))
    described = client.get("/openapi.json").json()
    found = {one["name"]: one["schema"] for one in described["paths"]["/v1/state"]["get"]["parameters"]}
    assert found["day"] == {"type": "string", "format": "date"}
    assert found["cancelled"] == {"type": "boolean"}
    assert found["null"]["items"]["enum"] == list(KINDS)
    row = described["components"]["schemas"]["Row"]["properties"]
    assert row["price"]["type"] == ["string", "null"]


def test_exports_have_the_types_and_nulls(typed_view: View) -> None:
    """Dates, decimals and booleans are typed."""
    job = typed_view.job
    _, pieces = typed_view.pieces()
    [batch] = list(batches(job, schema_of(job, {}), map(columns_of, pieces)))
    kinds = {"day": "date32[day]", "cancelled": "bool", "price": "decimal128(9, 2)", "id": "string"}
    assert {name: str(batch.schema.field(name).type) for name in kinds} == kinds
    assert {tuple(row[name] for name in KINDS) for row in batch.to_pylist()} == set(VALUES)


@pytest.mark.parametrize("kind", ["avro", "json"])
def test_output_records_have_the_types_and_nulls(tmp_path: Path, kind: str) -> None:
    """Which `committed()` gives as Python's values; a UUID as its text."""
    job = replace(listed(tmp_path, TYPED), output=Output(format=kind))
    encoder = encoder_for(job, None)
    encoder.begin(3, UPDATE)
    sold = [encoded(job, Sold(key, 1, 2)) for key in typed_keys(job)]
    records = encoder.records([key for key, _ in sold], [value for _, value in sold])
    decoder = OutputDecoder(job)
    changes = [decoder.change(one["value"]) for one in records]
    assert [tuple(one.key_columns.values()) for one in changes] == VALUES
    assert all(set(one.values) == {measure.name for measure in job.measures} for one in changes)
    if kind == "json":
        assert list(json.loads(records[0]["value"]).values())[2:7] == SHOWN


def test_a_key_of_no_column(tmp_path: Path) -> None:
    """Has its text alone."""
    job = listed(tmp_path, ())
    encoder = encoder_for(job, None)
    encoder.begin(3, UPDATE)
    key, value = encoded(job, Sold("[]", 1, 2))
    [record] = encoder.records([key], [value])
    assert OutputDecoder(job).change(record["value"]).key_columns == {}
    with pytest.raises(UsageError, match="no key of this job"):
        OutputDecoder(listed(tmp_path)).change(json.dumps({"key": "JFK", "sequence": 1}).encode())

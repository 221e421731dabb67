"""`source.explode` in a job file: what it makes, and a line for each mistake. All types are declared."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cutwater.adapters.job_files import expressions
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.job.columns import ComputedColumn, Explode
from cutwater.core.job.job import Job, differences
from cutwater.core.job.measures import FieldType

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "shop", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "items", "type": {"type": "array", "items": "string"}},
    ],
}
SKU = {"sql": "item", "type": "string"}
THEN = {"sql": "cast(item as timestamp)", "type": "timestamp"}


@pytest.fixture(autouse=True)
def types_as_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "find_spec", lambda _name: None)


def read(folder: Path, explode: Any, key: str = "sku", event_time: str = "at", **measures: Any) -> Job:
    (folder / "order.avsc").write_text(json.dumps(SCHEMA))
    source = {"topic": "orders", "schema": "order.avsc", "key": key, "event_time": event_time}
    written = {
        "job": "orders",
        "source": {**source, **({"explode": explode} if explode else {})},
        "window": {"kind": "tumbling", "size": "1h"},
        "lateness": "1h",
        "retention": "1d",
        "measures": {"items": {"measure": "count"}, **measures},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(written, sort_keys=False))
    return load_job(folder / "job.yaml")


def test_elements_are_part_of_a_rows_meaning(tmp_path: Path) -> None:
    """And have an index in the place of an event; without them nothing changes."""
    last = {"measure": "last", "field": "shop"}
    job = read(tmp_path, {"array": "items", "where": "item <> ''", "columns": {"sku": SKU}}, last=last)
    sku = ComputedColumn("sku", "item", FieldType("string"))
    assert job.explode == Explode("items", "item", "item <> ''", (sku,))
    assert job.has_expressions
    assert job.element_columns == (sku,)
    plain = read(tmp_path, None, "shop", last=last)
    assert plain.element_columns == ()
    assert "explode" not in plain.meaning
    assert "explode was None and is ['items', 'item', \"item <> ''\"" in differences(
        plain.definition, job.definition
    )
    fields = [
        [part["name"] for part in one.state_schema["fields"][1]["type"][1]["fields"]] for one in (plain, job)
    ]
    assert fields[1] == [*fields[0][:-1], "index", "value"]
    other = read(tmp_path, {"array": "items", "as": "one", "columns": {"sku": {**SKU, "sql": "one"}}}, last=last)
    assert other.fingerprint != job.fingerprint


@pytest.mark.parametrize(
    ("explode", "more", "said"),
    [
        ({"array": "items", "columns": {}}, {}, "source.explode.columns: .*at least 1"),
        ({"columns": {"sku": SKU}}, {}, "source.explode.array: .*missing|required"),
        (
            {"array": "items", "columns": {"sku": SKU, "then": THEN}},
            {"event_time": "then"},
            "source.event_time: 'then' is a column of an element, and all elements of a record have one time",
        ),
        (
            {"array": "items", "as": "Shop", "columns": {"sku": SKU}},
            {},
            "source.explode.as: the schema has a field",
        ),
        (
            {"array": "items", "columns": {"sku": SKU, "item": SKU}},
            {},
            "source.explode.columns.item: there is another 'item'",
        ),
        (
            {"array": "items", "columns": {"sku": SKU, "SKU": SKU}},
            {},
            "source.explode.columns.SKU: differs from column 'sku' in case alone",
        ),
        (
            {"array": "items", "columns": {"sku": {"sql": "item"}}},
            {},
            "source.explode.columns.sku: its type is not known where Spark is not installed",
        ),
        (
            {"array": "items", "columns": {"sku": {"sql": "item", "type": "text"}}},
            {},
            "source.explode.columns.sku.type: 'text' is no type of a column",
        ),
        ({"array": "items", "columns": {"sku": SKU}}, {"key": "skuu"}, "no field 'skuu'.* did you mean 'sku'"),
    ],
)
def test_each_mistake_has_its_line(tmp_path: Path, explode: Any, more: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as error:
        read(tmp_path, explode, **more)
    lines = str(error.value).splitlines()
    assert any(re.search(said, one) for one in lines), lines
    assert all(re.match(r".*job\.yaml:[0-9]+: ", one) for one in lines), lines

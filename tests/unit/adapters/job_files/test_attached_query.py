"""Job files of a user's own query: a good one becomes a job; what cannot be is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.job.measures import merge, merged_row

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "attach"
TEXT = (EXAMPLE / "orders.yaml").read_text(encoding="utf-8")


def job(folder: Path, text: str = TEXT, fields: list[dict[str, Any]] | None = None) -> Any:
    found = fields if fields is not None else [{"name": "orders", "type": ["null", "long"]}]
    schema = {"type": "record", "name": "Row", "fields": found}
    (folder / "orders_state.avsc").write_text(json.dumps(schema), encoding="utf-8")
    (folder / "orders.yaml").write_text(text, encoding="utf-8")
    return load_job(folder / "orders.yaml")


def test_each_column_is_a_value_as_it_is() -> None:
    """The example's file: every column is kept and presented unchanged, and nullable on changelog and output."""
    found = load_job(EXAMPLE / "orders.yaml")
    assert found.attached is not None
    assert (found.attached.key, found.attached.window, found.topic) == ("region", "window", "")
    assert [one.name for one in found.measures] == ["orders", "cents", "largest", "large"]
    assert all(one.plain for one in found.measures)
    assert found.measures[0].present({"orders": 3}) == 3
    assert {str(one["type"]) for one in found.state_schema["fields"]} == {"['null', 'long']"}


def test_two_values_do_not_merge_and_it_says_why(tmp_path: Path) -> None:
    """A generation from a milestone needs declared measures, or `merges`."""
    (measure,) = job(tmp_path).measures
    with pytest.raises(UsageError, match="declared measures"):
        merge(measure, {"orders": 1}, {"orders": 2})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([], "a field per column"),
        ([{"name": "key", "type": "long"}], "key would exist twice"),
        ([{"name": "__key", "type": "long"}], "__key begin with two underscores"),
        ([{"name": f"c{at}", "type": "string"} for at in range(900)], "900 measures have no room in a row"),
        ([{"name": "a", "type": "long"}, {"name": "A", "type": "long"}], "differ in case alone"),
        ([{"name": "region", "type": "string"}], "region is part of a row's key"),
        ([{"name": "tags", "type": {"type": "array", "items": "string"}}], "column 'tags' is array"),
        ([{"name": "sketch", "type": "bytes"}], "column 'sketch' is bytes"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(tmp_path: Path, fields: list[dict[str, Any]], said: str) -> None:
    """Names that a row has anyway, and types that cannot be kept, end with the column's name."""
    with pytest.raises(UsageError, match=said):
        job(tmp_path, fields=fields)


def test_mistakes_in_the_file_are_named(tmp_path: Path) -> None:
    """A field of a job of ours, a missing schema, a retention below the lateness."""
    with pytest.raises(UsageError, match=r"measures: is not a field"):
        job(tmp_path, TEXT + "measures: {n: {measure: count}}\n")
    with pytest.raises(UsageError, match=r"retention: must be at least"):
        job(tmp_path, TEXT.replace("retention: 30d", "retention: 1m"))
    with pytest.raises(UsageError, match=r"attached\.schema: 'other\.avsc' is not beside"):
        job(tmp_path, TEXT.replace("orders_state.avsc", "other.avsc"))


TWO = [{"name": "orders", "type": ["null", "long"]}, {"name": "last", "type": ["null", "string"]}]
MERGES = TEXT.replace("attached: {", "attached: {merges: {orders: sum, last: max}, ")


def test_columns_merge_as_the_file_says(tmp_path: Path) -> None:
    """And the job is the same without: `merges` may be added while it runs."""
    found, before = job(tmp_path, MERGES, TWO), job(tmp_path, TEXT, TWO)
    assert [one.merges_by for one in found.measures] == ["sum", "max"]
    assert merged_row(found.measures, {"orders": 2, "last": "b"}, {"orders": 3, "last": "a"}) == {
        "orders": 5,
        "last": "b",
    }
    assert (found.definition, found.fingerprint) == (before.definition, before.fingerprint)
    assert load_job(EXAMPLE / "sales.yaml").measures[-1].merges_by == "max"


@pytest.mark.parametrize(
    ("merges", "said"),
    [
        ("orders: sum", "attached.merges: last missing: .* only if each column merges, by sum, min, max"),
        ("orders: sum, last: sum", "attached.merges.last: column 'last' is string, which has no sum"),
        ("order: sum, last: max", "attached.merges.order: is no column of the schema; did you mean 'orders'"),
        ("orders: count, last: max", "attached.merges.orders: "),
        ("orders: first, last: max", "attached.merges.orders: "),
        ("region: max", "attached.merges.region: is no column"),
    ],
)
def test_merges_that_cannot_be_are_named(tmp_path: Path, merges: str, said: str) -> None:
    """By the column, with what may stand there."""
    with pytest.raises(UsageError, match=said):
        job(tmp_path, TEXT.replace("attached: {", f"attached: {{merges: {{{merges}}}, "), TWO)

"""The most frequent values: exact while a row keeps all of them, and within the error that it tells else."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.sketches import HllSketches
from cutwater.core.errors import UsageError
from cutwater.core.job.kinds.frequent_items import ITEMS_MAX, kept_texts, kept_values, merge_counts
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import FieldType, Measure
from cutwater.core.job.row_room import require_room, text_bytes_max

KEPT = 4
words = st.lists(st.sampled_from("abcdefghijkl"), max_size=40)


def row(values: list[str]) -> dict[str, Any]:
    counted = Counter(values)
    return {"error": 0, "values": [{"value": one, "count": counted[one]} for one in sorted(counted)]}


def measure(items: int | None, of: str = "string") -> Measure:
    return build("m", "top", "f", FieldType(of), HllSketches(), items=items)


@given(st.lists(words, min_size=1, max_size=6))
def test_true_numbers_are_within_the_error(parts: list[list[str]]) -> None:
    """Of values with a counter and of those without; the error is at most a share of all events."""
    # A part of more values than a row keeps is cut as a merge cuts it.
    rows = [merge_counts(row([]), row(part), KEPT) for part in parts]
    merged = reduce(lambda one, other: merge_counts(one, other, KEPT), rows)
    every = [one for part in parts for one in part]
    true, found = Counter(every), {one["value"]: one["count"] for one in merged["values"]}
    assert len(found) <= KEPT
    for value in true | found:
        assert found.get(value, 0) <= true[value] <= found.get(value, 0) + merged["error"]
    assert merged["error"] * (KEPT + 1) <= sum(true.values())
    if len(true) <= KEPT:
        assert merged == row(every)


@given(words, words)
def test_the_order_of_two_rows_makes_no_difference(one: list[str], other: list[str]) -> None:
    """Not in a byte: values have one order."""
    merged = merge_counts(row(one), row(other), KEPT)
    assert merged == merge_counts(row(other), row(one), KEPT)
    assert [value["value"] for value in merged["values"]] == sorted(value["value"] for value in merged["values"])


def test_users_see_the_most_frequent_first() -> None:
    """Of equally frequent ones the least, each with the row's error; nothing without values."""
    kept = [{"value": "b", "count": 3}, {"value": "c", "count": 5}, {"value": "d", "count": 3}]
    for values in permutations(kept):
        ordered = sorted(values, key=lambda one: str(one["value"]))
        assert measure(2).present({"m": {"error": 7, "values": ordered}}) == [
            {"value": "c", "count": 5, "error": 7},
            {"value": "b", "count": 3, "error": 7},
        ]
    assert measure(2).present({"m": None}) is None


def test_how_many_values_a_row_keeps() -> None:
    """Three quarters of a power of two, at least fifteen for each that users see."""
    assert [kept_values(items) for items in (1, 12, 13, 25, 26, 51, 52, 100)] == [
        192, 192, 384, 384, 768, 768, 1536, 1536,
    ]  # fmt: skip


@pytest.mark.parametrize("items", [0, -1, ITEMS_MAX + 1])
def test_items_have_bounds(items: int) -> None:
    with pytest.raises(UsageError, match=f"measure 'm': items is {items}; allowed: 1 to 100"):
        measure(items)
    with pytest.raises(UsageError, match="measure 'm': top needs 'items', as in 10"):
        measure(None)


def test_texts_that_are_counted_leave_room_for_others() -> None:
    """One measure of the most items has room in a row; two have none, and the message says what to reduce."""
    text = build("t", "last", "f", FieldType("string"), HllSketches())
    assert (kept_texts(measure(10)), kept_texts(measure(10, "int")), kept_texts(text)) == (192, 0, 0)
    require_room([measure(ITEMS_MAX), text])
    assert text_bytes_max([measure(ITEMS_MAX), text]) < text_bytes_max([measure(10), text])
    assert text_bytes_max([measure(ITEMS_MAX, "long"), text]) == text_bytes_max([measure(1, "int"), text])
    with pytest.raises(UsageError, match="fewer items of a 'top'"):
        require_room([measure(ITEMS_MAX), measure(ITEMS_MAX), text])

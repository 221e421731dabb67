"""How a bulk restore is divided, and how far it has come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.state.bulk_load import Done, Slice, Task, divided, remaining_slices

SLICES = st.lists(
    st.builds(Slice, st.integers(0, 200), st.integers(0, 100), st.integers(0, 1_000)),
    unique_by=lambda one: one.partition,
)
DONE = st.builds(
    Done,
    st.dictionaries(st.integers(0, 200), st.integers(0, 1_000)),
    st.integers(0, 100),
    st.integers(0, (1 << 64) - 1),
    st.integers(0, 1_000),
    st.integers(0, 1 << 40),
)


@given(SLICES, st.integers(1, 9))
def test_every_slice_is_in_one_part(slices: list[Slice], workers: int) -> None:
    """Those that hold nothing are in none; no part is larger than another by more than its own smallest slice."""
    parts = divided(slices, workers)
    assert sorted(one for part in parts for one in part) == sorted(one for one in slices if one.records_max)
    assert len(parts) <= workers
    assert all(parts)
    loads = [sum(one.records_max for one in part) for part in parts]
    for part, load in zip(parts, loads, strict=True):
        assert load - min(one.records_max for one in part) <= min(loads)


@given(SLICES, DONE)
def test_what_is_left_begins_where_the_loading_had_come(slices: list[Slice], done: Done) -> None:
    for before, now in zip(slices, remaining_slices(slices, done), strict=True):
        assert (now.partition, now.end) == (before.partition, before.end)
        assert now.first == max(before.first, done.next.get(before.partition, 0))


@given(DONE, DONE)
def test_progress_adds_up_and_survives_its_text(one: Done, other: Done) -> None:
    whole = one.plus(other)
    assert whole.next == {**one.next, **other.next}
    assert (whole.rows, whole.records, whole.bytes) == (
        one.rows + other.rows,
        one.records + other.records,
        one.bytes + other.bytes,
    )
    assert whole.digest == one.digest ^ other.digest
    assert Done.of(whole.text()) == whole


def test_a_task_survives_its_text() -> None:
    task = Task("t", [Slice(1, 2, 3)], "/f", 1, 2, 3, "g1-local-00000000/1/2", "c301", "c302", 4, 5, 6.5)
    assert Task.of(task.text()) == task


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"slices": [[1]]}', "none"])
def test_a_text_that_is_no_task_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is started by a service"):
        Task.of(text)

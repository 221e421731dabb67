"""What the newest milestones changed: no gap goes unnoticed, and no more is kept than the bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.query.change_buffer import Behind, ChangeBuffer

MAX = 100
steps = st.lists(
    st.one_of(st.tuples(st.just("put"), st.integers(0, 130)), st.tuples(st.just("jump"), st.integers(0, 3)))
)


@given(steps, st.integers(-2, 30))
def test_a_reader_gets_each_in_order_or_is_told(history: list[tuple[str, int]], start: int) -> None:
    """From any place: what follows is the next one and the next one to the newest, or `Behind`."""
    recent: ChangeBuffer[int] = ChangeBuffer(MAX)
    sequence, sizes = 7, {}
    for kind, number in history:
        if kind == "put":
            sequence += 1
            sizes[sequence] = number
            recent.put(sequence, sequence, number)
        else:
            sequence += number
            recent.begin(sequence)
        assert recent.size <= MAX
    assert recent.size == sum(sizes[kept] for kept in range((recent.since or 0) + 1, sequence + 1) if history)
    at = start
    try:
        while (found := recent.after(at)) is not None:
            assert found == at + 1
            at = found
    except Behind:
        assert history
        assert at == start, "never in the middle"
        assert recent.since is not None
        assert at < recent.since
    else:
        assert not history or at >= sequence


@given(st.lists(st.integers(1, 60), min_size=1))
def test_as_much_is_kept_as_fits(sizes: list[int]) -> None:
    """The newest ones whose sum is within the bound."""
    recent: ChangeBuffer[int] = ChangeBuffer(MAX)
    for at, size in enumerate(sizes, 1):
        recent.put(at, at, size)
    kept = len(sizes) - (recent.since or 0)
    assert sum(sizes[-kept:]) <= MAX
    assert kept == len(sizes) or sum(sizes[-kept - 1 :]) > MAX


def test_why_a_reader_is_behind() -> None:
    """Too slow for what was kept; or it was never kept: begun anew, or too large."""
    recent: ChangeBuffer[str] = ChangeBuffer(MAX)
    recent.begin(5)
    assert recent.after(5) is None
    recent.put(6, "six", 60)
    recent.put(7, "seven", 60)
    with pytest.raises(Behind) as slow:
        recent.after(5)
    assert slow.value.evicted
    with pytest.raises(Behind) as never:
        recent.after(4)
    assert not never.value.evicted
    recent.put(8, "eight", MAX + 1)
    with pytest.raises(Behind) as large:
        recent.after(7)
    assert not large.value.evicted
    assert recent.after(8) is None
    recent.put(10, "ten", 1)
    with pytest.raises(Behind):
        recent.after(8)
    assert recent.after(9) == "ten", "nine was never told of"


def test_changes_that_fill_the_buffer_are_kept() -> None:
    recent: ChangeBuffer[str] = ChangeBuffer(MAX)
    recent.put(1, "one", MAX)
    assert recent.after(0) == "one"

"""The gap between what a reader needs of a log and what that holds, with plain values."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.state.missing_offsets import gaps

OFFSETS = st.integers(0, 30)


@pytest.mark.parametrize(
    ("needed", "kept", "says"),
    [
        ((5, 9), (0, 9), []),
        ((5, 5), (5, 5), []),
        ((5, 9), (7, 9), ["partition 0 begins at 7: offsets 5 to 6 were deleted"]),
        ((5, 5), (6, 9), ["partition 0 begins at 6: offset 5 were deleted"]),
        ((5, 9), (0, 8), ["partition 0 ends at 8: offset 8 were there before and are missing now"]),
        ((5, 5), (0, 3), ["partition 0 ends at 3: offsets 3 to 4 were there before and are missing now"]),
    ],
)
def test_the_gap_is_exact(needed: tuple[int, int], kept: tuple[int, int], says: list[str]) -> None:
    """Records deleted from the log's beginning, and a log that was made anew and is shorter."""
    assert gaps({0: needed}, {0: kept}) == says


@given(OFFSETS, OFFSETS, OFFSETS, OFFSETS)
def test_what_is_told_is_what_is_missing(position: int, end: int, low: int, high: int) -> None:
    """Every offset that is needed and not kept is told, and no other of those that are kept."""
    low, high = min(low, high), max(low, high)
    told: set[int] = set()
    for text in gaps({3: (position, end)}, {3: (low, high)}):
        (first, last) = re.search(r"offsets? (\d+)(?: to (\d+))?", text).groups()  # type: ignore[union-attr]
        told |= set(range(int(first), int(last or first) + 1))
    missing = set(range(position, max(position, end))) - set(range(low, high))
    assert missing <= told
    assert not told & set(range(low, high))

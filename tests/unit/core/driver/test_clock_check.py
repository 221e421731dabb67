"""A driver's clock beside a broker's: told apart by what is appended between two looks at ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.driver.clock_check import require_clock
from cutwater.core.errors import UnavailableError
from cutwater.core.state.backlog import MARGIN_MS

HALF = MARGIN_MS // 2
TOOK = st.integers(0, 10 * MARGIN_MS)


@given(TOOK, TOOK, st.integers(-HALF, HALF))
def test_clocks_that_differ_by_half_of_the_margin_agree(before_ms: int, after_ms: int, ahead_ms: int) -> None:
    """However long an epoch took: what was appended in it lies between its ends."""
    true_ms = 10**12
    require_clock(true_ms - before_ms + ahead_ms, true_ms + after_ms + ahead_ms, true_ms, "log/0")


@given(st.integers(1, 100 * MARGIN_MS), st.sampled_from([1, -1]))
def test_a_clock_that_is_further_away_is_named(beyond_ms: int, side: int) -> None:
    """Ahead or behind, of an epoch that took no time; the partition, and what to do."""
    true_ms, ahead_ms = 10**12, side * (HALF + beyond_ms)
    with pytest.raises(
        UnavailableError, match=r"ahead of .* log/0. With such" if side > 0 else r"behind .* log/0"
    ):
        require_clock(true_ms + ahead_ms, true_ms + ahead_ms, true_ms, "log/0")


def test_a_clock_that_was_set_back_meanwhile_is_behind() -> None:
    """It agreed when the record was written, and does not any more."""
    true_ms = 10**12
    require_clock(true_ms, true_ms - HALF, true_ms, "log/0")
    with pytest.raises(UnavailableError, match=r"behind .* log/0"):
        require_clock(true_ms, true_ms - HALF - 1, true_ms, "log/0")

"""What a seed must have been counted as, and how old its milestone may be: plain values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.core.errors import CutwaterError, DivergenceError, UnavailableError, UsageError
from cutwater.core.restore import MARGIN_MS
from cutwater.core.seeds import Read, may_be_overtaken, require_contained, require_state
from cutwater.core.topics import MIN_COMPACTION_LAG_MS
from protocol_samples import milestone

PARENT = milestone(5)
WHOLE = Read(
    records=40,
    foreign=0,
    own_rows=PARENT.rows,
    own_digest=PARENT.digest,
    unreadable=0,
    other_windows=0,
    deleted=0,
    seeds=30,
)


def test_the_parents_state_passes() -> None:
    """The milestone's own rows by count and digest, and nothing that is not of this generation and job."""
    require_state(PARENT, WHOLE, WHOLE.seeds)


@pytest.mark.parametrize(
    ("found", "error", "why"),
    [
        ({"foreign": 1}, DivergenceError, "not written by"),
        ({"unreadable": 1}, DivergenceError, "no rows of this job"),
        ({"other_windows": 1}, UsageError, "the job file does not make"),
        ({"deleted": 1}, DivergenceError, "were deleted"),
        ({"own_rows": PARENT.rows - 1}, DivergenceError, "digest"),
        ({"own_digest": PARENT.digest + 1}, DivergenceError, "digest"),
    ],
)
def test_anything_else_is_refused(found: dict[str, int], error: type[CutwaterError], why: str) -> None:
    """Each by its own error, which names the milestone."""
    with pytest.raises(error, match=why) as refused:
        require_state(PARENT, replace(WHOLE, **found), WHOLE.seeds)
    assert str(PARENT.token) in str(refused.value)


def test_a_seed_that_lost_files_is_refused() -> None:
    """As many rows must stand in the files as were read."""
    with pytest.raises(UnavailableError, match="29 seeds stand in the files, and 30 were read"):
        require_state(PARENT, WHOLE, 29)


def test_compaction_must_not_have_taken_anything_below_the_cut() -> None:
    """An old milestone is whole while what follows its cut is young, or nothing does; else take a later one."""
    lag = MIN_COMPACTION_LAG_MS - MARGIN_MS
    assert not may_be_overtaken(PARENT, PARENT.written_ms + lag - 1)
    now = PARENT.written_ms + lag
    assert may_be_overtaken(PARENT, now)
    require_contained(PARENT, [None, now - lag + 1], now)
    with pytest.raises(UsageError, match="from a later milestone"):
        require_contained(PARENT, [None, now - lag], now)

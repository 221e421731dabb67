"""What a seed must have been counted as, and how old its milestone may be: plain values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.core.errors import CutwaterError, DivergenceError, UnavailableError, UsageError
from cutwater.core.generations.seed_check import (
    Given,
    SeedCounts,
    SeedRowCounts,
    compaction_risk,
    may_be_overtaken,
    missing_changelog,
    require_state,
    require_taken,
)
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.topics import MIN_COMPACTION_LAG_MS
from cutwater.core.state.backlog import MARGIN_MS
from support.protocol_samples import milestone

PARENT = milestone(5)
WHOLE = SeedCounts(
    records=40,
    foreign=0,
    later=0,
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
        ({"later": 1}, DivergenceError, "1 records .* were written after it: the log has lost its end"),
        ({"unreadable": 1}, DivergenceError, "no rows of this job"),
        ({"other_windows": 1}, UsageError, "the job file does not produce"),
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
    with pytest.raises(UnavailableError, match="the files hold 29 seeds, but 30 were read"):
        require_state(PARENT, WHOLE, 29)


def test_compaction_must_not_have_taken_anything_below_the_cut() -> None:
    """An old milestone is whole while what follows its cut is young, or nothing does."""
    lag = MIN_COMPACTION_LAG_MS - MARGIN_MS
    assert not may_be_overtaken(PARENT, PARENT.written_ms + lag - 1)
    now = PARENT.written_ms + lag
    assert may_be_overtaken(PARENT, now)
    assert compaction_risk(PARENT, [None, now - lag + 1], now) == ""
    assert f"removed rows below the cut of {PARENT.token}" in compaction_risk(PARENT, [None, now - lag], now)


def test_records_below_the_cut_that_were_deleted_are_named() -> None:
    """By partition and offset; a partition that the milestone has nothing of may begin anywhere."""
    (one, first), (other, second) = PARENT.changelog_cut
    assert missing_changelog(PARENT, {one: (0, first), other: (0, second + 9)}) == ""
    assert "begins at offset 1: records below" in missing_changelog(PARENT, {one: (0, first), other: (1, second)})
    assert f"ends at offset {first - 1}, below the {first}" in missing_changelog(
        PARENT, {one: (0, first - 1), other: (0, second)}
    )
    nothing = replace(PARENT, changelog_cut=Cut.of({one: 0, other: second}))
    assert missing_changelog(nothing, {one: (7, 9), other: (0, second)}) == ""


GIVEN, TAKEN = Given(3, 99), SeedRowCounts(rows=3, seeds=3, digest=99, unreadable=0, other_windows=0)


def test_rows_of_a_snapshot_pass() -> None:
    """As many lines as were written down, and the same ones."""
    require_taken(PARENT, GIVEN, TAKEN, 3)


@pytest.mark.parametrize(
    ("found", "error", "why"),
    [
        ({"rows": 2}, UnavailableError, "2 rows with digest 99 were read"),
        ({"digest": 98}, UnavailableError, "3 with digest 99 were written to its files"),
        ({"unreadable": 1}, DivergenceError, "no rows of this job"),
        ({"other_windows": 1}, UsageError, "does not produce"),
    ],
)
def test_other_rows_of_a_snapshot_are_refused(found: dict[str, int], error: type[CutwaterError], why: str) -> None:
    """Each by its own error, which names the milestone."""
    with pytest.raises(error, match=why) as refused:
        require_taken(PARENT, GIVEN, replace(TAKEN, **found), 3)
    assert str(PARENT.token) in str(refused.value)
    with pytest.raises(UnavailableError, match="the files hold 2 seeds, but 3 were read"):
        require_taken(PARENT, GIVEN, TAKEN, 2)

"""Each cause of a gap, with the exact range; and nothing where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.core.mirror.copy_progress import OriginPartition, initial_position, unaccounted
from cutwater.core.mirror.gaps import (
    ANEW,
    CAUSES,
    LOST,
    PARTITIONS,
    REPLACED,
    UNPLACED,
    in_copy,
    in_log,
    in_origin,
)

AT = replace(initial_position("j", "us", OriginPartition("t", 0, "id", 2), 0, 0, 0), next=100, local=104)


def test_the_same_topic_is_no_gap() -> None:
    assert in_origin("t", "id", 2, [AT], 2) is None
    assert in_origin("t", "id", 2, [], None) is None
    assert in_log("t", {0: AT}, [0, 1], {0: (100, 100), 1: (0, 7)}, from_zero=True) is None
    assert in_copy("t", AT, 0, 104, empty=True) is None
    assert in_copy("t", AT, 0, 130, empty=True) is None, "behind it lies what was aborted"
    assert in_copy("t", None, 0, 5, empty=True) is None, "what an aborted transaction left is no record"


def test_a_topic_made_anew_is_told_by_its_identity() -> None:
    found = in_origin("t", "other", 2, [AT], 2)
    assert found is not None
    assert found.cause == ANEW
    assert "partition 0 up to offset 99 is a copy of the old topic (id)" in found.text


@pytest.mark.parametrize(("partitions", "here"), [(3, 2), (2, 3), (3, 3)])
def test_another_number_of_partitions(partitions: int, here: int) -> None:
    found = in_origin("t", "id", partitions, [AT], here)
    assert found is not None
    assert found.cause == PARTITIONS


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ((120, 200), "begins at 120: offsets 100 to 119 were deleted"),
        ((0, 60), "ends at 60: offsets 60 to 99 were there before and are missing now"),
    ],
)
def test_a_truncated_log_names_the_range(kept: tuple[int, int], text: str) -> None:
    found = in_log("t", {0: AT}, [0], {0: kept}, from_zero=False)
    assert found is not None
    assert found.cause == LOST
    assert text in found.text


def test_a_changelog_that_does_not_begin_at_0_is_not_copied_in_part() -> None:
    """Events may have been retained away; of a changelog nobody deletes, so something is wrong."""
    assert in_log("t", {}, [0], {0: (30, 90)}, from_zero=False) is None
    found = in_log("t", {}, [0], {0: (30, 90)}, from_zero=True)
    assert found is not None
    assert "offsets 0 to 29 were deleted" in found.text


def test_records_without_a_position_and_a_copy_that_was_cut() -> None:
    unplaced, replaced = in_copy("t", None, 0, 5, empty=False), in_copy("t", AT, 0, 7, empty=False)
    assert unplaced is not None
    assert replaced is not None
    assert (unplaced.cause, replaced.cause) == (UNPLACED, REPLACED)
    assert {unplaced.cause, replaced.cause, LOST, ANEW, PARTITIONS} <= CAUSES.keys()


def test_records_behind_the_position_are_nobodys() -> None:
    found = in_copy("t", AT, 0, 109, empty=False)
    assert found is not None
    assert found.cause == UNPLACED
    assert "copied up to offset 104, and from there to its end at 109" in found.text


@pytest.mark.parametrize(
    ("records", "end", "behind"), [(0, 104, 0), (0, 105, 1), (9, 105, 0), (9, 104, -1), (9, 107, 2)]
)
def test_what_a_position_does_not_account_for(records: int, end: int, behind: int) -> None:
    """Its last transaction with records has left a marker behind them."""
    assert unaccounted(replace(AT, records=records), end) == behind

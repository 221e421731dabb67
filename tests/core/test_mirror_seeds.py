"""Which snapshot may stand for the log of the origin, and why another one may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.core.cuts import Cut
from cutwater.core.errors import UsageError
from cutwater.core.generations import Generation
from cutwater.core.mirror_seeds import cuts_of, generation_of, unfit
from cutwater.core.proof import Writer, header_prefix
from protocol_samples import milestone

TOPIC = "flights.changelog.g1-us-00000000"
AT = replace(milestone(4), changelog_cut=Cut.of_topic(TOPIC, [40, 0, 12]), horizon_ms=500)


def test_a_log_that_reaches_the_cut_is_enough() -> None:
    """It may have lost everything below it, and may end there."""
    assert unfit(AT, None, TOPIC, {0: (40, 40), 1: (0, 9), 2: (3, 99)}) == ""
    assert unfit(AT, 500, TOPIC, {0: (0, 41), 1: (0, 0), 2: (0, 12)}) == "", (
        "what was evicted is below the horizon"
    )
    assert cuts_of(AT, TOPIC, 4) == {0: 40, 1: 0, 2: 12, 3: 0}


def test_what_neither_snapshot_nor_log_holds_is_named() -> None:
    found = unfit(AT, None, TOPIC, {0: (43, 60), 1: (0, 9), 2: (12, 12)})
    assert found == f"{TOPIC} in the origin: partition 0 begins at 43: offsets 40 to 42 were deleted"
    assert "partition 2 ends at 11" in unfit(AT, None, TOPIC, {0: (0, 60), 1: (0, 9), 2: (0, 11)})


def test_a_cut_in_another_topic_means_nothing_here() -> None:
    assert "/2, which is not there" in unfit(AT, None, TOPIC, {0: (0, 60), 1: (0, 9)})
    assert "is not there" in unfit(AT, None, "flights.changelog.g2-us-0badcafe", dict.fromkeys(range(3), (0, 99)))


def test_a_view_that_evicted_windows_is_not_the_whole_state() -> None:
    assert "were evicted" in unfit(AT, 501, TOPIC, dict.fromkeys(range(3), (0, 99)))


def test_the_changelog_of_another_region_is_no_copy() -> None:
    """It keeps its name wherever it is: to delete it as a copy would be to delete it."""
    assert generation_of("flights", TOPIC, "us") == Generation(1, "us")
    assert generation_of("flights", "flights.events", "us") is None
    with pytest.raises(UsageError, match="is a changelog of region us: it is not copied from eu"):
        generation_of("flights", TOPIC, "eu")


def test_a_snapshots_rows_are_of_their_generation_and_of_no_epoch_that_ran() -> None:
    """Readers take every row of the generation for state, and prove those of a milestone's own attempt."""
    writer = Writer.of_snapshot(AT.generation, AT.epoch)
    assert writer.header.startswith(header_prefix(AT.generation))
    assert Writer.of_header(writer.header) == writer
    assert writer.attempt < 1, "attempts count from 1"

"""Which snapshot may stand for the log of the origin, and why another one may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.core.errors import UsageError
from cutwater.core.protocol.changelog_rows import Writer, header_prefix
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.state.resync_snapshot_set import cuts_of, find_complete_set, generation_of, unfit
from cutwater.core.state.snapshot_manifest import Manifest
from support.protocol_samples import milestone

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


def test_a_state_that_has_windows_again_is_not_the_snapshots() -> None:
    """An older driver let the horizon go back where `retention` was made longer."""
    log = dict.fromkeys(range(3), (0, 99))
    assert unfit(AT, None, TOPIC, log, 500) == unfit(AT, None, TOPIC, log, 501) == ""
    assert "`retention` was made longer since" in unfit(AT, None, TOPIC, log, 499)


def part(*partitions: int, record: bytes = b"m", offset: int = 7) -> Manifest:
    held = frozenset(partitions) if partitions else None
    return Manifest("flights", Generation(1, "us"), held, 4, record, offset, 1, "s", (), 0)


def test_peers_together_hold_the_state_if_no_partition_is_missing() -> None:
    """Each partition is read from one of them; one with all partitions is enough."""
    left, right, other = part(0, 2), part(1), part(1, 2)
    both = (("left", {0, 2}), ("right", {1}))
    assert find_complete_set({"left": left, "right": right}, 3) == (both, frozenset())
    assert find_complete_set({"right": right, "all": part(), "left": left}, 3)[0] == (("all", {0, 1, 2}),)
    assert find_complete_set({"left": left, "right": other}, 3) == (both, frozenset())
    assert find_complete_set({"left": left}, 3)[1] == {1}
    assert find_complete_set({}, 2) == ((), {0, 1})


def test_snapshots_of_different_milestones_are_not_one_state() -> None:
    """By the milestone's bytes and its place, not by its number: a replaced stream repeats sequences."""
    for changes in ({"record": b"other"}, {"offset": 8}):
        parts = {"left": part(0, 2), "right": part(1, **changes)}  # type: ignore[arg-type]
        assert find_complete_set(parts, 3)[1] == {1}
    parts = {"a": part(0), "b": part(0, 1, record=b"o"), "c": part(2, record=b"o")}
    assert find_complete_set(parts, 3) == ((("b", {0, 1}), ("c", {2})), frozenset())


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

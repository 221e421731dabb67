"""Which milestones can be restored, and what is read for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.core.errors import UsageError
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.topics import MIN_COMPACTION_LAG_MS
from cutwater.core.state.backlog import MARGIN_MS, Entry
from cutwater.core.state.bulk_load import Slice
from cutwater.core.state.point_in_time_restore import RestorableSnapshot, RestoreSources, Target, plan, restorable
from support.protocol_samples import milestone

HOUR_MS = 3_600_000
LAG_MS = MIN_COMPACTION_LAG_MS - MARGIN_MS
TOPIC = "flights.changelog.g1-local-00000000"


def stream(*hours: int) -> list[Entry]:
    """A milestone of each of these hours, ten rows in each of two partitions."""
    found = []
    for at, hour in enumerate(hours):
        times = {
            "epoch_started_ms": hour * HOUR_MS,
            "written_ms": hour * HOUR_MS + 5,
            "committed_ms": hour * HOUR_MS + 9,
        }
        cut = Cut.of_topic(TOPIC, [10 * (at + 1), 10 * (at + 1)])
        found.append(Entry(replace(milestone(at), sequence=at + 1, changelog_cut=cut, **times), b"", at))
    return found


def known(entries: list[Entry], now_ms: int, more: int = 0, **changes: object) -> RestoreSources:
    """The changelog ends `more` rows behind the last cut."""
    end = 10 * len(entries) + more
    whole = RestoreSources(entries, {0: 0, 1: 0}, {0: end, 1: end}, now_ms)
    return replace(whole, **changes)  # type: ignore[arg-type]


def sequences(entries: list[Entry]) -> list[int]:
    return [one.milestone.sequence for one in entries]


@pytest.mark.parametrize(
    ("now_ms", "more", "held"),
    [
        (10 * HOUR_MS, 0, [1, 2, 3]),
        (2 * HOUR_MS + LAG_MS - 1, 0, [1, 2, 3]),
        (2 * HOUR_MS + LAG_MS, 0, [2, 3]),  # what follows the first was written from hour 2 on
        (3 * HOUR_MS + LAG_MS, 0, [3]),  # nothing follows the newest: however old, it is whole
        (3 * HOUR_MS + LAG_MS + 4, 1, [3]),  # rows of an epoch that has no milestone, younger than the newest's
        (3 * HOUR_MS + LAG_MS + 5, 1, []),
    ],
)
def test_what_compaction_has_spared(now_ms: int, more: int, held: list[int]) -> None:
    """A milestone is held as long as what follows its cut is younger than the lag, with the margin."""
    there = known(stream(1, 2, 3), now_ms, more)
    assert sequences(restorable(there)) == held
    for sequence in (1, 2, 3):
        target = Target(token=Token(milestone(0).generation, sequence))
        if sequence in held:
            assert plan(target, there).to.milestone.sequence == sequence
        else:
            with pytest.raises(UsageError, match="cannot be restored: compaction may have removed"):
                plan(target, there)


def test_what_is_read() -> None:
    """From the start or from what the folder holds, of all partitions or of some."""
    there = known(stream(1, 2, 3), 4 * HOUR_MS, more=7)
    made = plan(Target(), there)
    assert (made.slices, made.records_max) == ((Slice(0, 0, 30), Slice(1, 0, 30)), 60)
    since = there.stream[1].milestone
    assert plan(Target(), there, since).slices == (Slice(0, 20, 30), Slice(1, 20, 30))
    assert plan(Target(), replace(there, partitions=frozenset({1}))).slices == (Slice(1, 0, 30),)
    assert plan(Target(), there, there.stream[2].milestone).records_max == 0
    assert made.seconds(1) == 2 * made.seconds(2) == 2 * made.seconds(9) > 0


def test_a_snapshot_is_where_an_empty_folder_begins() -> None:
    """The newest at or before the target; where the folder holds something, it goes on from that."""
    entries = stream(1, 2, 3)
    there = known(entries, 4 * HOUR_MS, snapshots=[kept(entries, 1), kept(entries, 2)])
    made = plan(Target(), there)
    assert (made.snapshot, made.passed_over) == (kept(entries, 2), None)
    assert made.slices == (Slice(0, 20, 30), Slice(1, 20, 30))
    second = plan(Target(token=entries[1].milestone.token), there)
    assert (second.snapshot, second.records_max, second.held) == (kept(entries, 2), 0, True)
    assert plan(Target(token=entries[0].milestone.token), there).snapshot == kept(entries, 1)
    assert plan(Target(), there, entries[0].milestone).snapshot is None
    assert plan(Target(), known(entries, 4 * HOUR_MS)).snapshot is None
    nothing = plan(Target(token=entries[1].milestone.token), there)
    assert (nothing.records_max, nothing.seconds(2)) == (0, 0)


def test_a_snapshot_holds_what_compaction_has_overtaken() -> None:
    """Its own milestone, however old; what comes after it only as the changelog has it, truncated or not."""
    entries = stream(1, 2, 3)
    there = known(entries, 3 * HOUR_MS + LAG_MS, snapshots=[kept(entries, 1)])
    assert sequences(restorable(there)) == [1, 3]
    made = plan(Target(token=entries[0].milestone.token), there)
    assert (made.snapshot, made.records_max, made.held) == (kept(entries, 1), 0, False)
    with pytest.raises(UsageError, match="no snapshot of it; there are g1-local-00000000:1, g1-local-00000000:3"):
        plan(Target(token=entries[1].milestone.token), there)
    cut_off = replace(there, starts={0: 10, 1: 10})
    assert plan(Target(), cut_off).records_max == 40
    with pytest.raises(UsageError, match="partition 0 of the changelog starts at 10"):
        plan(Target(), replace(cut_off, snapshots=()))


def test_a_snapshot_goes_into_an_empty_folder_only() -> None:
    """Where the folder holds an older view, what only a snapshot holds cannot be reached from it."""
    entries = stream(1, 2, 3)
    there = known(entries, 3 * HOUR_MS + LAG_MS, snapshots=[kept(entries, 2)])
    with pytest.raises(UsageError, match="g1-local-00000000:2 is in a snapshot only, and the folder holds"):
        plan(Target(token=entries[1].milestone.token), there, entries[0].milestone)


def test_a_snapshot_of_another_stream_is_none() -> None:
    """Its milestone is not the one that stands there; one from before the stream's oldest may be ours."""
    entries = stream(1, 2, 3)
    other = RestorableSnapshot(replace(entries[1].milestone, rows=77), 4, 1_000)
    assert plan(Target(), known(entries, 4 * HOUR_MS, snapshots=[other])).snapshot is None
    pruned = known(entries[2:], 4 * HOUR_MS, ends={0: 30, 1: 30}, snapshots=[kept(entries, 2)])
    assert plan(Target(), pruned).snapshot == kept(entries, 2)


def test_what_was_evicted_from_a_snapshot_is_had_from_elsewhere() -> None:
    """From an older snapshot that lacks nothing, or the changelog; the newest one is named, and why not."""
    entries = stream(1, 2, 3)
    horizon = entries[2].milestone.horizon_ms
    whole, lacking = kept(entries, 1), kept(entries, 2)._replace(lower_ms=horizon + 1)
    there = known(entries, 4 * HOUR_MS, snapshots=[whole, lacking])
    made = plan(Target(), there)
    assert (made.snapshot, made.passed_over, made.lower_ms, made.records_max) == (whole, lacking, None, 40)
    made = plan(Target(), replace(there, snapshots=[lacking]))
    assert (made.snapshot, made.passed_over, made.lower_ms, made.records_max) == (None, lacking, None, 60)
    passed = lacking._replace(lower_ms=horizon)  # the horizon has passed the bound: nothing is missing
    assert plan(Target(), replace(there, snapshots=[passed])).snapshot == passed
    both = (lacking, lacking._replace(lower_ms=None))
    for snapshots in (both, both[::-1]):
        assert plan(Target(), replace(there, snapshots=snapshots)).snapshot == both[1], "of the same milestone"


def test_what_was_evicted_is_missing_where_there_is_no_other_way() -> None:
    """Compaction has overtaken it, or the changelog's begin was deleted: the plan says what is missing."""
    entries = stream(1, 2, 3)
    second = Target(token=entries[1].milestone.token)
    lacking = kept(entries, 2)._replace(lower_ms=1 << 60)
    overtaken = known(entries, 3 * HOUR_MS + LAG_MS, snapshots=[kept(entries, 1), lacking])
    made = plan(second, overtaken)
    assert (made.snapshot, made.passed_over, made.lower_ms) == (lacking, None, 1 << 60)
    cut_off = known(entries, 4 * HOUR_MS, snapshots=[lacking], starts={0: 10, 1: 10})
    made = plan(Target(), cut_off)
    assert (made.snapshot, made.passed_over, made.lower_ms) == (lacking, None, 1 << 60)


def kept(entries: list[Entry], sequence: int) -> RestorableSnapshot:
    return RestorableSnapshot(entries[sequence - 1].milestone, 4, 1_000)


@pytest.mark.parametrize(("at_ms", "sequence"), [(2 * HOUR_MS + 9, 2), (3 * HOUR_MS + 8, 2), (99 * HOUR_MS, 3)])
def test_a_moment_means_the_newest_milestone_committed_by_then(at_ms: int, sequence: int) -> None:
    there = known(stream(1, 2, 3), 4 * HOUR_MS)
    assert plan(Target(at_ms=at_ms), there).to.milestone.sequence == sequence


def test_latest_takes_the_newest_that_can_be_had() -> None:
    """The newest may be the one that compaction has overtaken, where a driver died in its next epoch long ago."""
    now_ms = 3 * HOUR_MS + LAG_MS + 5
    with pytest.raises(UsageError, match="none of the retained milestones can be restored: wait for the next one"):
        plan(Target(), known(stream(1, 2, 3), now_ms, more=1))


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (
            Target(token=Token.parse("g1-local-00000000:9")),
            "does not hold g1-local-00000000:9; there are g1",
        ),
        (Target(at_ms=HOUR_MS), "does not hold a milestone committed by 1970-01-01T01:00:00Z"),
        (Target(token=Token.parse("g2-local-00000000:2")), "does not hold g2-local-00000000:2"),
    ],
)
def test_what_is_not_there(target: Target, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        plan(target, known(stream(1, 2, 3), 4 * HOUR_MS))


def test_the_list_of_those_that_can_be_had_is_short() -> None:
    """Contiguous ones as a range, of many ranges the last ones."""
    entries = [one for at, one in enumerate(stream(*range(1, 40))) if at % 3]
    with pytest.raises(UsageError) as told:
        plan(Target(token=Token(milestone(0).generation, 1)), known(entries, 40 * HOUR_MS))
    assert str(told.value).endswith("8 ranges before, " + ", ".join(
        f"g1-local-00000000:{first} to g1-local-00000000:{first + 1}" for first in (26, 29, 32, 35, 38)
    ))  # fmt: skip


def test_an_empty_stream_and_a_truncated_changelog() -> None:
    with pytest.raises(UsageError, match="holds no milestone of this generation yet"):
        plan(Target(), RestoreSources([], {}, {}, 0))
    with pytest.raises(UsageError, match="partition 1 of the changelog starts at 5, but offsets from 0 are"):
        plan(Target(), known(stream(1, 2), 3 * HOUR_MS, starts={0: 0, 1: 5}))


def test_a_view_does_not_go_back() -> None:
    there = known(stream(1, 2, 3), 4 * HOUR_MS)
    with pytest.raises(UsageError, match="beyond g1-local-00000000:1: views do not go back"):
        plan(Target(token=Token(milestone(0).generation, 1)), there, there.stream[2].milestone)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("latest", Target()),
        ("g1-local-00000000:42", Target(token=Token.parse("g1-local-00000000:42"))),
        ("1970-01-01T01:00:00Z", Target(at_ms=HOUR_MS)),
        ("1970-01-01T02:00:00+01:00", Target(at_ms=HOUR_MS)),
        ("1970-01-02", Target(at_ms=24 * HOUR_MS)),
    ],
)
def test_targets_as_people_write_them(text: str, target: Target) -> None:
    assert Target.of(text) == target


@pytest.mark.parametrize("text", ["", "newest", "g1:4", "42", "1970-13-01"])
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(UsageError, match="is no target: write latest"):
        Target.of(text)

"""The ledger: a milestone arrives once both cuts are contained, in order, each once; what cannot is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.core.errors import DivergenceError
from cutwater.core.mirror.arrivals import ArrivalTracker
from cutwater.core.mirror.copy_progress import (
    NEVER_MS,
    OriginPartition,
    Piece,
    RecordMeta,
    advance_position,
    initial_position,
    seeded,
    unaccounted,
)
from cutwater.core.protocol.chain import ROOT_HASH, link
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.log_evidence import TopicEvidence
from cutwater.core.protocol.mirror_records import Mirrored, target
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry
from support.protocol_samples import milestone

ONE, TWO = Generation(1, "us"), Generation(2, "us", "0badcafe")
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
EVENTS = "flights.events"


def changelog(generation: Generation) -> str:
    return f"flights.changelog.{generation}"


def ledger(last: object = None) -> ArrivalTracker:
    return ArrivalTracker(
        "flights",
        "us",
        lambda topic: target("flights", topic, "us"),
        lambda topic: topic == EVENTS or topic.startswith("flights.changelog."),
        last,  # type: ignore[arg-type]
    )


class Stream:
    """Milestones chained by the hash of their bytes, which here are their text."""

    def __init__(self) -> None:
        self.last: tuple[Milestone, bytes] | None = None

    def next(self, source: int, rows: int, generation: Generation = ONE, **changes: object) -> Entry:
        sequence = self.last[0].sequence + 1 if self.last else 1
        one = replace(
            milestone(sequence - 1),
            generation=generation,
            sequence=sequence,
            parent_hash=link(self.last[1]) if self.last else ROOT_HASH,
            source_cut=Cut.of({TopicPartition(EVENTS, 0): source}),
            changelog_cut=Cut.of({TopicPartition(changelog(generation), 0): rows}),
            written_ms=0,
        )
        one = replace(one, **changes)  # type: ignore[arg-type]
        record = repr(one).encode()
        self.last = one, record
        return Entry(one, record, sequence)


class Copy:
    """One partition, copied without gaps; a transaction's marker follows each piece."""

    def __init__(self, topic: str, lag_ms: int = DAY_MS) -> None:
        self.at = initial_position("flights", "us", OriginPartition(topic, 0, "id", 1), 0, 0, 0)
        self.lag_ms = lag_ms
        self.here = 0

    def to(self, following: int, end: int = -1, now_ms: int = 0, written_ms: int = 0) -> Mirrored:
        read = [RecordMeta(offset, written_ms, 1) for offset in range(self.at.next, following)]
        self.at = advance_position(
            self.at, Piece(self.at.next, following, end, read), self.here, now_ms, self.lag_ms
        )
        self.here += len(read) + bool(read)
        return self.at


def sequences(one: ArrivalTracker, now_ms: int = 0) -> list[int]:
    return [arrival.sequence for arrival in one.arrivals(now_ms)]


def test_it_waits_for_both_cuts_and_translates_them() -> None:
    found, stream, events, rows = ledger(), Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    found.copy_moved(events.to(10))
    found.milestone_copied(stream.next(source=12, rows=5))
    assert sequences(found) == []
    found.copy_moved(rows.to(5))
    assert sequences(found) == [], "12 events are not copied, and nobody knows what follows row 5"
    found.copy_moved(events.to(20))
    found.copy_moved(rows.to(7))
    (arrival,) = found.arrivals(9)
    assert arrival.source_cut == Cut.of({TopicPartition("flights.events.from-us", 0): 13}), "a marker lies at 10"
    assert arrival.changelog_cut == Cut.of({TopicPartition(changelog(ONE), 0): 6})
    assert (arrival.arrived_ms, found.pending, found.arrived) == (9, 0, arrival)


def test_what_compaction_overtook_is_passed_and_said() -> None:
    found, stream, events, rows = ledger(), Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    late = 2 * DAY_MS
    for cut in (3, 6):
        found.milestone_copied(stream.next(cut, cut))
    found.copy_moved(events.to(9))
    found.copy_moved(rows.to(6, end=6, now_ms=late))
    assert sequences(found, late) == [2], "at the end of the log the second is whole, however old"
    assert [one.milestone.sequence for one in found.passed] == [1]
    assert "compaction may have removed values below offset 3" in found.passed[0].reason


def late_events(follows: bool = True) -> tuple[Stream, list[Mirrored]]:
    """The row is copied at hour 0, newer rows each hour, the event at hour 40: positions in their order.

    Milestones: at the row, and at the 30th hour's.
    """
    stream, events, rows = Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    positions = [rows.to(1, end=1)]
    for hour in range(1, 41 if follows else 1):
        positions.append(rows.to(hour + 1, now_ms=hour * HOUR_MS, written_ms=hour * HOUR_MS))
    return stream, [*positions, events.to(1, end=1, now_ms=40 * HOUR_MS)]


def test_what_compaction_here_overtook_while_the_events_lagged_is_passed() -> None:
    """The rows came in time, and were overwritten here for a day before the event came."""
    stream, positions = late_events()
    found = ledger()
    for cut in (1, 30):
        found.milestone_copied(stream.next(1, cut))
    for one in positions[:-1]:
        found.copy_moved(one)
        assert sequences(found, one.at_ms) == []
    found.copy_moved(positions[-1])
    assert sequences(found, 40 * HOUR_MS) == [2], "what follows the 30th hour's row has stood here for 10 hours"
    assert [one.milestone.sequence for one in found.passed] == [1]
    assert "compaction here may have removed values below offset 1 of" in found.passed[0].reason


@pytest.mark.parametrize(("hour", "arrive"), [(23, [1]), (24, [])])
def test_compaction_here_has_the_same_margin_as_in_the_origin(hour: int, arrive: list[int]) -> None:
    stream, positions = late_events()
    found = ledger()
    found.milestone_copied(stream.next(1, 1))
    for one in positions:
        found.copy_moved(one)
    assert sequences(found, hour * HOUR_MS) == arrive


def test_where_nothing_follows_the_cut_events_may_come_late() -> None:
    stream, positions = late_events(follows=False)
    found = ledger()
    found.milestone_copied(stream.next(1, 1))
    for one in positions:
        found.copy_moved(one)
    assert sequences(found, 40 * HOUR_MS) == [1]


@pytest.mark.parametrize("kept", range(41))
def test_after_a_restart_compaction_here_is_judged_the_same(kept: int) -> None:
    """Or the milestone is passed for the sake of positions that are gone."""
    stream, positions = late_events()
    found = ledger()
    for cut in (1, 30):
        found.milestone_copied(stream.next(1, cut))
    for one in positions[kept:]:
        found.copy_moved(one)
    assert sequences(found, 40 * HOUR_MS) == ([2] if kept <= 30 else [])


def test_who_has_stood_still_hears_first_what_was_written_meanwhile() -> None:
    """It may be what follows the cut, and has stood here for a day."""
    stream, positions = late_events()
    found = ledger()
    found.copy_moved(positions[0])
    assert sequences(found, 0) == []
    found.milestone_copied(stream.next(0, 1))
    found.copy_moved(replace(positions[-1], next=0, runs_source=(), runs_local=(), runs_length=(), at_ms=1))
    assert sequences(found, 40 * HOUR_MS) == []
    assert found.pending == 1
    for one in positions[1:-1]:
        found.copy_moved(one)
    assert sequences(found, 40 * HOUR_MS) == []
    assert [one.milestone.sequence for one in found.passed] == [1]


def test_who_starts_after_an_outage_has_heard_all() -> None:
    """No position comes any more: what was copied whole arrives."""
    stream, events, rows = Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    found = ledger()
    found.milestone_copied(stream.next(1, 1))
    found.copy_moved(events.to(1, end=1))
    found.copy_moved(rows.to(1, end=1))
    assert sequences(found, 2 * DAY_MS) == [1]


def test_a_job_that_lags_far_behind_its_events_has_arrivals() -> None:
    """Hours of a trickle are copied, a transaction for each event, and the job begins with the first ones."""
    found, stream, events, rows = ledger(), Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    many = 120_000
    for offset in range(many):
        found.copy_moved(events.to(offset + 1))
    found.copy_moved(rows.to(3, end=3))
    for cut in (1, 2, 70_000):
        found.milestone_copied(stream.next(cut, 3))
    arrived = list(found.arrivals(0))
    here = TopicPartition("flights.events.from-us", 0)
    assert [one.source_cut.offset(here) for one in arrived] == [2, 4, 140_000]


def test_a_barrier_older_than_tombstones_live_is_passed() -> None:
    """What deleted a key above the cut may be gone itself: the first record above says nothing any more."""
    found, stream, events, rows = ledger(), Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    now = 8 * DAY_MS
    found.milestone_copied(stream.next(1, 3))
    found.milestone_copied(stream.next(1, 4, written_ms=now))
    found.copy_moved(events.to(9))
    found.copy_moved(rows.to(9, now_ms=now, written_ms=now))
    assert sequences(found, now) == [2]


def test_a_generation_that_is_stuck_holds_no_later_one() -> None:
    found, stream, events = ledger(), Stream(), Copy(EVENTS, NEVER_MS)
    for cut in (1, 2, 3):
        found.milestone_copied(stream.next(cut, cut))
    found.milestone_copied(stream.next(3, 2, TWO))
    found.copy_moved(events.to(9))
    assert sequences(found) == []
    found.copy_moved(Copy(changelog(TWO)).to(2, end=2))
    assert sequences(found) == [4]
    assert [one.milestone.sequence for one in found.passed] == [1, 2, 3]
    assert found.pending == 0


def test_after_a_restart_nothing_is_announced_again() -> None:
    first, stream, events, rows = ledger(), Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    moves = [events.to(5), rows.to(5, end=5)]
    entries = [stream.next(2, 2), stream.next(5, 5)]
    for one in entries:
        first.milestone_copied(one)
    for move in moves:
        first.copy_moved(move)
    arrived = list(first.arrivals(0))
    again = ledger(arrived[0])
    for one in entries:
        again.milestone_copied(one)
    for move in moves:
        again.copy_moved(move)
    assert list(again.arrivals(0)) == arrived[1:]


def test_where_a_cut_lies_may_be_forgotten() -> None:
    """The positions topic is compacted: a milestone further back than its newest records is passed over."""
    found, stream, events, rows = ledger(), Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    events.to(5), rows.to(5, end=5)
    found.milestone_copied(stream.next(2, 2))
    found.milestone_copied(stream.next(7, 7))
    found.copy_moved(events.to(7, end=7))
    found.copy_moved(rows.to(7, end=7))
    assert sequences(found) == [2]
    assert "offset 2 of flights.events/0 can no longer be translated here" in found.passed[0].reason


def test_a_position_that_was_taken_away_is_waited_for() -> None:
    """Resync: the copy begins anew, and no milestone arrives by what it was."""
    found, stream, events, rows = ledger(), Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    found.copy_moved(events.to(5, end=5))
    found.copy_moved(rows.to(5, end=5))
    found.copy_forgotten(TopicPartition(EVENTS, 0))
    found.milestone_copied(stream.next(5, 5))
    assert sequences(found) == []
    found.copy_moved(Copy(EVENTS, NEVER_MS).to(6))
    assert sequences(found) == [1]


def test_behind_a_snapshot_the_milestones_after_it_arrive() -> None:
    """Its own cannot be proved: whose rows those below its cut are, nobody can tell. One without rows can."""
    found, stream, events, rows = ledger(), Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    before = initial_position("flights", "us", OriginPartition(changelog(ONE), 0, "id", 1), 40, 7, 0)
    rows.at, rows.here = seeded(before, records=7, size=70, local=7, source_ms=0), 8
    for cut, own in ((39, 3), (40, 3), (40, 0), (43, 3)):
        found.milestone_copied(stream.next(1, cut, partition_rows=(own,), partition_digests=(own,)))
    found.copy_moved(events.to(9))
    found.copy_moved(rows.at)
    assert sequences(found) == [], "what follows the snapshot's cut is not known yet"
    assert [one.milestone.sequence for one in found.passed] == [1, 2]
    assert "below offset 40 flights.changelog." in found.passed[1].reason
    found.copy_moved(rows.to(50))
    three, four = found.arrivals(0)
    assert [one.sequence for one in (three, four)] == [3, 4]
    at = [dict(one.changelog_cut)[TopicPartition(changelog(ONE), 0)] for one in (three, four)]
    assert at == [8, 11], "all rows of the snapshot lie below both"
    marker = [unaccounted(one, 8) for one in (before, seeded(before, 7, 70, 7, 0))]
    assert marker == [1, 0], "behind the rows stands the marker of their transaction"


def test_a_snapshots_milestone_does_not_arrive_at_the_logs_end_either() -> None:
    """Nothing follows its cut, so nothing was compacted: it is not that which it lacks."""
    found, stream, events, rows = ledger(), Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    rows.at = seeded(
        initial_position("flights", "us", OriginPartition(changelog(ONE), 0, "id", 1), 40, 7, 0), 7, 70, 7, 0
    )
    # Of an older version, which does not say of which partition its rows are.
    found.milestone_copied(stream.next(1, 40, partition_rows=(), partition_digests=()))
    found.copy_moved(events.to(9))
    found.copy_moved(rows.to(40, end=40))
    assert (sequences(found), [one.milestone.sequence for one in found.passed]) == ([], [1])


@pytest.mark.parametrize("change", [{"sequence": 3}, {"parent_hash": bytes(32)}])
def test_a_broken_chain_is_a_divergence(change: dict[str, object]) -> None:
    found, stream = ledger(), Stream()
    found.milestone_copied(stream.next(1, 1))
    with pytest.raises(DivergenceError, match="broken at sequence"):
        found.milestone_copied(stream.next(2, 2, **change))


@given(
    st.lists(
        st.tuples(st.sampled_from(["event", "row", "milestone", "copy", "rows"]), st.integers(1, 4)), max_size=50
    )
)
@settings(max_examples=200)
def test_in_any_order_every_milestone_arrives_once_in_order(steps: list[tuple[str, int]]) -> None:
    """With nothing compacted none is left out, and no cut is announced that is not copied."""
    found, stream, events, rows = ledger(), Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    written = {"event": 0, "row": 0}
    arrived: list[int] = []
    for what, many in steps:
        if what in written:
            written[what] += many
        elif what == "milestone":
            found.milestone_copied(stream.next(written["event"], written["row"]))
        else:
            copy, end = (events, written["event"]) if what == "copy" else (rows, written["row"])
            found.copy_moved(copy.to(min(end, copy.at.next + many), end))
        for one in found.arrivals(0):
            arrived.append(one.sequence)
            assert all(
                0 <= offset <= copy.here
                for copy, cut in ((events, one.source_cut), (rows, one.changelog_cut))
                for _, offset in cut
            )
    found.copy_moved(events.to(written["event"], written["event"]))
    found.copy_moved(rows.to(written["row"], written["row"]))
    arrived += sequences(found)
    assert arrived == list(range(1, len(arrived) + 1))
    assert (found.pending, found.passed) == (0, [])


def test_a_milestone_read_again_is_passed_over() -> None:
    found, stream = ledger(), Stream()
    one = stream.next(1, 1)
    found.milestone_copied(one)
    found.milestone_copied(one)
    assert (found.pending, found.newest) == (1, one.milestone)
    found.milestone_copied(stream.next(2, 2))
    assert found.pending == 2


def test_evidence_without_a_topic_id_says_nothing_about_the_topic() -> None:
    """Where brokers did not say one; with another one the topic was recreated."""
    for topic_id, arrived in (("", [1]), ("id", [1]), ("other", [])):
        found, stream, events, rows = ledger(), Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
        found.milestone_copied(stream.next(2, 2, evidence=(TopicEvidence(EVENTS, topic_id, ()),)))
        found.copy_moved(events.to(2, end=2))
        found.copy_moved(rows.to(2, end=2))
        assert sequences(found) == arrived, topic_id


@pytest.mark.parametrize(
    ("cut", "arrived", "reason"),
    [(2, [1], ""), (3, [1], ""), (4, [], "the origin has lost records of flights.events/0 below 4")],
)
def test_records_of_a_leader_that_came_later_are_not_those_that_were_counted(
    cut: int, arrived: list[int], reason: str
) -> None:
    """Leader 5 wrote from offset 3 on, which the second position says; the milestone's was leader 4."""
    found, stream, events, rows = ledger(), Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    found.milestone_copied(stream.next(cut, 2, evidence=(TopicEvidence(EVENTS, "id", (4,)),)))
    found.copy_moved(rows.to(2, end=2))
    found.copy_moved(replace(events.to(1), leader=4, leaders=(4,), leaders_from=(0,)))
    found.copy_moved(replace(events.to(6), leader=5, leaders=(4, 5), leaders_from=(0, 3)))
    assert sequences(found) == arrived
    assert [one.reason[: len(reason)] for one in found.passed] == ([reason] if reason else [])


def test_where_the_leaders_below_a_cut_are_forgotten_a_milestone_is_passed() -> None:
    """What is known begins with a later leader, behind the cut: who wrote before it, nobody can tell."""
    found, stream, events, rows = ledger(), Stream(), Copy(EVENTS, NEVER_MS), Copy(changelog(ONE))
    found.milestone_copied(stream.next(2, 2, evidence=(TopicEvidence(EVENTS, "id", (4,)),)))
    found.copy_moved(rows.to(2, end=2))
    found.copy_moved(replace(events.to(6), leader=5, leaders=(5,), leaders_from=(3,)))
    assert sequences(found) == []
    (passed,) = found.passed
    assert passed.reason == "flights.events/0 below offset 2: the leaders that wrote it are no longer known"

"""What a view decides to do next, with plain values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.core.errors import DivergenceError, FencedError, UnavailableError
from cutwater.core.protocol.chain import ROOT_HASH
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.lineage import Lineage
from cutwater.core.protocol.topics import MIN_COMPACTION_LAG_MS
from cutwater.core.state.backlog import MARGIN_MS, Backlog, Entry, Jump, Step, contained, fresh, mismatch
from cutwater.core.state.reader_names import CLIENT, PUBLISHER, VIEW, Reader
from support.protocol_samples import milestone

G1 = Generation(1, "local")
NOW = 1_000_000_000
OLD = NOW - MIN_COMPACTION_LAG_MS


def chain(count: int, written_ms: int = NOW) -> list[Entry]:
    """`count` milestones in a row, as they stand on a stream."""
    entries: list[Entry] = []
    parent = ROOT_HASH
    for number in range(1, count + 1):
        changes: dict[str, Any] = {"parent_hash": parent, "rows": 3, "digest": -7, "written_ms": written_ms}
        cut = Cut.of({TopicPartition("c", 0): number})
        one = milestone(number - 1, sequence=number, changelog_cut=cut, committed_ms=written_ms, **changes)
        entries.append(Entry(one, protocol_records.encode(one), 2 * number))
        parent = protocol_records.hash_of(one)
    return entries


def fed(backlog: Backlog, entries: list[Entry], complete: bool = True) -> Backlog:
    for entry in entries:
        backlog.add(entry)
    if complete:
        backlog.end_of_stream()
    return backlog


def test_empty_view_jumps_to_the_newest_once_the_end_was_seen() -> None:
    """Before the stream's end was read nobody knows which milestone is the newest."""
    entries = chain(5)
    backlog = fed(Backlog(G1), entries, complete=False)
    assert backlog.plan(NOW) is None
    backlog.end_of_stream()
    assert backlog.plan(NOW) == Jump(entries[4])


def test_what_follows_the_readers_milestone_must_name_it_as_its_parent() -> None:
    """The stream was replaced, and where the reader's milestone stood is now a marker, or nothing any more."""
    entries, others = chain(3), chain(3, written_ms=NOW - 1)
    backlog = Backlog(G1, entries[1])
    with pytest.raises(DivergenceError, match="fork: the parent hash is not the hash of sequence 2"):
        backlog.add(others[2])
    assert backlog.plan(NOW) is None
    assert fed(Backlog(G1, entries[1]), entries[2:]).plan(NOW) == Step(entries[2])


def test_nothing_new_is_nothing_to_do() -> None:
    """A view at the newest milestone, and an empty stream, have no plan."""
    entries = chain(2)
    assert fed(Backlog(G1, entries[1]), entries).plan(NOW) is None
    assert fed(Backlog(G1), []).plan(NOW) is None


def test_view_behind_steps_one_by_one() -> None:
    """A restarted view applies one milestone after another, each onto the one before."""
    entries = chain(4)
    backlog = fed(Backlog(G1, entries[1]), entries[1:])
    assert backlog.plan(NOW) == Step(entries[2])
    backlog.mark_applied(entries[2])
    assert backlog.plan(NOW) == Step(entries[3])
    backlog.mark_applied(entries[3])
    assert backlog.plan(NOW) is None


def test_view_away_for_longer_than_compaction_waits_jumps() -> None:
    """Rows of an old epoch may be gone: its digest would be a false alarm, so the view skips to the newest."""
    entries = chain(4, OLD)
    assert fed(Backlog(G1, entries[0]), entries).plan(NOW) == Jump(entries[3])


def test_broken_off_milestone_is_the_least_to_show() -> None:
    """The store may hold rows of the milestone that was begun: nothing below it may be shown, so no step to it."""
    entries = chain(4)
    assert fed(Backlog(G1, entries[0], floor=4), entries).plan(NOW) == Jump(entries[3])
    assert fed(Backlog(G1, entries[0], floor=4), entries[:3]).plan(NOW) is None
    assert fed(Backlog(G1, entries[0], floor=2), entries).plan(NOW) == Step(entries[1])


def test_overtaken_milestone_waits_for_a_later_one() -> None:
    """What compaction took from a milestone does not come back; the next milestone may be whole."""
    entries = chain(3)
    backlog = fed(Backlog(G1), entries[:2])
    backlog.mark_overtaken(entries[1], looked=True)
    assert backlog.plan(NOW) is None
    backlog.add(entries[2])
    assert backlog.plan(NOW) == Jump(entries[2])


def test_a_milestone_that_got_old_while_it_was_read_is_read_again() -> None:
    """Nobody looked above its cut: an idle job may write no later one, so the reader must not wait for that."""
    entries = chain(3)
    backlog = fed(Backlog(G1, entries[0]), entries[:2])
    assert backlog.plan(NOW) == Step(entries[1])
    backlog.mark_overtaken(entries[1], looked=False)
    assert backlog.plan(NOW) == Jump(entries[1])
    backlog.add(entries[2])
    assert backlog.plan(NOW) == Jump(entries[2])


def test_pending_milestones_are_bounded() -> None:
    """A view far behind keeps the newest only, and jumps; a view that follows asks for a pause."""
    entries = chain(9)
    backlog = fed(Backlog(G1, entries[0], pending_max=3), entries)
    assert len(backlog) <= 3
    assert backlog.plan(NOW) == Jump(entries[8])
    following = fed(Backlog(G1, entries[0], pending_max=3), entries[:4])
    assert following.full
    assert following.plan(NOW) == Step(entries[1])


def test_stream_pruned_past_the_view_is_jumped_over() -> None:
    """Milestones between were deleted: their rows cannot be proved one by one any more."""
    entries = chain(6)
    assert fed(Backlog(G1, entries[1]), entries[4:]).plan(NOW) == Jump(entries[5])


def test_stream_pruned_while_the_view_could_not_read_is_jumped_over() -> None:
    """As at a start: a disk may be full for longer than milestones are kept."""
    entries = chain(6)
    backlog = fed(Backlog(G1, entries[0]), entries[:2])
    backlog.reopened(entries[1].offset)
    assert backlog.plan(NOW) == Step(entries[1]), "nothing was pruned"
    backlog.reopened(entries[4].offset)
    assert backlog.plan(NOW) is None, "its end may be another"
    assert fed(backlog, entries[4:]).plan(NOW) == Jump(entries[5])
    with pytest.raises(DivergenceError, match="fork"):
        backlog.add(chain(7, written_ms=NOW - 1)[6])


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"sequence": 4}, "gap"), ({"parent_hash": bytes(32)}, "fork"), ({"epoch": 9}, "epoch")],
)
def test_broken_chain_is_refused_and_changes_nothing(change: dict[str, object], reason: str) -> None:
    """A gap, a fork or a jumping epoch raises; the right milestone is still taken afterwards."""
    entries = chain(3)
    backlog = fed(Backlog(G1, entries[0]), entries[:2])
    wrong = replace(entries[2].milestone, **change)
    with pytest.raises(DivergenceError, match=reason):
        backlog.add(Entry(wrong, protocol_records.encode(wrong), entries[2].offset))
    backlog.add(entries[2])
    assert len(backlog) == 2


def test_replaced_stream_is_found() -> None:
    """A stream that ends before the view's milestone, or holds another in its place, is not the view's."""
    entries, other = chain(3), chain(3, OLD)
    with pytest.raises(DivergenceError, match="ends at sequence 2"):
        fed(Backlog(G1, entries[2]), entries[:2])
    with pytest.raises(DivergenceError, match="replaced"):
        fed(Backlog(G1, entries[2]), other)


@pytest.mark.parametrize("reader", [VIEW, PUBLISHER, CLIENT], ids=lambda one: one.name)
def test_a_person_is_told_which_reader_is_meant(reader: Reader) -> None:
    """Each error names the reader that met it and how that one begins anew: a publisher has no view's folder."""
    entries, other = chain(3), chain(3, OLD)
    says = f"{reader.name} .*; then {reader.anew}"
    with pytest.raises(DivergenceError, match=says):
        fed(Backlog(G1, entries[2], reader=reader), entries[:2])
    with pytest.raises(DivergenceError, match=says):
        fed(Backlog(G1, entries[2], reader=reader), other)
    promoted = replace(entries[0].milestone, generation=Generation(2, "local", "abcdef01"))
    with pytest.raises(FencedError, match=f"{reader.name} follows"):
        Backlog(G1, reader=reader).add(Entry(promoted, protocol_records.encode(promoted), 0))


def test_last_milestone_read_again_must_be_the_same() -> None:
    """After a pause reading goes on at the last milestone known, and that one must still stand there."""
    entries, other = chain(3), chain(3, OLD)
    backlog = fed(Backlog(G1, entries[0]), entries)
    assert backlog.position == entries[2].offset
    backlog.add(entries[2])
    assert len(backlog) == 2
    with pytest.raises(DivergenceError, match="replaced"):
        backlog.add(other[2])


def test_an_empty_stream_is_shorter_than_what_is_shown() -> None:
    """Nothing was read, and one milestone is applied: the topic was replaced or truncated."""
    with pytest.raises(DivergenceError, match="ends at sequence 0, but the view is at 1"):
        Backlog(G1, chain(1)[0]).end_of_stream()
    Backlog(G1).end_of_stream()


def test_what_is_missed_is_jumped_over_and_what_is_known_is_not() -> None:
    """Of its own generation and behind it; a milestone that is applied already is no gap."""
    entries = chain(4)
    again = Backlog(G1, entries[1])
    again.missed(entries[1])
    again.add(entries[2])
    assert again.plan(NOW) == Step(entries[2])
    behind = Backlog(G1, entries[1])
    behind.missed(entries[2])
    behind.add(entries[3])
    assert behind.plan(NOW) is None, "until the end is seen"
    behind.end_of_stream()
    assert behind.plan(NOW) == Jump(entries[3])
    behind.missed(entries[3])
    with pytest.raises(DivergenceError, match="is not as"):
        behind.missed(entries[3]._replace(record=b"other"))


def test_the_last_that_is_known_is_where_reading_goes_on() -> None:
    entries = chain(3)
    assert Backlog(G1).position is None
    assert Backlog(G1, entries[0]).position == entries[0].offset
    backlog = fed(Backlog(G1, entries[0]), entries[1:])
    assert (backlog.position, backlog.known) == (entries[2].offset, entries[2])
    backlog.mark_applied(entries[1])
    assert len(backlog) == 1
    assert backlog.known == entries[2]


def test_reading_pauses_at_the_bound_once_the_end_was_seen() -> None:
    entries = chain(4)
    backlog = fed(Backlog(G1, entries[0], pending_max=2), entries[1:3], complete=False)
    assert not backlog.full
    backlog.end_of_stream()
    assert backlog.full
    backlog.mark_applied(entries[1])
    assert not backlog.full


def test_newer_generation_ends_the_following_and_older_ones_are_passed() -> None:
    """A view follows one generation: milestones of its parents are checked and passed, a promotion ends it."""
    entries = chain(2)
    assert fed(Backlog(Generation(2, "local")), entries).plan(NOW) is None
    promoted = replace(
        entries[1].milestone, generation=Generation(2, "local", "abcdef01"), epoch=0, changelog_cut=Cut()
    )
    backlog = fed(Backlog(G1), entries[:1])
    with pytest.raises(FencedError, match="promoted"):
        backlog.add(Entry(promoted, protocol_records.encode(promoted), 4))


def promoted_behind(entries: list[Entry], number: int = 2) -> Entry:
    """The first milestone of another generation."""
    last = entries[-1]
    milestone = replace(
        last.milestone,
        generation=Generation(number, "local", "abcdef01"),
        epoch=0,
        sequence=last.milestone.sequence + 1,
        parent_hash=protocol_records.hash_of(last.milestone),
        changelog_cut=Cut(),
    )
    return Entry(milestone, protocol_records.encode(milestone), last.offset + 2)


def test_what_hands_over_steps_to_its_last_milestone_first() -> None:
    """Everything of its own generation is shown, then it is over; what follows is not its own to read."""
    entries = chain(3)
    promoted = promoted_behind(entries)
    backlog = Backlog(G1, entries[0], hands_over=True, lineage=Lineage.of(G1))
    fed(backlog, [*entries, promoted, promoted_behind([promoted], 3)], complete=False)
    for entry in entries[1:]:
        assert (backlog.over(NOW), backlog.plan(NOW)) == (False, Step(entry))
        backlog.mark_applied(entry)
    assert (backlog.over(NOW), backlog.plan(NOW)) == (True, None)
    assert backlog.successor == promoted.milestone
    assert backlog.lineage == Lineage.of(G1)
    assert backlog.position == entries[2].offset


@pytest.mark.parametrize("written_ms", [NOW, OLD])
def test_what_hands_over_never_jumps_first(written_ms: int) -> None:
    """An empty reader, and one that was away too long, are over at once: the next generation is restored."""
    entries = chain(3, written_ms)
    applied = None if written_ms == NOW else entries[0]
    backlog = fed(Backlog(G1, applied, hands_over=True), [*entries, promoted_behind(entries)], complete=False)
    assert (backlog.over(NOW), backlog.plan(NOW)) == (True, None)


def test_a_promotion_that_is_no_successor_is_a_broken_chain() -> None:
    entries = chain(3)
    backlog = fed(Backlog(G1, hands_over=True), entries[:2])
    with pytest.raises(DivergenceError, match="gap"):
        backlog.add(promoted_behind(entries))
    assert not backlog.over(NOW)


def test_containment_is_told_by_time() -> None:
    """Compaction takes a value only for a record older than the lag; the margin covers clocks and reading."""
    lag = MIN_COMPACTION_LAG_MS
    assert contained([], NOW)
    assert contained([None, NOW, NOW - lag + MARGIN_MS + 1], NOW)
    assert not contained([None, NOW - lag + MARGIN_MS], NOW)
    newest = chain(1)[0].milestone
    assert fresh(newest, NOW + lag - MARGIN_MS - 1)
    assert not fresh(newest, NOW + lag - MARGIN_MS)


def test_mismatch_names_what_differs() -> None:
    """Both numbers must agree, and the message tells the milestone and what was found."""
    milestone = chain(1)[0].milestone
    assert mismatch(milestone, 3, -7) is None
    for rows, digest in ((2, -7), (3, 7)):
        text = mismatch(milestone, rows, digest)
        assert text is not None
        assert f"{milestone.token}" in text
        assert f"holds {rows} with digest {digest}" in text


def test_behind_a_jump_the_next_is_a_step_again() -> None:
    """The gap is closed by what was applied."""
    entries = chain(4)
    backlog = fed(Backlog(G1, entries[0]), entries[2:3])
    assert backlog.plan(NOW) == Jump(entries[2])
    backlog.mark_applied(entries[2])
    backlog.add(entries[3])
    assert backlog.plan(NOW) == Step(entries[3])


def test_a_reader_whose_clock_is_far_behind_reads_nothing() -> None:
    """By its clock a milestone of a day ago is young, and compaction has taken rows of it: neither step nor jump.

    Both clocks may be wrong by half an hour in opposite directions. Once they agree, it goes on.
    """
    entries = chain(4)
    for known in (None, entries[1]):
        backlog = fed(Backlog(G1, known), entries[2:] if known else entries)
        with pytest.raises(UnavailableError, match="committed 61 minutes from now, by this machine's clock"):
            backlog.plan(NOW - MARGIN_MS - 60_000)
        assert backlog.plan(NOW - MARGIN_MS) == backlog.plan(NOW)
        assert backlog.plan(NOW) is not None

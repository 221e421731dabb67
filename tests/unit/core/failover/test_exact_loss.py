"""The exact loss, from plain offsets: what was copied later, what of it was read, what of it came too late."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.driver.rejected_events import EventPosition, LatePair, Listed
from cutwater.core.failover.exact_loss import (
    ExactLoss,
    Late,
    Later,
    PartitionLoss,
    Record,
    late_of,
    later,
    never_copied,
)
from cutwater.core.mirror.copy_progress import OriginPartition, initial_position
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation

COPY = "flights.events.from-us"


@st.composite
def copies(draw: st.DrawFn) -> list[Record]:
    """Both offsets rise, and markers leave gaps on either side."""
    steps = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=30))
    found, source, local = [], draw(st.integers(0, 5)), draw(st.integers(0, 5))
    for by, here in steps:
        found.append(Record(source, local))
        source, local = source + by, local + here
    return found


@given(copies(), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_what_was_copied_after_the_failover(copy: list[Record], since: int, more: int, read: int) -> None:
    """Exactly the records whose offset in the origin is in the range; and its place here holds no other."""
    wanted = [one for one in copy if since <= one.source < since + more]
    found = later(copy, since, since + more, read, kept=30)
    assert found.gone == sum(one.source < 30 for one in wanted)
    assert found.records == len(wanted)
    assert found.read == sum(one.local < read for one in wanted)
    assert [one for one in copy if found.holds(one.local)] == wanted


def test_where_it_lies_ends_behind_its_last_record() -> None:
    """A record that follows at once, of before or behind the range, is no part of it."""
    copy = [Record(4, 10), Record(5, 11), Record(6, 12), Record(7, 13)]
    assert later(copy, 5, 7, read=12, kept=6) == Later(2, 11, 13, 1, 1)
    assert later(copy, 8, 9, read=12) == Later()


def pair(partition: int, offset: int, window: int, topic: str = COPY) -> LatePair:
    by = Listed(Generation(2, "eu", "0badcafe"), 1, 3)
    return LatePair(EventPosition(topic, partition, offset), by, "JFK", window, window + 1, 0, 9)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 2)), unique=True))
def test_late_are_pairs_of_events_that_were_copied_later(found: list[tuple[int, int, int]]) -> None:
    """An event that is late for two windows is one event; other topics' offsets mean nothing here."""
    copied = {TopicPartition(COPY, 0): Later(3, 4, 7), TopicPartition(COPY, 1): Later()}
    pairs = [pair(*one) for one in found] + [pair(0, 5, 0, "flights.events")]
    wanted = [one for one in found if one[0] == 0 and 4 <= one[1] < 7]
    assert late_of(pairs, copied) == Late(len(wanted), len({one[:2] for one in wanted}))


def test_a_count_is_exact_only_where_nothing_was_deleted() -> None:
    """What retention has taken on either side is a bound, not a number; so is a log that grew again."""

    def missed(**changes: int) -> PartitionLoss:
        told = {"copied": 10, "end": 20, "records": 8, "deleted": 0, "cut": 0, "forgotten": 0} | changes
        return PartitionLoss(TopicPartition("flights.events", 0), **told, later=Later(5, 3, 9, 4))

    one = ExactLoss([missed(), missed(cut=3)], Late(3, 2))
    assert (one.events, one.copied, one.absent, one.read, one.exact) == (16, 10, 6, 8, True)
    assert not ExactLoss([missed(), missed(deleted=1)], Late(0, 0)).exact
    assert not ExactLoss([missed()], Late(0, 0), ("an epoch is not listed whole",)).exact
    assert not ExactLoss([missed(), missed(forgotten=1)], Late(0, 0)).exact
    assert not ExactLoss([missed(), missed(cut=3, rewritten_from=0)], Late(0, 0)).exact


def test_a_partition_of_which_nothing_was_copied_lies_nowhere() -> None:
    assert later([], 0, 9, 9) == Later(0, 0, 0, 0, 0)
    assert (Later().first, Later().end) == (0, 0), "both 0 for none"


def test_what_the_origin_holds_from_its_beginning_on_is_not_gone() -> None:
    """Unless it says from where on it holds records, it holds all of them."""
    copy = [Record(0, 10), Record(1, 11)]
    assert later(copy, 0, 2, read=0).gone == 0
    assert later(copy, 0, 2, read=0, kept=1).gone == 1


OFFSETS = st.integers(0, 12)


@given(OFFSETS, st.none() | st.tuples(OFFSETS, OFFSETS), OFFSETS, OFFSETS)
def test_deleted_are_offsets_that_no_mirror_has_read(
    copied: int, read: tuple[int, int] | None, low: int, end: int
) -> None:
    """A marker of a transaction is an offset that was read, though it is no record of the copy."""
    first, following = sorted(read) if read else (0, 0)
    place = OriginPartition("flights.events", 0, "id", 1)
    position = replace(initial_position("flights", "us", place, first, 0, 0), next=following) if read else None
    gone = set(range(copied, min(low, end))) - set(range(first, following))
    assert never_copied(copied, position, low, end) == len(gone)


def test_events_of_after_the_promotion_are_counted_where_there_was_one() -> None:
    """By partition, and none where none is told of; a candidate has no promotion that they could be after."""
    quiet = PartitionLoss(TopicPartition("flights.events", 0), 10, 20, 8, 0, 0, 0, Later())
    busy = PartitionLoss(TopicPartition("flights.events", 1), 10, 20, 8, 0, 0, 0, Later(), afterwards=3)
    assert ExactLoss([quiet, busy], Late(0, 0), promoted_ms=7).afterwards == 3
    assert ExactLoss([quiet], Late(0, 0), promoted_ms=7).afterwards == 0
    assert ExactLoss([quiet, busy], Late(0, 0)).afterwards is None

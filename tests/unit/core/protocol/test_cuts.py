"""Cuts: what is inside one, which is ahead of which, and that no unknown offset becomes a position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.protocol.cuts import Cut, TopicPartition

PLACES = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 2))
OFFSETS = st.dictionaries(PLACES, st.integers(0, 5))


@given(OFFSETS, OFFSETS)
def test_a_cut_covers_another_when_no_partition_is_behind(
    mine: dict[TopicPartition, int], others: dict[TopicPartition, int]
) -> None:
    """`covers` says: every partition of the other is here, at its offset or past it."""
    expected = all(place in mine and mine[place] >= offset for place, offset in others.items())
    assert Cut.of(mine).covers(Cut.of(others)) == expected


@given(OFFSETS, OFFSETS, OFFSETS)
def test_covers_is_a_partial_order(
    one: dict[TopicPartition, int], two: dict[TopicPartition, int], three: dict[TopicPartition, int]
) -> None:
    """Reflexive, transitive, and two cuts that cover each other are equal: 'ahead' has one meaning."""
    a, b, c = Cut.of(one), Cut.of(two), Cut.of(three)
    assert a.covers(a)
    if a.covers(b) and b.covers(c):
        assert a.covers(c)
    if a.covers(b) and b.covers(a):
        assert a == b


def test_a_partition_at_offset_zero_is_not_the_same_as_no_partition() -> None:
    """A cut that names a new, empty partition is not covered by one that does not know of it."""
    new = Cut.of({TopicPartition("a", 0): 0})
    assert not Cut().covers(new)
    assert new.covers(Cut())


@given(OFFSETS, OFFSETS)
def test_records_since_counts_the_offsets_between(
    earlier: dict[TopicPartition, int], more: dict[TopicPartition, int]
) -> None:
    """Partitions that the earlier cut does not name count from their beginning."""
    later = {place: earlier.get(place, 0) + more.get(place, 0) for place in earlier | more}
    assert Cut.of(later).records_since(Cut.of(earlier)) == sum(more.values())


@given(OFFSETS)
def test_equal_cuts_are_equal_whatever_the_order_they_were_told_in(offsets: dict[TopicPartition, int]) -> None:
    """Entries are sorted, so equality, hashes and bytes do not depend on a dict's order."""
    backwards = dict(reversed(list(offsets.items())))
    assert Cut.of(offsets) == Cut.of(backwards)
    assert hash(Cut.of(offsets)) == hash(Cut.of(backwards))
    assert Cut.of(offsets).as_dict() == offsets
    assert len(Cut.of(offsets)) == len(offsets)


@pytest.mark.parametrize("unknown", [-1, -2, -1001])
def test_unknown_offsets_are_refused(unknown: int) -> None:
    """Clients say 'unknown' with negative offsets; kept as a number, one would restore from nowhere."""
    with pytest.raises(UsageError, match=f"offset {unknown} of events/3 is not a position"):
        Cut.of({TopicPartition("events", 3): unknown})


def test_a_topics_cut_is_read_by_partition_number() -> None:
    """`of_topic` numbers the partitions from 0; `offset` answers the default for one that is not named."""
    cut = Cut.of_topic("events", [5, 0, 7])
    assert cut.offset(TopicPartition("events", 2)) == 7
    assert cut.offset(TopicPartition("events", 3), default=-1) == -1

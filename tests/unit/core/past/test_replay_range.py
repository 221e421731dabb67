"""Which events a replay counts, and what it says of those that the source no longer has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.past.replay_range import SourceRange, require_one_line, require_source_kept, source_ranges
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.records import Milestone
from support.cli.verb_records import NEWEST

TOPIC = "flights.events"
OFFSETS = st.dictionaries(st.integers(0, 4), st.integers(0, 50), max_size=5)


def milestone(sequence: int, offsets: dict[int, int], topic: str = TOPIC, rewinds_to: int = 0) -> Milestone:
    cut = Cut.of({TopicPartition(topic, number): offset for number, offset in offsets.items()})
    return replace(NEWEST, sequence=sequence, source_cut=cut, rewinds_to=rewinds_to)


@given(OFFSETS, OFFSETS)
def test_each_event_between_the_cuts_is_counted_once(before: dict[int, int], more: dict[int, int]) -> None:
    """In partitions that are new since, from the first one on."""
    after = {number: before.get(number, 0) + more.get(number, 0) for number in before.keys() | more.keys()}
    ranges = source_ranges(TOPIC, milestone(1, before), milestone(2, after))
    counted = {(one.partition, offset) for one in ranges for offset in range(one.first, one.end)}
    read = [{(number, at) for number, end in cut.items() for at in range(end)} for cut in (before, after)]
    assert counted == read[1] - read[0]
    assert source_ranges(TOPIC, None, milestone(2, after)) == tuple(
        SourceRange(number, 0, end) for number, end in sorted(after.items())
    )


def test_other_events_are_refused() -> None:
    """Copies of another region's; and an end before the start."""
    with pytest.raises(UsageError, match=r"also read flights\.events\.from-eu"):
        source_ranges(TOPIC, None, milestone(2, {0: 5}, "flights.events.from-eu"))
    with pytest.raises(UsageError, match="exchange --from and --to"):
        source_ranges(TOPIC, milestone(1, {0: 5, 1: 2}), milestone(2, {0: 9, 1: 1}))


@given(st.lists(OFFSETS, min_size=1, max_size=6), OFFSETS)
def test_deleted_events_are_named_with_the_earliest_start(
    steps: list[dict[int, int]], lows: dict[int, int]
) -> None:
    """The first milestone from which everything is there; none is named if there is none. Nothing is said of
    events that are not asked for."""
    read: dict[int, int] = {}
    stream = []
    for sequence, step in enumerate(steps, 1):
        read = {number: read.get(number, 0) + step.get(number, 0) for number in read.keys() | step.keys()}
        stream.append(milestone(sequence, read))
    end = stream[-1]
    for start in (None, *stream):
        ranges = source_ranges(TOPIC, start, end)
        gone = [one for one in ranges if one.offsets and one.first < lows.get(one.partition, 0)]
        possible = [one for one in stream if all(one.source_cut.offset(TopicPartition(TOPIC, p), -1) >= low
                                                 for p, low in lows.items() if low)]  # fmt: skip
        if not gone:
            require_source_kept(TOPIC, ranges, lows, end, stream)
            continue
        with pytest.raises(UsageError) as refused:
            require_source_kept(TOPIC, ranges, lows, end, stream)
        assert f"of {TOPIC}/{gone[0].partition}" in str(refused.value)
        expected = f"--from {possible[0].token} " if possible else "no milestone up to"
        assert expected in str(refused.value)


def test_the_message_names_the_offsets() -> None:
    end = milestone(2, {0: 9, 1: 9})
    with pytest.raises(UsageError, match=r"deleted offsets 0 to 3 of flights.events/1: no milestone up to"):
        require_source_kept(TOPIC, source_ranges(TOPIC, None, end), {1: 4}, end, [milestone(1, {0: 9, 1: 3})])
    with pytest.raises(
        UsageError, match=r"deleted offset 0 of flights.events/0, and events of 1 other partitions"
    ):
        require_source_kept(TOPIC, source_ranges(TOPIC, None, end), {0: 1, 1: 4}, end, [])


def test_a_milestone_that_was_undone_is_no_start() -> None:
    stream = [milestone(number, {0: number}) for number in range(1, 5)]
    back = milestone(5, {0: 3}, rewinds_to=2)
    line = [*stream, back, milestone(6, {0: 9})]
    require_one_line(stream[1], line[5], line)
    require_one_line(back, line[5], line)
    require_one_line(stream[2], stream[3], line)  # up to an end before the rollback
    for undone in stream[2:]:
        with pytest.raises(UsageError, match="was undone"):
            require_one_line(undone, line[5], line)

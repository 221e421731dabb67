"""What shows that a log has lost nothing below a cut: plain values of what brokers say."""

from __future__ import annotations

import pytest

from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.log_evidence import (
    UNKNOWN,
    LogEnd,
    TopicEvidence,
    evidence_of,
    leader_epochs,
    lost_records,
    of_topics,
    partitions_to_verify,
    recreated_topics,
)

ROWS, SOURCE = "rows", "source"
FIRST, SECOND, OTHER = TopicPartition(ROWS, 0), TopicPartition(ROWS, 1), TopicPartition(SOURCE, 1)
GONE = ", acknowledged before, are gone or are other records now"
EVIDENCE = (TopicEvidence(ROWS, "id-1", (3, 0)), TopicEvidence(SOURCE, "", (UNKNOWN, 7)))


def test_evidence_is_by_topic_and_by_partition() -> None:
    """Sorted; a partition that nobody asked for is unknown, and so is the identity where there are none."""
    standings = {OTHER: LogEnd(9, 7), SECOND: LogEnd(5, 0), FIRST: LogEnd(8, 3)}
    assert evidence_of({ROWS: "id-1"}, standings) == EVIDENCE
    assert evidence_of({}, {}) == ()


def test_the_part_about_some_topics() -> None:
    assert of_topics(EVIDENCE, [SOURCE, "nowhere"]) == EVIDENCE[1:]
    assert of_topics(EVIDENCE, iter([ROWS])) == EVIDENCE[:1]


def test_leaders_are_told_of_partitions_that_have_one() -> None:
    assert leader_epochs(EVIDENCE) == {FIRST: 3, SECOND: 0, OTHER: 7}


@pytest.mark.parametrize(
    ("now", "named"),
    [({ROWS: "id-1", SOURCE: "id-9"}, []), ({ROWS: "id-2"}, [ROWS]), ({}, []), ({ROWS: ""}, [ROWS])],
    ids=["the same", "another", "nobody says", "none any more"],
)
def test_a_topic_that_was_made_anew_is_named(now: dict[str, str], named: list[str]) -> None:
    """Of one whose identity was never known nothing can be said; who is gone is found by its offsets."""
    said = recreated_topics(EVIDENCE, now, Cut.of({FIRST: 8, SECOND: 1}))
    assert [one.split()[0] for one in said] == named
    if named:
        assert f"(its topic id is {now[ROWS]}, and was id-1)" in said[0]
        assert "offsets 0 to 7 of partition 0, offset 0 of partition 1 are gone or are other records" in said[0]


def test_a_wide_topic_that_was_made_anew_is_named_in_short() -> None:
    """Nothing is lost of an empty partition, and a message has a bound."""
    below = Cut.of_topic(ROWS, [0, *[5] * 11])
    (said,) = recreated_topics(EVIDENCE, {ROWS: "id-2"}, below)
    assert "partition 0" not in said
    assert "of partition 8 and those of 3 more partitions are gone" in said


@pytest.mark.parametrize(
    ("leader", "asked"),
    [(3, {}), (4, {FIRST: 3}), (2, {FIRST: 3}), (UNKNOWN, {})],
    ids=["the same", "a later one", "an earlier one", "nobody knows"],
)
def test_whoever_has_another_leader_is_asked_about(leader: int, asked: dict[TopicPartition, int]) -> None:
    """The same leader has lost nothing."""
    standings = {FIRST: LogEnd(10, leader), SECOND: LogEnd(4, 0), OTHER: LogEnd(9, 7)}
    cut = Cut.of({FIRST: 8, SECOND: 4, OTHER: 9})
    assert partitions_to_verify(EVIDENCE, cut, standings) == asked


def test_nobody_is_asked_of_what_holds_nothing_or_was_not_noted() -> None:
    """Below offset 0 nothing can be missing; and without a number there is nobody to ask about."""
    unnoted = TopicPartition(SOURCE, 0)
    standings = {FIRST: LogEnd(10, 9), unnoted: LogEnd(3, 9)}
    assert partitions_to_verify(EVIDENCE, Cut.of({FIRST: 0, unnoted: 3}), standings) == {}


def test_what_ends_below_the_cut_is_lost() -> None:
    """With its offsets; at the cut nothing is, nor where nobody asked."""
    cut = Cut.of({FIRST: 8, SECOND: 5, OTHER: 4})
    assert lost_records(cut, {FIRST: 8, SECOND: 9}) == []
    assert lost_records(cut, {}) == []
    assert lost_records(cut, {FIRST: 7, SECOND: 2, OTHER: UNKNOWN}) == [
        f"rows/0 has lost its end: offset 7{GONE}",
        f"rows/1 has lost its end: offsets 2 to 4{GONE}",
        "source/1 does not know the leader that wrote up to offset 4",
    ]

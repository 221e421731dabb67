"""A copy that a generation here stands on is not given up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cutwater.core.cuts import Cut, TopicPartition
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.failover import require_placed
from cutwater.core.generations import Generation
from cutwater.core.giving_up import require_settled, require_unread
from cutwater.core.mirrored import Arrival, Mirrored, Renewal, Steering, place_of, renewed
from protocol_samples import milestone

COPY, ROWS = TopicPartition("shop.events.from-us", 0), TopicPartition("shop.changelog.g1-us-00000000", 1)
READS = replace(milestone(1), source_cut=Cut.of({COPY: 7}), changelog_cut=Cut.of({ROWS: 3}))
NEXT = Generation(2, "eu", "ab" * 4)


def test_the_events_of_who_is_at_work() -> None:
    """Its parent's rows it has long taken over."""
    with pytest.raises(UsageError, match=r"is at work here and reads shop.events.from-us.*release --to REGION"):
        require_unread(COPY.topic, READS, {})
    require_unread(ROWS.topic, READS, {})
    require_unread(COPY.topic, None, {})


@pytest.mark.parametrize("place", [COPY, ROWS])
def test_events_and_rows_of_who_is_about_to_begin(place: TopicPartition) -> None:
    with pytest.raises(UsageError, match=f"{NEXT} was claimed here.*generation abort {NEXT}"):
        require_unread(place.topic, None, {NEXT: READS})
    require_unread("shop.milestones.from-us", READS, {NEXT: READS})


def test_nobody_works_by_what_stands_beside_a_copy_that_is_begun_anew() -> None:
    require_settled("us", {})
    with pytest.raises(
        UnavailableError,
        match=r"events \(since 1970-01-01T00:00:05Z\), shop.miles.*from us anew.*--withdraw.*resync' again",
    ):
        require_settled("us", {"shop.milestones": 7_000, "shop.events": 5_000})


@pytest.mark.parametrize("topic", ["shop.events", "7", "steering", "renewal", "a_b-c"])
def test_the_key_of_a_renewal_is_nobody_elses(topic: str) -> None:
    """Whatever the topic is called: a record without a value has nothing else to be known by."""
    key = Renewal("shop", "us", topic, 0).key
    assert renewed(key) == ("us", topic)
    assert place_of(key)[1].partition == -1
    blank = dict.fromkeys(Mirrored.__dataclass_fields__, 0) | {"origin": "us", "topic": topic}
    position: Any = Mirrored(**blank)
    assert renewed(position.key) is None
    assert renewed(Steering("shop", "us", True, 0).key) is None


def test_a_claim_needs_the_positions_of_all_that_it_stands_on() -> None:
    arrival = Arrival("shop", "us", Generation(1, "us"), 1, b"", 0, READS.source_cut, READS.changelog_cut, 0, 0, 0)
    stream = TopicPartition("shop.milestones.from-us", 0)
    every = {COPY, ROWS, stream}
    require_placed(arrival, stream.topic, every)
    for missing in every:
        with pytest.raises(
            UsageError, match=f"how far {missing.topic}/{missing.partition} is copied is not known"
        ):
            require_placed(arrival, stream.topic, every - {missing})

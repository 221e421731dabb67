"""A copy that a generation here stands on is not given up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.failover.failover import require_placed
from cutwater.core.mirror.resync_guard import require_settled, require_unread
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import (
    Arrival,
    Mirrored,
    Renewal,
    Steering,
    parse_position_key,
    parse_renewal_key,
)
from cutwater.core.protocol.records import Claim, Milestone
from support.protocol_samples import milestone

COPY, ROWS = TopicPartition("shop.events.from-us", 0), TopicPartition("shop.changelog.g1-us-00000000", 1)
READS = replace(milestone(1), source_cut=Cut.of({COPY: 7}), changelog_cut=Cut.of({ROWS: 3}))
NEXT = Generation(2, "eu", "ab" * 4)
STREAM, OLDER = "shop.milestones.from-us", "shop.changelog.g0-us-00000000"


def claim(origin: str) -> Claim:
    return Claim("shop", NEXT, b"", 2, 0, "", 0, origin=origin)


def reads(_claim: Claim) -> Milestone:
    return READS


def test_the_events_of_who_is_at_work() -> None:
    """Its parent's rows it has long taken over."""
    with pytest.raises(UsageError, match=r"is running here and reads shop.events.from-us.*release --to REGION"):
        require_unread(COPY.topic, "us", READS, [], reads)
    require_unread(ROWS.topic, "us", READS, [], reads)
    require_unread(COPY.topic, "us", None, [], reads)


@pytest.mark.parametrize("place", [COPY, ROWS])
@pytest.mark.parametrize("origin", ["", "ap"], ids=["of this region", "of a third region"])
def test_events_and_rows_of_who_is_about_to_begin(place: TopicPartition, origin: str) -> None:
    with pytest.raises(UsageError, match=f"{NEXT} was claimed here and starts from.*generation abort {NEXT}"):
        require_unread(place.topic, "us", None, [claim(origin)], reads)
    for topic in (STREAM, OLDER):
        require_unread(topic, "us", READS, [claim(origin)], reads)


@pytest.mark.parametrize("topic", [COPY.topic, ROWS.topic, STREAM, OLDER])
def test_no_copy_of_the_region_that_an_open_claim_goes_on_from(topic: str) -> None:
    """With any of them every arrival goes, also that by which a failover finds the claim again."""
    ways_out = f"{NEXT} was claimed here from an arrival of us.*failover'.*generation abort {NEXT}"
    with pytest.raises(UsageError, match=ways_out):
        require_unread(topic, "us", None, [claim("us")], reads)


def test_nobody_works_by_what_stands_beside_a_copy_that_is_begun_anew() -> None:
    require_settled("us", {})
    with pytest.raises(
        UnavailableError,
        match=r"events \(since 1970-01-01T00:00:05Z\), shop.miles.*from us is in progress.*--withdraw.*' again",
    ):
        require_settled("us", {"shop.milestones": 7_000, "shop.events": 5_000})


@pytest.mark.parametrize("topic", ["shop.events", "7", "steering", "renewal", "a_b-c"])
def test_the_key_of_a_renewal_is_nobody_elses(topic: str) -> None:
    """Whatever the topic is called: a record without a value has nothing else to be known by."""
    key = Renewal("shop", "us", topic, 0).key
    assert parse_renewal_key(key) == ("us", topic)
    assert parse_position_key(key)[1].partition == -1
    blank = dict.fromkeys(Mirrored.__dataclass_fields__, 0) | {"origin": "us", "topic": topic}
    position: Any = Mirrored(**blank)
    assert parse_renewal_key(position.key) is None
    assert parse_renewal_key(Steering("shop", "us", True, 0).key) is None


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

"""Which topics a generation reads, and where copies stand in the regions that they come from: plain values."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.generations.source_topics import (
    Sources,
    copied_region,
    moved_on,
    only,
    origin_cut_at,
    topics_of,
)
from cutwater.core.generations.start_state import StartState
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.mirror_records import from_origin
from cutwater.core.protocol.records import Claim
from support.protocol_samples import JOB, OTHER, milestone

SOURCE = "flights.events"
US, AP, EU = (from_origin(SOURCE, region) for region in ("us", "ap", "eu"))


def at(**topics: list[int]) -> Cut:
    """A cut of the own source (`own`) and of copies, by region."""
    entries = {
        TopicPartition(SOURCE if name == "own" else from_origin(SOURCE, name), number): offset
        for name, offsets in topics.items()
        for number, offset in enumerate(offsets)
    }
    return Cut.of(entries)


@pytest.mark.parametrize(
    ("topic", "region"),
    [
        (US, "us"),
        (SOURCE, None),
        (f"{SOURCE}.from-", None),
        (f"{US}.from-eu", None),
        (f"{SOURCE}.from-US", None),
        ("other.events.from-us", None),
        (f"x{US}", None),
    ],
)
def test_a_copy_is_known_by_its_name(topic: str, region: str | None) -> None:
    """Of this very source, and of a region: not a copy of a copy, nor of anything else."""
    assert copied_region(SOURCE, topic) == region


def test_a_job_whose_own_source_is_a_copy_reads_it_as_its_own() -> None:
    """A job may be run on what a mirror brings: nothing else says of its events where they stood."""
    sources = only(US, "eu", 2)
    assert sources.copies == {}
    assert sources.places == (TopicPartition(US, 0), TopicPartition(US, 1))


def test_the_sources_are_the_topics_of_the_parents_cut() -> None:
    """A job's first generation has no parent, and reads what the job file names."""
    assert topics_of(SOURCE, Cut()) == [SOURCE]
    assert topics_of(SOURCE, at(own=[3], us=[1, 2])) == sorted([SOURCE, US])


def test_every_partition_has_a_number_and_the_own_source_the_last_ones() -> None:
    """So partitions that the own source gets meanwhile have numbers that are nobody else's."""
    sources = Sources(SOURCE, "eu", {SOURCE: 2, US: 3, AP: 1})
    assert sources.copies == {AP: "ap", US: "us"}
    assert [*sources.places] == [
        TopicPartition(AP, 0),
        *(TopicPartition(US, number) for number in range(3)),
        *(TopicPartition(SOURCE, number) for number in range(2)),
    ]
    assert all(sources.places[first] == TopicPartition(topic, 0) for topic, first in sources.firsts.items())


def claim(origin: str, source_cut: Cut, region: str = "eu") -> Claim:
    generation = replace(OTHER, region=region)
    return Claim(JOB, generation, b"", 3, 0, "why", 0, origin=origin, source_cut=source_cut)


def test_after_a_failover_the_copy_stands_where_the_parent_had_read_its_own_source() -> None:
    """The claim says where that lies here."""
    parent = replace(milestone(5), source_cut=at(own=[70, 80]))
    assert origin_cut_at(SOURCE, claim("us", at(us=[7, 9], own=[0, 0])), parent) == at(us=[70, 80])


def test_after_a_failback_the_own_source_is_no_copy_any_more() -> None:
    """What the other region had read as the copy of ours is ours; what it had read of its own is a copy here."""
    parent = replace(milestone(5), source_cut=at(us=[7, 9], own=[3, 4]), origin_cut=at(us=[70, 80]))
    assert origin_cut_at(SOURCE, claim("eu", at(eu=[5, 6], own=[70, 80]), "us"), parent) == at(eu=[3, 4])


def test_of_three_regions_the_third_is_a_copy_in_both() -> None:
    """Its offsets are told, and are the same wherever it is copied to."""
    parent = replace(milestone(5), source_cut=at(own=[70], ap=[8]), origin_cut=at(ap=[800]))
    assert origin_cut_at(SOURCE, claim("us", at(us=[7], ap=[9], own=[0])), parent) == at(us=[70], ap=[800])


def test_a_third_region_stays_named_where_it_is_not_read_on() -> None:
    """Its events are in the state: that region itself, or a merge of regions, must not count them again."""
    parent = replace(milestone(5), source_cut=at(own=[70], ap=[8]), origin_cut=at(ap=[800]))
    assert origin_cut_at(SOURCE, claim("us", at(us=[7], own=[0])), parent) == at(us=[70], ap=[800])


def test_within_a_region_the_parents_counts() -> None:
    """A generation that is started from a milestone of its own region goes on with its copies."""
    parent = replace(milestone(5), source_cut=at(us=[7], own=[3]), origin_cut=at(us=[70]))
    assert origin_cut_at(SOURCE, claim("", Cut()), parent) == at(us=[70])
    assert StartState.of(parent).origin_cut == at(us=[70])


READ = st.dictionaries(st.builds(TopicPartition, st.sampled_from([US, AP]), st.integers(0, 2)), st.integers(0, 99))


@given(st.lists(READ))
def test_a_cut_moves_where_something_was_read(epochs: list[dict[TopicPartition, int]]) -> None:
    """To the highest, and never back."""
    cut, wanted = Cut(), dict[TopicPartition, int]()
    for read in epochs:
        cut = moved_on(cut, read)
        wanted |= {place: max(offset, wanted.get(place, 0)) for place, offset in read.items()}
        assert cut == Cut.of(wanted)

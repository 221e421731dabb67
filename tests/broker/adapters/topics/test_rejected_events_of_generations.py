"""The lists of several generations on a real broker: none hides another's entries, and a replay is one for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cutwater.adapters.topics.rejected_events import dead_letters
from cutwater.core.driver.rejected_events import EventPosition
from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Generation
from support.protocol_samples import GENERATION as G1
from support.rejected_events import Region


@pytest.fixture
def region(broker: Any, unique: Callable[[str], str]) -> Region:
    return Region(broker.cluster, unique("generations"))


@pytest.mark.slow
def test_a_candidate_and_the_promoted_generation_list_the_same_event_otherwise(region: Region) -> None:
    """In either order of writing both stand; promoted or gone back, the list is that of the line."""
    parent = region.epoch(G1, 0, {0: "undecodable"}, {1: 70_000})
    g2 = region.claim(2, parent)
    region.epoch(g2, 0, {10: "undecodable"}, {12: 80_000})
    region.epoch(G1, 1, {10: "too large", 11: "too large"}, {12: 90_000, 13: 90_000})
    newest = region.epoch(g2, 1, {11: "undecodable"}, {})
    first = {0: (1, "undecodable"), 10: (1, "too large"), 11: (1, "too large")}
    second = {0: (1, "undecodable"), 10: (2, "undecodable"), 11: (2, "undecodable")}
    late = {1: (1, 70_000), 12: (1, 90_000), 13: (1, 90_000)}
    assert (region.letters(), region.letters(g2), region.late()) == (first, second, late)
    region.write(newest)
    assert (region.letters(), region.letters(G1)) == (second, first)
    assert (region.late(), region.late(G1)) == ({1: (1, 70_000), 12: (2, 80_000)}, late)
    g3 = region.claim(3, parent, rewinds=True)
    back = region.epoch(g3, 0, {10: "no key"}, {})
    region.write(back, rewinds_to=parent.sequence)
    assert region.letters() == {0: (1, "undecodable"), 10: (3, "no key")}
    assert (region.letters(g2), region.letters(G1), region.late()) == (second, first, {1: (1, 70_000)})
    g4 = region.claim(4, region.stream[-1])
    region.write(region.epoch(g4, 0, {20: "no value"}, {}))
    assert region.letters() == {0: (1, "undecodable"), 10: (3, "no key"), 20: (4, "no value")}


@pytest.mark.slow
def test_an_event_is_produced_again_once_in_all_generations(region: Region) -> None:
    """Under the promoted one, then its successor, then one that goes back behind both."""
    parent = region.epoch(G1, 0, {0: "undecodable"}, {})
    g2 = region.claim(2, parent)
    newest = region.epoch(g2, 0, {10: "undecodable", 11: "undecodable"}, {})
    region.epoch(G1, 1, {10: "too large"}, {})
    gone = region.replay()
    assert sorted(one.offset for one in gone) == [0, 10]
    region.write(newest)
    assert [one.event.offset for one in region.unreplayed()] == [11]
    shown = {one.event: one.replayed for one in dead_letters(region.cluster, region.name).entries}
    assert {place: shown[place] for place in gone} == gone, "it says where the event went"
    assert [one.offset for one in region.replay()] == [11]
    g3 = region.claim(3, parent, rewinds=True)
    region.write(region.epoch(g3, 0, {10: "no key", 11: "no key"}, {}), rewinds_to=parent.sequence)
    assert (region.unreplayed(), region.replay()) == ([], {})
    assert region.produced() == [0, 10, 11]


@pytest.mark.slow
def test_an_event_of_another_regions_copy_is_produced_again_on_the_own_source(region: Region) -> None:
    """The copy is the mirror's alone: a record that it has not written there would be no event of that region."""
    region.read = f"{region.source}.from-us"
    region.epoch(G1, 0, {7: "undecodable"}, {})
    gone = region.replay()
    assert gone == {EventPosition(region.read, 1, 7): EventPosition(region.source, 1, 0)}
    assert (region.produced(), region.unreplayed()) == ([7], [])


def test_a_generation_that_is_not_there_is_named(region: Region) -> None:
    region.epoch(G1, 0, {0: "undecodable"}, {})
    with pytest.raises(UsageError, match=f"g7-local-00000000 is not a generation of this job; known are: {G1}"):
        dead_letters(region.cluster, region.name, Generation(7, "local"))

"""Which entries of a list count: those that milestones account for, whoever crashed or came late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.driver.rejected_events import EpochAccount, EventPosition, Letter, Listed, choose
from cutwater.core.protocol.generation import Generation

G1, G2 = Generation(1, "local"), Generation(2, "local", "0badcafe")


def entry(name: str, attempt: int = 1, epoch: int = 0, generation: Generation = G1) -> tuple[Listed, str]:
    return Listed(generation, attempt, epoch), name


def test_the_winner_of_an_epoch_counts() -> None:
    """What only a killed attempt listed is no entry: the attempt that won did not reject it."""
    found = choose([entry("a", 1), entry("b", 2), entry("c", 2)], {(G1, 0): EpochAccount(2, 2)})
    assert (found.entries, found.problems) == (["b", "c"], [])


def test_epochs_without_a_milestone_do_not_count() -> None:
    """Not committed yet, or of another generation: nothing is known about them."""
    found = choose([entry("a"), entry("b", epoch=1), entry("c", generation=G2)], {(G1, 0): EpochAccount(1, 1)})
    assert (found.entries, found.problems) == (["a"], [])


def test_a_zombies_equal_entries_stand_for_the_overwritten_ones() -> None:
    """All entries together are as many as the milestone says: it is the same event, told by another attempt."""
    found = choose([entry("a", 1), entry("b", 2)], {(G1, 0): EpochAccount(2, 2)})
    assert (found.entries, found.problems) == (["a", "b"], [])


def test_a_list_that_does_not_add_up_is_named() -> None:
    """Too few or too many: the epoch, the milestone's count and the list's."""
    told = {(G1, 0): EpochAccount(1, 2), (G1, 1): EpochAccount(1, 1), (G1, 2): EpochAccount(1, 1)}
    found = choose([entry("a"), entry("b", epoch=1), entry("c", epoch=1)], told)
    assert found.entries == ["a", "b", "c"]
    assert [one.partition(":")[0] for one in found.problems] == [f"epoch {n} of {G1}" for n in (0, 1, 2)]
    assert "counts 2, the list holds 1" in found.problems[0]


def test_what_a_lists_retention_has_deleted_is_no_fault() -> None:
    """Fewer than the milestones count: so many are told of; more is a fault all the same."""
    told = {(G1, 0): EpochAccount(1, 2), (G1, 1): EpochAccount(1, 1)}
    found = choose([entry("b", epoch=1)], told, forgetful=True)
    assert (found.entries, found.problems) == (["b"], [])
    assert found.elsewhere == ["2 older entries are gone: the list's retention has deleted them"]
    more = choose([entry("a", epoch=1), entry("b", epoch=1)], told, forgetful=True)
    assert [one.partition(":")[0] for one in more.problems] == [f"epoch 1 of {G1}"]
    assert choose([], {}, forgetful=True).elsewhere == []


@given(st.dictionaries(st.integers(0, 5), st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=5))
def test_what_the_winners_wrote_is_always_whole(epochs: dict[int, tuple[int, int]]) -> None:
    """Any epochs, with any left-overs of earlier attempts: exactly the winners' entries, in their order."""
    listed = [
        entry(f"{epoch}-{attempt}-{number}", attempt, epoch)
        for epoch, (winner, count) in epochs.items()
        for attempt in range(1, winner + 1)
        for number in range(count)
    ]
    told = {(G1, epoch): EpochAccount(winner, count) for epoch, (winner, count) in epochs.items()}
    found = choose(listed, told)
    assert found.problems == []
    assert found.entries == [name for by, name in listed if epochs[by.epoch][0] == by.attempt]


def test_a_letter_without_its_payload_shows_nothing_of_the_value() -> None:
    """The path of a flaw has names of a map, which are the event's; those of the schema stay."""
    place = EventPosition("t", 0, 1)
    for path, shown in {
        "items[1].price": "items[1].price",
        "tags['a secret'].x['another']": "tags['…']",
        "tags['it's']": "tags['…']",
        None: None,
    }.items():
        letter = Letter(place, Listed(G1, 1, 0), "undecodable", b"k", 3, 5, None, (0, 0), path, "is not", b"{}")
        assert (letter.without_payload().field, letter.without_payload().head) == (shown, None)

"""The chain: a whole stream has no break, and each way to damage one is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.protocol.chain import find_chain_faults, link
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from support.protocol_samples import OTHER, milestone, source_cut

Stream = list[tuple[Milestone, bytes]]


def written(record: Milestone) -> tuple[Milestone, bytes]:
    return record, repr(record).encode()


def stream(length: int) -> Stream:
    """A valid stream of epochs 0, 1, 2, …"""
    records: Stream = []
    for epoch in range(length):
        records.append(written(milestone(epoch, records[-1][0] if records else None)))
    return records


def rechained(records: list[Milestone]) -> Stream:
    """The same records with the parent hashes that a liar would compute: only their contents contradict."""
    result: Stream = []
    for one in records:
        parent = link(result[-1][1]) if result else one.parent_hash
        result.append(written(replace(one, parent_hash=parent)))
    return result


@given(st.integers(0, 8), st.integers(0, 7))
def test_a_valid_stream_has_no_break(length: int, pruned: int) -> None:
    """Nor has a pruned one: the oldest record that is kept is the chain's root."""
    assert list(find_chain_faults(stream(length)[pruned:])) == []


def test_a_new_generation_goes_on_with_the_chain() -> None:
    """Sequence and hash go on across a promotion; epochs and cuts begin anew."""
    [*_, (last, _)] = records = stream(3)
    first = replace(milestone(0, last), generation=OTHER, source_cut=Cut())
    assert list(find_chain_faults([*records, written(first)])) == []


def dropped(records: Stream) -> Stream:
    return records[:2] + records[3:]


def swapped(records: Stream) -> Stream:
    return [*records[:2], records[3], records[2], *records[4:]]


def repeated(records: Stream) -> Stream:
    return [*records[:3], records[2], *records[3:]]


def forged(records: Stream) -> Stream:
    """One record rewritten: it hangs on its parent, and its child does not hang on it."""
    return [*records[:2], written(replace(records[2][0], rows=0)), *records[3:]]


def changed(**changes: Any) -> Callable[[Stream], Stream]:
    def damage(records: Stream) -> Stream:
        return rechained([replace(one, **changes) if one.epoch == 2 else one for one, _ in records])

    return damage


def epoch_gap(records: Stream) -> Stream:
    return rechained([replace(one, epoch=one.epoch + (one.epoch >= 2)) for one, _ in records])


def foreign_root(records: Stream) -> Stream:
    return rechained([replace(records[0][0], parent_hash=b"x" * 32), *(one for one, _ in records[1:])])


CHANGELOG_BACK = Cut.of_topic("flights.changelog.g1-local-00000000", [0, 99])


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (dropped, (4, "gap: sequence 4 follows 2")),
        (swapped, (3, "gap: sequence 3 follows 4")),
        (repeated, (3, "gap: sequence 3 follows 3")),
        (forged, (4, "fork: the parent hash is not the hash of sequence 3")),
        (epoch_gap, (3, "epoch 3 follows 1")),
        (changed(source_cut=source_cut(0)), (3, "the source cut went back")),
        (changed(changelog_cut=CHANGELOG_BACK), (3, "the changelog cut went back")),
        (changed(changelog_cut=Cut()), (3, "the changelog cut went back")),
        (foreign_root, (1, "the first milestone names a parent")),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_damage_is_named(damage: Callable[[Stream], Stream], named: tuple[int, str]) -> None:
    """The break names the sequence and what contradicts what."""
    assert named in [tuple(one) for one in find_chain_faults(damage(stream(6)))]


@given(st.integers(2, 6), st.data())
def test_one_changed_byte_is_always_found(length: int, data: st.DataObject) -> None:
    """Whatever byte of whatever record but the newest changes, the next record's parent hash tells."""
    records = stream(length)
    number = data.draw(st.integers(0, length - 2))
    record, value = records[number]
    place = data.draw(st.integers(0, len(value) - 1))
    damaged = value[:place] + bytes([value[place] ^ data.draw(st.integers(1, 255))]) + value[place + 1 :]
    records[number] = (record, damaged)
    assert [one.sequence for one in find_chain_faults(records)] == [number + 2]

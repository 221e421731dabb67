"""Who has room for a few bytes gets a few batches: a piece of one partition after the other, none left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from cutwater.adapters.fetch.fetcher import Fetcher
from cutwater.adapters.fetch.partition_cursor import PartitionCursor
from cutwater.adapters.fetch.record_batches import Batch, Chunk, split

BATCH = 1_000
"""Bytes of each batch, as stored."""


def chunk(batches: int) -> Chunk:
    """Of one record each."""
    parsed: Any = [SimpleNamespace(next_offset=at + 1) for at in range(batches)]
    return Chunk(
        0, batches, [Batch(one, memoryview(bytes(BATCH))) for one in parsed], batches * BATCH, "t/0", batches
    )


def test_a_piece_is_of_as_many_batches_as_there_is_room_for() -> None:
    """One at least: a batch may be larger than all the room."""
    for room, batches in ((1, 1), (BATCH, 1), (BATCH + 1, 2), (3 * BATCH, 3)):
        head, rest = split(chunk(5), 2_000, room)
        assert rest is not None
        assert (head.following, head.size, rest.first, rest.size) == (
            batches,
            batches * BATCH,
            batches,
            (5 - batches) * BATCH,
        )
        assert (head.end, rest.end) == (-1, 5), "only the last piece tells where the log ended"
    assert split(chunk(5), 2_000)[1] is None
    assert split(chunk(1), 2_000, 1)[1] is None


def test_each_partition_has_its_turn() -> None:
    """However little room there is, and though the others have more all the time."""
    one = Fetcher(dict, "t")
    one._ways = {number: PartitionCursor(0) for number in range(3)}
    for way in one._ways.values():
        way.put(chunk(20))
    taken = [one.take(0.0, 1) for _ in range(6)]
    assert [len(pieces) for pieces in taken] == [1] * 6
    assert sorted(number for pieces in taken for number in pieces) == [0, 0, 1, 1, 2, 2]
    assert len(one.take(0.0, 2 * BATCH)) == 1
    assert set(one.take(0.0)) == {0, 1, 2}

"""A key stays in its partition of the output, however many partitions a generation's changelog has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.hashing import key_hash
from cutwater.core.job.job import WINDOW_KEY_SCHEMA
from cutwater.core.job.shards import ShardMap
from cutwater.publisher.routing import Routing
from cutwater.publisher.sources.stored_rows import NOT_READ
from cutwater.views.changelog.row_batch import Piece, pieces_of

KEYS = st.lists(st.text(max_size=80), max_size=40)
COUNTS = st.integers(1, 16)
_KEYS = Codec(WINDOW_KEY_SCHEMA)


def key(text: str) -> bytes:
    return _KEYS.encode({"key": text, "window_start": 0, "window_end": 1})


@given(KEYS, COUNTS, COUNTS, st.booleans())
def test_every_row_comes_to_the_partition_of_its_key_in_order(
    texts: list[str], changelog: int, output: int, stored: bool
) -> None:
    """Read from the changelog or out of a store: all rows, by key alone, and none overtakes another of its key."""
    there, here = ShardMap(64, changelog), ShardMap(64, output)
    routing = Routing(here, changelog)

    def at(text: str) -> int:
        return NOT_READ if stored else there.partition(there.shard(key_hash(text)))

    rows = [(at(text), number, key(text), b"") for number, text in enumerate(texts)]
    found: list[tuple[int, Piece]] = [one for piece in pieces_of(rows) for one in routing.split(piece)]
    wanted = {key(text): here.partition(here.shard(key_hash(text))) for text in texts}
    assert all(number == wanted[one] for number, piece in found for one in piece.keys)
    assert sorted(
        (row, at) for _, piece in found for row, at in zip(piece.keys, piece.offsets, strict=True)
    ) == sorted((row, number) for _, number, row, _ in rows)
    for number in range(output):
        orders: dict[bytes, list[int]] = {}
        for _, piece in (one for one in found if one[0] == number):
            for row, offset in zip(piece.keys, piece.offsets, strict=True):
                orders.setdefault(row, []).append(offset)
        assert all(offsets == sorted(offsets) for offsets in orders.values())

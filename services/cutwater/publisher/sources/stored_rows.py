"""Reads rows from the publisher's stores, as pieces for the output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import NamedTuple

from cutwater.adapters.avro.codec import Codec
from cutwater.core.job.job import WINDOW_KEY_SCHEMA
from cutwater.views.changelog.row_batch import PIECE_ROWS, Piece, pieces_of
from cutwater.views.store import key_layout
from cutwater.views.store.store import Store

NOT_READ = -1
"""The partition and offset of a row from a store, which has neither."""
_KEYS = Codec(WINDOW_KEY_SCHEMA)


class OutputRow(NamedTuple):
    kind: str
    storage: bytes
    """Its key in a store."""
    value: bytes
    """As in the changelog; empty for a tombstone."""


def closed(store: Store, after_ms: int, up_to_ms: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield storage keys and values of windows with an end in (after, up to], in the store's order."""
    return chain.from_iterable(closed_pieces(store, after_ms, up_to_ms))


def closed_pieces(store: Store, after_ms: int, up_to_ms: int) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the rows of `closed` in lists."""
    length = store.segment_ms
    after, up_to = key_layout.end_suffix(after_ms), key_layout.end_suffix(up_to_ms)
    first, last = key_layout.first_live(after_ms, length), key_layout.first_live(up_to_ms, length)
    for piece in store.scan(key_layout.segment_prefix(first), key_layout.segment_prefix(last + 1), PIECE_ROWS):
        # Only the first and the last segment have windows on both sides of a bound.
        if key_layout.parse_segment(piece[0][0]) > first and key_layout.parse_segment(piece[-1][0]) < last:
            yield piece
        elif rows := [row for row in piece if after < row[0][-key_layout.END_BYTES :] <= up_to]:
            yield rows


def pieces(rows: Iterable[OutputRow]) -> Iterator[Piece]:
    """Yield the rows in order, in pieces of one kind each."""
    for kind, group in groupby(rows, key=lambda row: row.kind):
        yield from pieces_of(((NOT_READ, NOT_READ, _key(row.storage), row.value) for row in group), kind)


def _key(storage: bytes) -> bytes:
    # As in the changelog.
    window = key_layout.parse(storage)
    return _KEYS.encode({"key": window.key, "window_start": window.start_ms, "window_end": window.end_ms})

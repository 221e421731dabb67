"""Reads rows from the publisher's stores, as pieces for the output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby, islice
from typing import NamedTuple

from cutwater.adapters.avro.codec import Codec
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.util.varints import zigzag
from cutwater.views.changelog.row_batch import PIECE_ROWS, Piece, pieces_of
from cutwater.views.store import key_layout
from cutwater.views.store.store import Store
from cutwater.views.store.window_rows import WindowRows

NOT_READ = -1
"""The partition and offset of a row from a store, which has neither."""
_KEYS = Codec(WINDOW_KEY_SCHEMA)


class OutputRow(NamedTuple):
    kind: str
    storage: bytes
    """Its key in a store."""
    value: bytes
    """As in the changelog; empty for a tombstone."""


def closed_windows(store: Store, job: Job, after_ms: int, up_to_ms: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield storage keys and values of windows with an end in (after, up to], in the store's order."""
    return chain.from_iterable(closed_pieces(store, job, after_ms, up_to_ms))


def closed_pieces(store: Store, job: Job, after_ms: int, up_to_ms: int) -> Iterator[Sequence[tuple[bytes, bytes]]]:
    """Yield the rows of `closed` in pieces."""
    length = store.segment_ms
    after, up_to = key_layout.end_suffix(after_ms), key_layout.end_suffix(up_to_ms)
    first, last = key_layout.first_live(after_ms, length), key_layout.first_live(up_to_ms, length)
    for piece in _pieces(store, job, key_layout.segment_prefix(first), key_layout.segment_prefix(last + 1)):
        # Only the first and the last segment have windows on both sides of a bound.
        if key_layout.parse_segment(piece[0][0]) > first and key_layout.parse_segment(piece[-1][0]) < last:
            yield piece
        elif rows := [row for row in piece if after < row[0][-key_layout.END_BYTES :] <= up_to]:
            yield rows


def named_pieces(
    store: Store, names: Sequence[bytes], after_ms: int, up_to_ms: int
) -> Iterator[Sequence[tuple[bytes, bytes]]]:
    """Yield the named rows (storage keys, in order) that exist, of windows with an end in (after, up to]."""
    after, up_to = key_layout.end_suffix(after_ms), key_layout.end_suffix(up_to_ms)
    meant = [name for name in names if after < name[-key_layout.END_BYTES :] <= up_to]
    for at in range(0, len(meant), PIECE_ROWS):
        some = meant[at : at + PIECE_ROWS]
        found = zip(some, store.values(some), strict=True)
        if rows := [(name, value) for name, value in found if value is not None]:
            yield rows


def _pieces(store: Store, job: Job, start: bytes, stop: bytes) -> Iterator[Sequence[tuple[bytes, bytes]]]:
    if not job.overlap_ms:
        return store.scan(start, stop, PIECE_ROWS)
    windows = windows_in(store, job).rows(start, stop)
    return iter(lambda: list(islice(windows, PIECE_ROWS)), [])


def windows_in(store: Store, job: Job) -> WindowRows:
    """Return the windows of a store of panes, as of now."""
    return WindowRows(store.pin(), job, store.segment_ms)


def pieces(rows: Iterable[OutputRow]) -> Iterator[Piece]:
    """Yield the rows in order, in pieces of one kind each."""
    for kind, group in groupby(rows, key=lambda row: row.kind):
        yield from pieces_of(((NOT_READ, NOT_READ, key_of_row(row.storage), row.value) for row in group), kind)


def key_of_row(storage: bytes) -> bytes:
    """Return the key as in the changelog."""
    key = key_layout.key_bytes_of(storage)
    return b"".join((_KEYS.header, zigzag(len(key)), key, _times(storage[-2 * key_layout.END_BYTES :])))


@lru_cache(maxsize=10_000)
def _times(suffix: bytes) -> bytes:
    """Return both times of a window as Avro writes them. Many rows have the same."""
    start_ms, end_ms = key_layout.time_of(suffix), key_layout.time_of(suffix[key_layout.END_BYTES :])
    return zigzag(start_ms) + zigzag(end_ms)

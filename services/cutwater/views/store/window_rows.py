"""The windows of a store whose rows are panes: merged when they are read, in the order of their own storage keys.

A window's panes are in its own segment and in those before it, as far as its first pane reaches. Within each of
these segments the rows of one key are adjacent, so one pass over them side by side meets all panes of a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from heapq import merge as merged_in_order
from itertools import groupby
from typing import Protocol

from cutwater.adapters.avro.codec import HEADER_BYTES, Codec, without_dates
from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES, is_confluent
from cutwater.core.job.job import Job
from cutwater.core.job.measures import Partials, row_merge
from cutwater.core.job.panes import merged_windows
from cutwater.views.store import key_layout
from cutwater.views.store.pinned_rows import PIECE_ROWS

StoredRow = tuple[bytes, bytes]
"""Storage key and value."""
_KEY_END = b"\x00\x00"
AROUND_MAX = 10_000
"""Windows of which the bytes around a key are kept: many keys have the same windows."""


class StoredRows(Protocol):
    """Rows in storage order, at one moment."""

    def rows(self, start: bytes, stop: bytes, piece_rows: int = ...) -> Iterator[StoredRow]:
        """Yield the rows in [start, stop)."""

    def first(self, start: bytes) -> bytes | None:
        """Return the first storage key at or after `start`."""


class MergedValue:
    """A value of the changelog, or a merge of several. Decoded once, and only if it is merged."""

    __slots__ = ("partials", "stored")

    def __init__(self, stored: bytes | None, partials: Partials | None = None) -> None:
        self.stored = stored
        self.partials = partials


class ValueMerge:
    """Merges values of the changelog: the union of disjoint sets of events."""

    def __init__(self, job: Job) -> None:
        # Times as numbers: a date beyond the year 9999 can be compared, but is no datetime.
        self._codec = Codec(without_dates(job.state_schema))
        self._header = Codec(job.state_schema).header
        self._merged = row_merge(job.measures)

    def merge(self, one: MergedValue, other: MergedValue) -> MergedValue:
        """Raises UsageError for damaged bytes."""
        return MergedValue(None, self._merged(self._partials(one), self._partials(other)))

    def encode(self, value: MergedValue) -> bytes:
        """Return the value as in the changelog; that of one row unchanged, in whatever framing."""
        if value.stored is None:
            return self._header + self._codec.encode_body(dict(value.partials or {}))
        return value.stored

    def _partials(self, value: MergedValue) -> Partials:
        if value.partials is None:
            text = value.stored or b""
            at = CONFLUENT_HEADER_BYTES if is_confluent(text) else HEADER_BYTES
            value.partials = self._codec.decode_body(text, at)
        return value.partials


class WindowRows:
    """The windows of the panes in a store; has the methods of `StoredRows`."""

    def __init__(self, panes: StoredRows, job: Job, segment_ms: int) -> None:
        self._panes = panes
        self._window = job.window
        self._overlap_ms = job.overlap_ms
        self._segment_ms = segment_ms
        self._merge = ValueMerge(job)
        # Not of a bound method: a cycle would keep the pinned rows, and the folder's lock, until a collection.
        self._around = lru_cache(AROUND_MAX)(partial(_bytes_around, job.window.size_ms, segment_ms))

    def rows(self, start: bytes, stop: bytes, piece_rows: int = PIECE_ROWS) -> Iterator[StoredRow]:
        """Yield the windows whose storage keys are in [start, stop), in order, with their merged values."""
        known = len(start) >= key_layout.SEGMENT_BYTES
        segment = self._first_segment(key_layout.parse_segment(start) if known else None)
        while segment is not None and key_layout.segment_prefix(segment) < stop:
            for place, value in self._segment(segment, start, stop, piece_rows):
                yield place, self._merge.encode(value)
            segment = self._first_segment(segment + 1)

    def first(self, start: bytes) -> bytes | None:
        """Return a storage key at or below that of the first window from `start` on; None if there is none."""
        segment = self._first_segment(key_layout.parse_segment(start))
        return None if segment is None else max(start, key_layout.segment_prefix(segment))

    def touched_by(self, panes: Iterable[bytes]) -> Iterator[StoredRow]:
        """Yield the windows that any of these panes (storage keys) is part of, by key and time."""
        size_ms = self._window.size_ms
        for key, group in groupby(sorted(panes, key=_behind_segment), key=key_layout.key_of):
            starts = {first for pane in group for first in self._window.starts(key_layout.end_of(pane) - 1)}
            for run in _runs(sorted(starts), size_ms):
                held = self._panes_of(key, run[0], run[-1] + size_ms)
                bounds = run[0] + size_ms - 1, run[-1] + size_ms
                for first_ms, value in merged_windows(held, self._window, self._merge.merge, *bounds):
                    if first_ms in starts:
                        yield self._place(key, first_ms), self._merge.encode(value)

    def _panes_of(self, key: bytes, from_ms: int, to_ms: int) -> Iterator[tuple[int, MergedValue]]:
        """Yield ends and values of a key's panes within a time, by their ends."""
        low, high = key + key_layout.time_suffix(from_ms), key + key_layout.time_suffix(to_ms)
        first = key_layout.segment_of(from_ms + 1, self._segment_ms)
        for segment in range(first, key_layout.segment_of(to_ms, self._segment_ms) + 1):
            prefix = key_layout.segment_prefix(segment)
            for storage, value in self._panes.rows(prefix + low, prefix + high):
                yield key_layout.end_of(storage), MergedValue(value)

    def _place(self, key: bytes, first_ms: int) -> bytes:
        before, behind = self._around(first_ms)
        return before + key + behind

    def _segment(
        self, segment: int, start: bytes, stop: bytes, piece_rows: int = PIECE_ROWS
    ) -> Iterator[tuple[bytes, MergedValue]]:
        """Yield the windows of a segment within the bounds."""
        length_ms = self._segment_ms
        bounds = segment * length_ms, (segment + 1) * length_ms
        for key, panes in groupby(self._by_key(segment, start, stop, piece_rows), key=_key):
            values = ((key_layout.end_of(storage), MergedValue(value)) for storage, value in panes)
            for first_ms, value in merged_windows(values, self._window, self._merge.merge, *bounds):
                place = self._place(key, first_ms)
                if place >= stop:
                    break
                if place >= start:
                    yield place, value

    def _by_key(self, segment: int, start: bytes, stop: bytes, piece_rows: int) -> Iterator[StoredRow]:
        """Yield the panes of the segment's windows within the bounds, key by key, each key's in order."""
        first = self._lowest(segment)
        low, high = self._bounds(key_layout.segment_prefix(segment), start, stop)
        sides = []
        each = max(1, piece_rows // (segment + 1 - first))
        for one in range(first, segment + 1):
            begin = key_layout.segment_prefix(one)
            end = key_layout.segment_prefix(one + 1) if high is None else begin + high
            sides.append(self._panes.rows(begin + low, end, each))
        return merged_in_order(*sides, key=lambda row: _behind_segment(row[0]))

    def _bounds(self, prefix: bytes, start: bytes, stop: bytes) -> tuple[bytes, bytes | None]:
        """Return the bounds of the panes' keys and times, without the segment. None: there is no upper one."""
        low, high = b"", None
        if start.startswith(prefix):
            key, first_ms = _parts(start[len(prefix) :])
            low = key if first_ms is None else key + key_layout.time_suffix(first_ms)
        if stop.startswith(prefix):
            key, first_ms = _parts(stop[len(prefix) :])
            high = key if first_ms is None else key + key_layout.time_suffix(first_ms + self._window.size_ms)
        return low, high

    def _first_segment(self, segment: int | None) -> int | None:
        """Return the first segment from this one on that may have a window; None: from the first one on."""
        start = key_layout.WINDOWS_START if segment is None else key_layout.segment_prefix(self._lowest(segment))
        pane = self._panes.first(start)
        if pane is None:
            return None
        found = key_layout.parse_segment(pane)
        return found if segment is None else max(segment, found)

    def _lowest(self, segment: int) -> int:
        """Return the first segment that may hold a pane of a window of this segment."""
        return key_layout.segment_of(segment * self._segment_ms + 1 - self._overlap_ms, self._segment_ms)


def _bytes_around(size_ms: int, segment_ms: int, first_ms: int) -> tuple[bytes, bytes]:
    """Return what is before and behind the key in the storage key of a window."""
    end_ms = first_ms + size_ms
    segment = key_layout.segment_of(end_ms, segment_ms)
    whole = key_layout.storage_key_in(segment, b"", first_ms, end_ms)
    return whole[: key_layout.SEGMENT_BYTES], whole[key_layout.SEGMENT_BYTES :]


def _runs(starts: Sequence[int], size_ms: int) -> Iterator[Sequence[int]]:
    """Yield the starts of windows in groups that are apart by more than a window: little between is read."""
    first = 0
    for at in range(1, len(starts) + 1):
        if at == len(starts) or starts[at] - starts[at - 1] > size_ms:
            yield starts[first:at]
            first = at


def _parts(name: bytes) -> tuple[bytes, int | None]:
    """Return the key, with its end, and the time behind it; None if there is none."""
    at = name.find(_KEY_END)
    if at < 0:
        return name, None
    key, times = name[: at + len(_KEY_END)], name[at + len(_KEY_END) :]
    return key, key_layout.time_of(times) if len(times) >= key_layout.END_BYTES else None


def _key(row: StoredRow) -> bytes:
    return key_layout.key_of(row[0])


def _behind_segment(storage: bytes) -> bytes:
    return storage[key_layout.SEGMENT_BYTES :]

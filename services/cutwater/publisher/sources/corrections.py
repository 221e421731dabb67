"""The corrections that an order asks for: the values of its rows at a milestone, from the changelog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from cutwater.adapters.avro.codec import Codec
from cutwater.core.checks.state_comparison import RowName
from cutwater.core.job.job import CORRECTION, TOMBSTONE, WINDOW_KEY_SCHEMA, Job
from cutwater.core.job.panes import merged_windows
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry, Jump
from cutwater.publisher.sources.stored_rows import NOT_READ
from cutwater.views.changelog.milestone_rows import Updates
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.changelog.row_batch import Piece, pieces_of
from cutwater.views.store.window_rows import MergedValue, ValueMerge

_KEYS = Codec(WINDOW_KEY_SCHEMA)


class Corrections:
    """Reads the changelog once up to a milestone, and keeps the ordered rows."""

    def __init__(self, job: Job, ranges: Ranges, now_ms: Callable[[], int]) -> None:
        self._job = job
        self._updates = Updates(job, ranges, now_ms)
        self._windows = KeyReader()
        self._merge = ValueMerge(job)

    def pieces(self, entry: Entry, rows: Sequence[RowName]) -> Iterator[Piece]:
        """Yield the rows as corrections, and tombstones for those that the state does not have. Rows that the
        output does not owe at this milestone are left out. Raises as `Updates.pieces` for a jump."""
        wanted = sorted({one for one in rows if self._is_owed(one, entry.milestone)})
        if not wanted:
            return
        held = self._merged(entry, wanted) if self._job.overlap_ms else self._plain(entry, wanted)
        found = ((TOMBSTONE if one not in held else CORRECTION, one) for one in wanted)
        for kind, group in groupby(found, key=lambda pair: pair[0]):
            yield from pieces_of(
                ((NOT_READ, NOT_READ, _key(one), held.get(one, b"")) for _, one in group),
                kind,
            )

    def _is_owed(self, row: RowName, milestone: Milestone) -> bool:
        closed = self._job.output.mode != "final" or row.end_ms <= milestone.watermark_ms
        return closed and row.end_ms > self._job.shown_above_ms(milestone.horizon_ms)

    def _plain(self, entry: Entry, wanted: Sequence[RowName]) -> dict[RowName, bytes]:
        """Return the newest value of each row, where a row of the changelog is a window."""
        keys = {_key(one): one for one in wanted}
        return {keys[key]: value for key, value in self._rows(entry) if key in keys}

    def _merged(self, entry: Entry, wanted: Sequence[RowName]) -> dict[RowName, bytes]:
        """Return the windows, merged from the newest value of each of their panes."""
        panes: dict[str, dict[int, bytes]] = {one.key: {} for one in wanted}
        for key, value in self._rows(entry):
            pane = self._windows.window(key)
            if pane.key in panes and pane.end_ms > entry.milestone.horizon_ms:
                panes[pane.key][pane.end_ms] = value
        size_ms, names = self._job.window.size_ms, set(wanted)
        return {
            name: self._merge.encode(value)
            for key, own in panes.items()
            for start, value in merged_windows(
                [(end, MergedValue(held)) for end, held in sorted(own.items())],
                self._job.window,
                self._merge.merge,
            )
            if (name := RowName(key, start, start + size_ms)) in names
        }

    def _rows(self, entry: Entry) -> Iterator[tuple[bytes, bytes]]:
        return self._updates.rows(Jump(entry), Cut())


def _key(row: RowName) -> bytes:
    return _KEYS.encode({"key": row.key, "window_start": row.start_ms, "window_end": row.end_ms})

"""The state that readers see: one milestone and exactly its rows, replaced as a pair. One thread writes (the
follower), any number read. A reader takes the pair once and keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, NamedTuple

from cutwater.adapters.hashing import key_hash
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.lineage import Lineage
from cutwater.core.protocol.records import Heartbeat, Milestone
from cutwater.core.query.top_n import Ranking
from cutwater.core.state.backlog import Entry
from cutwater.views.query.change_feed import KEPT_BYTES, ROW_BYTES, Rows, size_of
from cutwater.views.query.pages import EVERYTHING, KeyPage, KeysPage, KeySpan, Order, Part, ScanPage, Stored, Top
from cutwater.views.query.presenter import Presenter, Row
from cutwater.views.query.row_blocks import take_rows
from cutwater.views.store import key_layout
from cutwater.views.store.pinned_rows import PIECE_ROWS, PinnedRows
from cutwater.views.store.store import Store
from cutwater.views.store.window_rows import StoredRow, StoredRows, WindowRows

SCAN_ROWS_MAX = 100_000
"""The most stored rows read for one page of a scan, whether they match or not."""
PAGE_BYTES = 32 << 20
"""Values of a page, plus one: a page of large rows is shorter, and continues like any other."""
EXPORT_ROWS = 2_000
EXPORT_BYTES = 4 << 20
"""Rows and bytes of values in a piece of an export. Pieces of large values are shorter, in equal shares."""
TOP_ROWS_MAX = 1_000_000
"""The most rows read for a ranking, which takes some seconds."""
_NEVER = 1 << 62
_LENGTH_BYTES = 8
BOUNDS_KEPT = 100


class State(Enum):
    """State of the view's follower."""

    STARTING = "starting"
    RESTORING = "restoring"
    FOLLOWING = "following"
    WAITING = "waiting"
    """A dependency is unavailable; the follower retries."""
    FULL = "full"
    """The disk is full. The shown milestone stays, and the follower continues once there is room."""
    STOPPED = "stopped"
    """Continuing would show wrong state. An operator must act."""


class Status(NamedTuple):
    state: State
    reason: str = ""


class Shown(NamedTuple):
    """A milestone and its rows, always read together."""

    milestone: Milestone
    rows: PinnedRows
    windows: StoredRows
    """The windows of the rows; the rows themselves if each is one."""
    above_ms: int
    """Windows that end at or below it are not complete."""


class View:
    """A view of one job's state. `status`: the follower's state and its reason, for people."""

    def __init__(self, store: Store, job: Job) -> None:
        self.job = job
        self._store = store
        self._presenter = Presenter(job)
        self.measures = job.measures
        self.shards = job.shards
        self._size_ms = job.window.size_ms
        self._heartbeat: Heartbeat | None = None
        self._shown: Shown | None = None
        self._bounds: list[tuple[int, int | None]] = [(0, None)]
        """First sequence and lower bound of each change, since an answer may be of an older milestone."""
        self.status = Status(State.STARTING)
        self.caught_up = False
        """Whether the end of the commit stream was reached since the last start, restore or wait."""
        if store.applied and not store.applying:
            self.show(store.applied)

    def show(self, entry: Entry) -> None:
        """Show this milestone to readers. The store must be at it and complete."""
        lower = self._store.lower_ms
        if lower is not None and lower <= entry.milestone.horizon_ms:
            lower = None  # the horizon has passed the evicted windows
        if self._bounds[-1][1] != lower:
            self._bounds = [*self._bounds[-BOUNDS_KEPT:], (entry.milestone.sequence, lower)]
        rows = self._store.pin()
        panes = self.job.overlap_ms > 0
        windows = WindowRows(rows, self.job, self._store.segment_ms) if panes else rows
        self._shown = Shown(entry.milestone, rows, windows, self.complete_above_ms(entry.milestone))

    def record_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Record that the job is alive without new milestones."""
        self._heartbeat = heartbeat

    def close(self) -> None:
        """Show nothing, and close the store."""
        self._shown = None
        self._store.close()

    @property
    def milestone(self) -> Milestone | None:
        return self._shown.milestone if self._shown else None

    @property
    def lineage(self) -> Lineage:
        """The generations of the stream up to this view's own."""
        return self._store.lineage

    @property
    def ready(self) -> bool:
        return self._shown is not None and self.status.state is not State.STOPPED

    @property
    def current(self) -> bool:
        """Whether the view shows the newest milestone, as far as it knows."""
        return self._shown is not None and self.caught_up

    def age_ms(self, milestone: Milestone, now_ms: int) -> int:
        """Return the time since the job was last known to have nothing newer than this milestone."""
        beat = self._heartbeat
        known = milestone.committed_ms
        if beat and (beat.generation, beat.epoch) == (milestone.generation, milestone.epoch):
            known = max(known, beat.at_ms)
        return max(0, now_ms - known)

    def horizon_ms(self, milestone: Milestone) -> int:
        """Return the horizon of windows: those that end at or below it are not part of the state."""
        return self.job.shown_above_ms(milestone.horizon_ms)

    def lower_ms(self, milestone: Milestone) -> int | None:
        """Return the lower bound at this milestone, for windows evicted because of `max_bytes`; None: none
        were. Windows that end at or below it are missing, even above the horizon."""
        rows_ms = self.rows_lower_ms(milestone)
        return None if rows_ms is None else self.job.shown_above_ms(rows_ms)

    def rows_lower_ms(self, milestone: Milestone) -> int | None:
        """Do as `lower_ms`, for the stored rows."""
        return next((lower for first, lower in reversed(self._bounds) if first <= milestone.sequence), None)

    def complete_above_ms(self, milestone: Milestone) -> int:
        """Return the bound above which all windows are complete, in this view."""
        selection = self._store.selection
        since_ms = selection.since_ms if selection else None
        bounds = (self.horizon_ms(milestone), self.lower_ms(milestone), since_ms)
        return max(one for one in bounds if one is not None)

    def changed_windows(self, rows: Rows, bytes_max: int = KEPT_BYTES) -> Rows | None:
        """Return the shown windows that these stored rows are part of; None for more than so many bytes."""
        shown = self._require()
        if not isinstance(shown.windows, WindowRows):
            return rows
        if len(rows) * self.job.window.per_event_max * ROW_BYTES > bytes_max:
            return None  # merging them would hold up the next milestone
        found: dict[bytes, bytes] = {}
        size = 0
        for place, value in shown.windows.touched_by(rows):
            if key_layout.end_of(place) > shown.above_ms:
                found[place] = value
                size += size_of({place: value})
            if size > bytes_max:
                return None
        return found

    def evicted(self, milestone: Milestone, from_ms: int | None) -> int | None:
        """Return the lower bound if windows that start at or after `from_ms` may end at or below it."""
        lower = self.lower_ms(milestone)
        below = lower is not None and (from_ms is None or from_ms + self._size_ms <= lower)
        return lower if below else None

    def read(self, key: str, from_ms: int | None, to_ms: int | None, limit: int) -> KeyPage:
        """Return at most `limit` windows of a key that start in [from_ms, to_ms), oldest first; fewer if they are
        large. Raises UnavailableError while no milestone is shown."""
        return self._read(self._require(), key, from_ms, to_ms, limit, PAGE_BYTES)

    def read_several(
        self, keys: Iterable[str], from_ms: int | None, to_ms: int | None, limit: int, rows_max: int
    ) -> KeysPage:
        """Do as `read` for several keys at one milestone: at most `limit` rows each, and `rows_max` together."""
        return self.read_spans(((key, from_ms, to_ms) for key in keys), limit, rows_max, PAGE_BYTES)

    def read_spans(self, spans: Iterable[KeySpan], limit: int, rows_max: int, bytes_max: int = _NEVER) -> KeysPage:
        """Do as `read_several`, for each key in a span of its own, and with another bound in bytes."""
        shown = self._require()
        pages: list[KeyPage] = []
        left: list[str] = []
        for key, from_ms, to_ms in spans:
            if not rows_max or bytes_max <= 0:
                left.append(key)
                continue
            pages.append(self._read(shown, key, from_ms, to_ms, min(limit, rows_max), bytes_max))
            rows_max -= len(pages[-1].rows)
            bytes_max -= sum(len(value) for _, value in pages[-1].rows)
        return KeysPage(shown.milestone, pages, left)

    def partials(self, rows: Iterable[Stored]) -> Iterator[dict[str, Any]]:
        """Yield the partials of stored rows."""
        return (self._presenter.partials(value) for _, value in rows)

    def present(self, rows: Iterable[Stored]) -> list[Row]:
        """Return stored rows with the values of their measures."""
        return [self._presenter.row(window, value) for window, value in rows]

    @property
    def segment_ms(self) -> int:
        """The layout: views with equal segments keep the same rows in the same order."""
        return self._store.segment_ms

    def scan(self, after: bytes | None, limit: int, part: Part = EVERYTHING) -> ScanPage:
        """Return a page of the rows in storage order. Pages may be of different milestones: compare them. A
        page may be short or empty before the end, since at most SCAN_ROWS_MAX rows are read, and because of
        PAGE_BYTES. Raises UsageError for a cursor of a view with another layout."""
        shown = self._require()
        mark = self._store.segment_ms.to_bytes(_LENGTH_BYTES, "big")
        if after is not None and after[:_LENGTH_BYTES] != mark:
            raise UsageError(
                "the cursor is from a view that keeps its rows in another order: start the scan again"
            )
        place = None if after is None else after[_LENGTH_BYTES:]
        found: list[Stored] = []
        last, room = b"", PAGE_BYTES
        for looked_at, (storage, value) in enumerate(self._stored_rows(shown, place, part)):
            if len(found) == limit or looked_at == SCAN_ROWS_MAX or room <= 0:
                return ScanPage(shown.milestone, found, mark + last)
            window = key_layout.parse(storage)
            if self._has(shown, part, window):
                found.append((window, value))
                room -= len(value)
            last = storage
        return ScanPage(shown.milestone, found, None)

    def top(self, order: Order, part: Part) -> Top:
        """Return the first rows of a part by a measure; None for a part of more than TOP_ROWS_MAX rows."""
        shown = self._require()
        ranking: Ranking[Stored] = Ranking(order.most, order.descending)
        for looked_at, (storage, value) in enumerate(self._stored_rows(shown, None, part)):
            if looked_at == TOP_ROWS_MAX:
                return Top(shown.milestone, None)
            window = key_layout.parse(storage)
            if self._has(shown, part, window):
                ranking.offer(self._presenter.value(order.measure, value), (window, value))
        return Top(shown.milestone, ranking.first())

    def joined(self, tops: Iterable[Stored], order: Order) -> list[Row]:
        """Return the first rows of several tops."""
        ranking: Ranking[Stored] = Ranking(order.most, order.descending)
        for window, value in tops:
            ranking.offer(self._presenter.value(order.measure, value), (window, value))
        return self.present(ranking.first())

    def rows(self) -> tuple[Milestone, Iterator[Row]]:
        """Return the shown milestone and all its rows, however long reading them takes."""
        shown = self._require()
        stored = self._of(shown, EVERYTHING)
        return shown.milestone, (self._presenter.row(window, value) for window, value in stored)

    def panes(self, part: Part = EVERYTHING) -> tuple[Milestone, Iterator[Stored]]:
        """Return the shown milestone and its rows as they are in the changelog: panes, if windows are merged."""
        shown = self._require()
        rows = shown._replace(windows=shown.rows, above_ms=shown.milestone.horizon_ms)
        return shown.milestone, self._of(rows, part)

    def pieces(self, part: Part = EVERYTHING) -> tuple[Milestone, Iterator[list[StoredRow]]]:
        """Return the shown milestone and a part of its windows, as storage keys and values in pieces."""
        shown = self._require()
        return shown.milestone, self._pieces(shown, part)

    def _pieces(self, shown: Shown, part: Part) -> Iterator[list[StoredRow]]:
        rows = self._stored_rows(shown, None, part)
        above, end_bytes = key_layout.end_suffix(shown.above_ms), key_layout.END_BYTES
        while piece := take_rows(rows, EXPORT_ROWS, EXPORT_BYTES):
            # Bytes are compared: a window object for each row would take most of the time.
            kept = [row for row in piece if row[0][-end_bytes:] > above]
            if part != EVERYTHING:
                kept = [row for row in kept if self._has(shown, part, key_layout.parse(row[0]))]
            shares = max(1, -(-sum(len(value) for _, value in kept) // EXPORT_BYTES))
            size = max(1, -(-len(kept) // shares))
            yield from (kept[first : first + size] for first in range(0, len(kept), size))

    @property
    def missing_reason(self) -> str:
        """Why there is no milestone to show."""
        return f"no milestone can be shown yet: {self.status.reason or self.status.state.value}"

    def _require(self) -> Shown:
        shown = self._shown
        if shown is None:
            raise UnavailableError(self.missing_reason)
        return shown

    def _of(self, shown: Shown, part: Part) -> Iterator[Stored]:
        for storage, value in self._stored_rows(shown, None, part):
            window = key_layout.parse(storage)
            if self._has(shown, part, window):
                yield window, value

    def _stored_rows(self, shown: Shown, after: bytes | None, part: Part) -> Iterator[tuple[bytes, bytes]]:
        """Yield all rows of the segments that may contain the part."""
        length = self._store.segment_ms
        segment = key_layout.first_live(shown.above_ms, length)
        if part.from_ms is not None:
            segment = max(segment, key_layout.segment_of(part.from_ms + 1, length))
        start, stop = key_layout.segment_prefix(segment), key_layout.WINDOWS_END
        if part.to_ms is not None:
            stop = key_layout.segment_prefix(key_layout.segment_of(part.to_ms + self._size_ms, length) + 1)
        start = start if after is None else max(start, after + b"\x00")
        if part.prefix:
            return self._prefixed(shown, start, stop, part.prefix)
        return shown.windows.rows(start, stop)

    def _prefixed(self, shown: Shown, start: bytes, stop: bytes, prefix: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows between the two of keys with this prefix, and read no others."""
        while (found := shown.windows.first(start)) is not None and found < stop:
            segment = key_layout.parse_segment(found)
            first, end = key_layout.prefix_range(segment, prefix)
            yield from shown.windows.rows(max(start, first), min(stop, end))
            start = key_layout.segment_prefix(segment + 1)

    def _has(self, shown: Shown, part: Part, window: key_layout.Window) -> bool:
        return (
            window.end_ms > shown.above_ms
            and (part.from_ms is None or window.start_ms >= part.from_ms)
            and (part.to_ms is None or window.start_ms < part.to_ms)
            and window.key.startswith(part.prefix)
            and (part.shards is None or self.shards.shard(key_hash(window.key)) in part.shards)
        )

    def _read(
        self, shown: Shown, key: str, from_ms: int | None, to_ms: int | None, limit: int, room: int = _NEVER
    ) -> KeyPage:
        """`room`: bytes of values, after which the page ends."""
        found: list[Stored] = []
        end = _NEVER if to_ms is None else to_ms
        for window, value in self._windows(shown, key, from_ms, end, limit + 1):
            if len(found) == limit or room <= 0:
                return KeyPage(shown.milestone, key, found, window.start_ms)
            found.append((window, value))
            room -= len(value)
        return KeyPage(shown.milestone, key, found, None)

    def _windows(
        self, shown: Shown, key: str, from_ms: int | None, to_ms: int, most: int
    ) -> Iterator[tuple[key_layout.Window, bytes]]:
        """Yield a key's windows segment by segment, and skip empty segments."""
        horizon, length = shown.above_ms, self._store.segment_ms
        start = horizon - self._size_ms if from_ms is None else from_ms
        segment = max(key_layout.first_live(horizon, length), key_layout.segment_of(start + 1, length))
        last = key_layout.segment_of(to_ms + self._size_ms, length)
        while segment <= last:
            prefix = key_layout.key_prefix(segment, key)
            first, stop = prefix + key_layout.time_suffix(start), prefix + key_layout.time_suffix(to_ms)
            for storage, value in shown.windows.rows(first, stop, min(most, PIECE_ROWS)):
                window = key_layout.parse(storage)
                if window.end_ms > horizon:
                    yield window, value
            following = shown.windows.first(key_layout.segment_prefix(segment + 1))
            if following is None:
                return
            segment = key_layout.parse_segment(following)

"""Windows over a store of panes: every range of storage keys, against the same windows made in memory."""

from __future__ import annotations

import gc
import tempfile
import weakref
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.job.windows import WindowSpec
from cutwater.views.query.presenter import Presenter
from cutwater.views.store import key_layout
from cutwater.views.store.key_layout import Window
from cutwater.views.store.window_rows import MergedValue, ValueMerge, WindowRows
from support.views.changelogs import HOUR_MS, Sold, encoded, make_job

Stored = dict[bytes, bytes]
panes = st.dictionaries(
    st.tuples(st.sampled_from(["", "a", "a\x00", "b"]), st.integers(-30, 30)), st.integers(1, 99), max_size=25
)
shapes = st.sampled_from([(3, 1), (5, 2), (4, 3), (2, 1), (24, 6)])
segments = st.integers(1, 9)


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    with tempfile.TemporaryDirectory() as folder:
        yield make_job(Path(folder))[0]


class Sorted:
    """Rows in memory. Implements `StoredRows`."""

    def __init__(self, rows: Stored) -> None:
        self._rows = sorted(rows.items())
        self._keys = [key for key, _ in self._rows]

    def rows(self, start: bytes, stop: bytes, piece_rows: int = 0) -> Iterator[tuple[bytes, bytes]]:
        yield from self._rows[bisect_left(self._keys, start) : bisect_left(self._keys, stop)]

    def first(self, start: bytes) -> bytes | None:
        at = bisect_left(self._keys, start)
        return self._keys[at] if at < len(self._keys) else None


class Case:
    """Panes of one hour, their windows by brute force, and the reader under test."""

    def __init__(self, job: Job, shape: tuple[int, int], segment: int, panes: dict[tuple[str, int], int]) -> None:
        size, slide = shape
        self.job = replace(job, window=WindowSpec(size * HOUR_MS, slide * HOUR_MS))
        length_ms = segment * slide * HOUR_MS
        pane = self.job.row_windows.size_ms // HOUR_MS
        self.panes: Stored = {}
        pieces: dict[Window, list[int]] = {}
        for (shop, hour), sold in panes.items():
            start = hour - hour % pane
            at = Window(shop, start * HOUR_MS, (start + pane) * HOUR_MS)
            self.panes[key_layout.storage_key(at, length_ms)] = encoded(job, Sold(shop, start, sold))[1]
        for storage, value in self.panes.items():
            at = key_layout.parse(storage)
            sold = Presenter(job).values(value)["sales"]
            for first in self.job.window.starts(at.start_ms):
                pieces.setdefault(Window(at.key, first, first + self.job.window.size_ms), []).append(sold)
        self.windows = sorted((key_layout.storage_key(one, length_ms), sum(held)) for one, held in pieces.items())
        self.reader = WindowRows(Sorted(self.panes), self.job, length_ms)

    def read(self, start: bytes, stop: bytes) -> list[tuple[bytes, int]]:
        return [(place, self.sales(value)) for place, value in self.reader.rows(start, stop)]

    def sales(self, value: bytes) -> int:
        found = Presenter(self.job).values(value)
        assert (found["pieces"], found["takings"]) == (Decimal(found["sales"]), Decimal(found["sales"]).scaleb(-2))
        return int(found["sales"])


def test_the_rows_below_are_released_without_a_garbage_collection(job: Job) -> None:
    """They hold an iterator of RocksDB, and with it the lock of the folder: a reopened store would not get it."""
    rows = Sorted({})
    released = weakref.ref(rows)
    gc.disable()
    try:
        windows = WindowRows(rows, job, HOUR_MS)
        assert list(windows.rows(key_layout.WINDOWS_START, key_layout.WINDOWS_END)) == []
        del rows, windows
        assert released() is None
    finally:
        gc.enable()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(shapes, segments, panes, st.data())
def test_every_range_has_its_windows(
    job: Job, shape: tuple[int, int], segment: int, panes: dict[tuple[str, int], int], data: st.DataObject
) -> None:
    """In the order of storage keys, whatever the bounds: a key and a time, a cursor, a segment, everything."""
    case = Case(job, shape, segment, panes)
    everything = case.read(key_layout.WINDOWS_START, key_layout.WINDOWS_END)
    assert everything == case.windows
    places = [place for place, _ in case.windows]
    cuts = [place[:at] for place in places for at in (9, -16, -8, 25, None)] + [one + b"\x00" for one in places]
    bounds = st.sampled_from([key_layout.WINDOWS_START, key_layout.WINDOWS_END, *cuts])
    start, stop = data.draw(bounds), data.draw(bounds)
    assert case.read(start, stop) == [row for row in case.windows if start <= row[0] < stop]
    if len(start) >= key_layout.SEGMENT_BYTES:
        following = next((place for place in places if place >= start), None)
        first = case.reader.first(start)
        assert first is not None or following is None
        assert first is None or following is None or start <= first <= following


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(shapes, segments, panes, st.data())
def test_windows_of_changed_panes(
    job: Job, shape: tuple[int, int], segment: int, panes: dict[tuple[str, int], int], data: st.DataObject
) -> None:
    """Each window that holds one of them, once, with the panes that did not change."""
    case = Case(job, shape, segment, panes)
    changed = [place for place in case.panes if data.draw(st.booleans())]
    touched = {
        (at.key, first) for at in map(key_layout.parse, changed) for first in case.job.window.starts(at.start_ms)
    }
    found = [(place, case.sales(value)) for place, value in case.reader.touched_by(changed)]
    wanted = [row for row in case.windows if key_layout.parse(row[0])[:2] in touched]
    assert sorted(found) == wanted


def test_one_pane_is_the_window_unchanged(job: Job) -> None:
    """In whatever framing; two are merged in the job's own."""
    values = ValueMerge(job)
    value = encoded(job, Sold("a", 1, 3))[1]
    framed = b"\x00\x00\x00\x00\x07" + value[10:]
    assert values.encode(MergedValue(framed)) == framed
    both = values.encode(values.merge(MergedValue(framed), MergedValue(value)))
    assert Presenter(job).values(both)["sales"] == 6
    with pytest.raises(UsageError, match="damaged"):
        values.merge(MergedValue(value), MergedValue(value[:-1]))

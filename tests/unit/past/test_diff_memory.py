"""The memory of a comparison does not depend on the size of the states."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.core.past.state_difference import RowComparer
from cutwater.core.state.backlog import Entry
from cutwater.past.diff import _compared
from cutwater.views.query.view import View
from cutwater.views.store.key_layout import Window, storage_key
from cutwater.views.store.store import Store
from support.protocol_samples import milestone
from support.views.changelogs import GENERATION, HOUR_MS, Sold, encoded, make_job

FEW, MANY = 5_000, 40_000
PEAK_BYTES_MAX = 4 << 20
MILESTONE = milestone(0)


def peak_bytes(folder: Path, rows: int) -> int:
    """The most memory that Python takes to compare two states of which every thousandth row differs."""
    job, _ = make_job(folder / "job")
    plain, other = (encoded(job, Sold("a", 1, pieces))[1] for pieces in (5, 6))
    views = []
    for side in range(2):
        store = Store(folder / str(side), job, GENERATION)
        entry = Entry(MILESTONE, protocol_records.encode(MILESTONE), 0)
        names = (storage_key(Window(f"k{at}", HOUR_MS, 2 * HOUR_MS), store.segment_ms) for at in range(rows))
        held = {name: other if side and at % 1_000 == 0 else plain for at, name in enumerate(names)}
        store.commit(entry, held, floor_ms=0)
        views.append(View(store, job))
    plans: list[Any] = [SimpleNamespace(job=job, named=SimpleNamespace(milestone=MILESTONE))] * 2
    request: Any = SimpleNamespace(limit=20)
    tracemalloc.start()
    try:
        found = _compared(request, RowComparer(job, job), plans, views, lambda _doing, _count: None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        for view in views:
            view.close()
    assert (found.before.rows, found.summary.rows, len(found.summary.first)) == (
        rows,
        rows // 1_000,
        min(20, rows // 1_000),
    )
    return peak


@pytest.mark.slow
def test_eight_times_the_rows_take_no_more_memory(tmp_path: Path) -> None:
    few, many = peak_bytes(tmp_path / "few", FEW), peak_bytes(tmp_path / "many", MANY)
    assert many < PEAK_BYTES_MAX
    assert many < 1.5 * few

"""Each guard of whoever reads a changelog, in each way of reading: right with it, and not without it.

The simulation tries each guard in one way (tests/simulation/guards.py); docs/GUARANTEES.md has both tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.client import from_changelog as client
from cutwater.core.errors import CutwaterError
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry, Jump, Step
from cutwater.views.bulk import loader
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.changelog.milestone_rows import Updates
from cutwater.views.changelog.proof import Overtaken
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.follow.applier import Applier
from cutwater.views.query.presenter import Presenter
from cutwater.views.query.view import State, View
from cutwater.views.store.store import Store
from support.views import reader_guards
from support.views.changelogs import GENERATION, Rows, Writing, make_job, now_ms
from support.views.reader_guards import (
    BULK,
    CHUNKS,
    CLIENT,
    JUMP,
    NATIVE,
    PARTS,
    SEED,
    SNAPSHOT,
    Guard,
    hole_of,
    tried,
)
from support.views.reader_scenes import TWO_DAYS_MS, Played, play
from support.views.snapshots import keeping
from support.views.ways import Loading

CELLS = tried(*(one for one in reader_guards.READERS if one != SEED))
QUICK = {BULK}
"""What the simulation does not run. Nor does it run the native module, which needs Rust, and Spark."""
_played: dict[str, Played] = {}


def entry(milestone: Milestone) -> Entry:
    return Entry(milestone, protocol_records.encode(milestone), milestone.sequence)


@pytest.fixture
def played(request: Any, broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Guard], Played]:
    """A scene, written once for all readers."""

    def find(guard: Guard) -> Played:
        if guard.name not in _played:
            folder = tmp_path_factory.mktemp("scene")
            writing = Writing(broker.cluster, make_job(folder)[0])
            _played[guard.name] = play(writing, guard.scene, folder)
        return _played[guard.name]

    return find


@pytest.mark.parametrize(
    ("guard", "reader"),
    [
        pytest.param(
            guard,
            reader,
            id=f"{guard.name}-{reader}".replace(" ", "-"),
            marks=pytest.mark.needs("native") if reader == NATIVE else () if reader in QUICK else pytest.mark.slow,
        )
        for guard, reader in CELLS
    ],
)
def test_right_with_the_guard_and_not_without_it(
    played: Callable[[Guard], Played], tmp_path: Path, guard: Guard, reader: str
) -> None:
    scene = played(guard)
    with_it = outcome(scene, tmp_path / "with", guard, reader, lambda: hole_of(guard, reader, False))
    assert with_it in guard.holds, f"with the guard: {with_it}"
    without = outcome(scene, tmp_path / "without", guard, reader, lambda: hole_of(guard, reader, True))
    assert without not in guard.holds, f"without the guard: {without}"
    print(f"{guard.name}, {reader}: {with_it} with it, {without} without")


def outcome(scene: Played, folder: Path, guard: Guard, reader: str, hole: Callable[[], Any]) -> str:
    """What a reader comes to: right or wrong rows, or what it says."""
    try:
        rows = _read(scene, folder, guard, reader, hole)
    except (CutwaterError, Overtaken) as error:
        return type(error).__name__
    if rows is None:
        return "waits"
    return reader_guards.RIGHT if rows == scene.truth else reader_guards.WRONG


def _read(scene: Played, folder: Path, guard: Guard, reader: str, hole: Callable[[], Any]) -> Rows | None:
    if reader == SNAPSHOT:
        with hole():
            return _from_snapshot(scene, folder, guard.of_jumps or scene.ahead_ms > 0)
    if reader == CLIENT:
        with hole():
            return _as_a_client(scene)
    ranges = Ranges(scene.writing.cluster, scene.writing.topic, stall_s=1.0)
    try:
        if reader in reader_guards.UPDATES:
            with hole():
                return _changed(scene, ranges, reader)
        return _in_a_view(scene, folder, ranges, reader, hole)
    finally:
        ranges.close()


def _in_a_view(scene: Played, folder: Path, ranges: Ranges, reader: str, hole: Callable[[], Any]) -> Rows:
    store = Store(folder, scene.writing.job, GENERATION)
    try:
        loads = _bulk(scene, store, reader == NATIVE) if reader in (BULK, NATIVE) else None
        jumps = reader in (JUMP, BULK, NATIVE)
        if not jumps:
            Applier(store, scene.writing.job, ranges, now_ms).apply(Jump(entry(scene.first)))
        rows = 2 if reader == CHUNKS else 50_000
        applies = Applier(store, scene.writing.job, ranges, scene.now_ms, rows, bulk=loads)
        with hole(), patch.object(loader, "_WorkerPool", lambda cluster, _most: loader._InProcessPool(cluster)):
            applies.apply((Jump if jumps else Step)(entry(scene.last)))
            view = View(store, scene.writing.job)
            return _shown(view)
    finally:
        store.close()


def _shown(view: View) -> Rows:
    return {(row["key"], row["window_start"]): row["pieces"] for row in view.rows()[1]}


def _bulk(scene: Played, store: Store, native: bool) -> BulkLoader:
    options: dict[str, Any] = {"least_records": 1, "stall_s": 1.0, "native": native}
    return BulkLoader(
        scene.writing.cluster, scene.writing.job, scene.writing.topic, store, Loading(), 2, **options
    )


def _changed(scene: Played, ranges: Ranges, reader: str) -> Rows:
    """The state before, and what the publisher is given on top."""
    jumps = reader == reader_guards.FAR_PUBLISHED
    reads = Updates(scene.writing.job, ranges, scene.now_ms, 2 if reader == PARTS else 100_000)
    before = {} if jumps else dict(scene.writing.by_sequence[scene.first.sequence])
    since = Cut() if jumps else scene.first.changelog_cut
    keys, presents = KeyReader(), Presenter(scene.writing.job)
    for key, value in reads.rows((Jump if jumps else Step)(entry(scene.last)), since):
        window = keys.window(key)
        before[window.key, window.start_ms] = int(presents.values(value)["pieces"])
    return before


def _as_a_client(scene: Played) -> Rows | None:
    """One that begins anew, and so jumps."""
    job, cluster = scene.writing.job, scene.writing.cluster
    with patch.object(client, "Ranges", partial(Ranges, stall_s=1.0)):
        given = client.from_changelog(job, cluster, GENERATION, None, lambda: False, 2.0, 1_000, scene.now_ms)
        for one in given:
            if one.token == scene.last.token:
                return {(row.key, row.window_start_ms): int(row.values["pieces"]) for row in one.changes}
    return None


def _from_snapshot(scene: Played, folder: Path, jumps: bool) -> Rows | None:
    """A view that begins from a snapshot of the first milestone, and goes on from there."""
    ahead_ms = TWO_DAYS_MS if jumps else 0
    options: dict[str, Any] = {"near": False, "clock": lambda: now_ms() + ahead_ms, "stall_s": 1.0}
    with keeping(scene.writing, folder, scene.objects, **options) as (view, kept):
        until = time.monotonic() + 20
        while time.monotonic() < until:
            assert not kept.told.damaged
            if view.view.status.state is State.STOPPED:
                failure = view._follower.failure
                assert failure is not None
                raise failure
            if view.view.milestone and view.view.milestone.sequence == scene.last.sequence:
                return _shown(view.view)
            if "compaction has overtaken" in view.view.status.reason or view.seen.retries:
                return None
            time.sleep(0.02)
    raise AssertionError(f"the view says {view.view.status}")


def test_a_table_says_of_every_cell_that_it_is_tried_or_why_not() -> None:
    for guard in reader_guards.GUARDS:
        assert set(guard.by_reader) == set(reader_guards.READERS), guard.name

"""A restore by workers, on a real broker: exact, proved, broken off at any moment and gone on with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from cutwater.core.errors import MachineError
from cutwater.core.protocol import topics
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.cuts import Cut
from cutwater.core.state.bulk_load import Done
from cutwater.views.bulk import loader
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.store.folders import loading_folder
from cutwater.views.store.store import Store
from support.views.changelogs import (
    GENERATION,
    HOUR_MS,
    Sold,
    Writing,
    encoded,
    following,
    held_back,
    now_ms,
    until,
)

ROWS = 6_000
SHOPS = [f"s{number}" for number in range(60)]


class Seen:
    """Counts what is loaded."""

    def __init__(self) -> None:
        self.done: list[tuple[Done, int]] = []

    def loaded(self, done: Done, records_max: int) -> None:
        self.done.append((done, records_max))


class Restoring:
    """A view that restores by workers, whatever the size."""

    def __init__(self, writing: Writing, folder: Path, native: bool = False, niceness: int = 0) -> None:
        self._writing = writing
        self._niceness = niceness
        self._native = native
        self._folder = folder
        self.seen = Seen()

    def __call__(self, **options: Any) -> Any:
        return following(self._writing.cluster, self._writing.job, self._folder, bulk=self.bulk, **options)

    def bulk(self, store: Store, stopping: Callable[[], bool]) -> BulkLoader:
        job = self._writing.job
        topic = topics.changelog(job.name, GENERATION)
        options: dict[str, Any] = {"least_records": 1, "file_rows": 25, "stall_s": 5, "native": self._native}
        options["niceness"] = self._niceness
        return BulkLoader(self._writing.cluster, job, topic, store, self.seen, 2, stopping, **options)


@pytest.fixture
def restoring(writing: Writing, tmp_path: Path) -> Restoring:
    return Restoring(writing, tmp_path / "view")


BY_MODULE = pytest.param(True, marks=pytest.mark.needs("native"))


@pytest.mark.parametrize("native", [False, BY_MODULE])
def test_a_restore_by_workers_is_exact(writing: Writing, tmp_path: Path, native: bool) -> None:
    """The newest row of each window, nothing above the cut, nothing below the horizon; then it is followed."""
    restoring = Restoring(writing, tmp_path / "view", native)
    for epoch in range(4):
        writing.epoch(Sold(shop, epoch % 3, 100 * epoch + at) for at, shop in enumerate(SHOPS[epoch * 5 :]))
    writing.epoch([Sold("a" * 200, 5, 1), Sold("zero\0inside", 5, 2), Sold("ü", 40, 3)], watermark_ms=26 * HOUR_MS)
    writing.rows([Sold(SHOPS[0], 2, 9_999)], epoch=5)
    with restoring() as view:
        view.wait_for(5)
        assert view.rows() == (5, writing.by_sequence[5])
        assert writing.by_sequence[5]["zero\0inside", 5 * HOUR_MS] == 2
        assert len(restoring.seen.done) >= 4, "several files of each worker"
        assert restoring.seen.done[-1][0].records == 60 + 55 + 50 + 45 + 3 == view.seen.done[0][1].records
        last = writing.epoch([Sold(SHOPS[0], 30, 1)], attempt=2)
        view.wait_for(last.sequence)
        assert view.rows() == (last.sequence, writing.by_sequence[last.sequence])
        assert [one.sequence for one, _ in view.seen.done] == [5, 6]
    with restoring() as view:
        assert view.first_shown == last
    assert not (view.store.folder.parent / "view.loading").exists()


def test_a_row_that_a_task_wrote_twice_counts_once(writing: Writing, restoring: Restoring) -> None:
    """Counted by workers it counts twice: so the milestone's own rows are counted again, each key once."""
    rows = [Sold(shop, 1, at) for at, shop in enumerate(SHOPS)]
    written = writing.rows([Sold(SHOPS[3], 1, 77), *rows, *rows[:9]], epoch=0)
    writing.milestone(rows, written)
    with restoring() as view:
        view.wait_for(1)
        assert view.rows() == (1, writing.by_sequence[1])


def test_of_some_partitions(writing: Writing, restoring: Restoring) -> None:
    """The others are not read at all."""
    writing.epoch(Sold(shop, 1, at) for at, shop in enumerate(SHOPS))
    with restoring(partitions=frozenset({1})) as view:
        view.wait_for(1)
        held = {at: one for at, one in writing.by_sequence[1].items() if writing.partition(at[0]) == 1}
        assert view.rows() == (1, held)
        assert restoring.seen.done[-1][0].records == len(held) == restoring.seen.done[-1][1]


def test_its_processes_step_back(writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By as much as it is told: others wait for what else runs."""
    seen: set[int] = set()
    send = loader._Worker.send_line

    def look(self: Any, line: str) -> None:
        if not line:  # it has written a file
            seen.add(os.getpriority(os.PRIO_PROCESS, self._process.pid))
        send(self, line)

    monkeypatch.setattr(loader._Worker, "send_line", look)
    writing.epoch(Sold(shop, 1, at) for at, shop in enumerate(SHOPS))
    with Restoring(writing, tmp_path / "view", niceness=3)() as view:
        view.wait_for(1)
    assert seen == {os.getpriority(os.PRIO_PROCESS, 0) + 3}


def refused(writing: Writing, restoring: Restoring) -> str:
    """Why the view stopped; it shows nothing."""
    with restoring() as view:
        reason = view.wait_stopped()
        assert view.view.milestone is None
        assert view.seen.divergences == 1
    return reason


@pytest.mark.parametrize("native", [False, BY_MODULE])
def test_foreign_records_stop_the_view(writing: Writing, tmp_path: Path, native: bool) -> None:
    """Of another generation, or of nobody knows whom: named by offset."""
    restoring = Restoring(writing, tmp_path / "view", native)
    rows = [Sold(shop, 1, 1) for shop in SHOPS]
    key, value = encoded(writing.job, rows[0])
    at = writing.partition(rows[0].shop)
    writing.record(at, key, value, *[("writer", b"g9-x/1/0")])
    writing.epoch(rows)
    reason = refused(writing, restoring)
    assert f"{writing.topic}/{at}@0 was written by g9-x/1/0" in reason


@pytest.mark.variations
@pytest.mark.parametrize(
    "headers", [[], [("other", b"g1-local-00000000/1/0")], [("writer", b"x"), ("writer", b"y")]]
)
def test_records_without_a_writer_stop_the_view(
    writing: Writing, restoring: Restoring, headers: list[tuple[str, bytes]]
) -> None:
    rows = [Sold(shop, 1, 1) for shop in SHOPS]
    key, value = encoded(writing.job, rows[0])
    writing.record(0, key, value, *headers)
    writing.epoch(rows)
    assert f"{writing.topic}/0@0 was written " in refused(writing, restoring)


def test_what_is_no_row_stops_the_view(writing: Writing, restoring: Restoring) -> None:
    """Another schema's value, and a record without a key."""
    rows = [Sold(shop, 1, 1) for shop in SHOPS]
    header = [("writer", Writer(GENERATION, 1, 0).header)]
    key, _ = encoded(writing.job, rows[0])
    writing.record(2, key, b"\xc3\x01" + bytes(9), *header)
    writing.epoch(rows)
    assert f"{writing.topic}/2@0 has a value of schema c3010000000000000000" in refused(writing, restoring)


@pytest.mark.variations
@pytest.mark.parametrize("key", [b"", b"short", b"\xc3\x01 not a header of ours", "cut"])
def test_what_is_no_key_stops_the_view(writing: Writing, restoring: Restoring, key: bytes | str) -> None:
    """As it does in a small restore: the last good milestone is served, and somebody must look."""
    rows = [Sold(shop, 1, 1) for shop in SHOPS]
    whole, value = encoded(writing.job, rows[0])
    writing.record(
        1, whole[:-3] if isinstance(key, str) else key, value, ("writer", Writer(GENERATION, 1, 0).header)
    )
    writing.epoch(rows)
    assert f"{writing.topic}" in refused(writing, restoring)


@pytest.mark.slow
def test_tombstones_are_garbage_below_the_horizon_and_a_breach_above(
    writing: Writing, restoring: Restoring, tmp_path: Path
) -> None:
    writing.epoch(Sold(shop, 1, 1) for shop in SHOPS)
    writing.tombstone(Sold(SHOPS[0], 1, 1))
    writing.epoch([Sold("new", 40, 1)], watermark_ms=40 * HOUR_MS)
    with restoring() as view:
        view.wait_for(2)
        assert view.rows() == (2, {("new", 40 * HOUR_MS): 1})
    writing.tombstone(Sold("new", 40, 1))
    writing.epoch([Sold("newer", 41, 1)])
    assert "tombstone above the horizon" in refused(writing, Restoring(writing, tmp_path / "again"))


@pytest.mark.slow
@pytest.mark.parametrize("lie", [{"rows": 59}, {"digest": 1}])
def test_rows_that_do_not_match_stop_the_view(writing: Writing, restoring: Restoring, lie: dict[str, int]) -> None:
    rows = [Sold(shop, 1, 1) for shop in SHOPS]
    writing.milestone(rows, writing.rows(rows, epoch=0), **lie)
    assert "milestone g1-local-00000000:1" in refused(writing, restoring)


@pytest.mark.slow
def test_an_old_milestone_with_rows_above(writing: Writing, restoring: Restoring) -> None:
    """Containment: what stands above the cut is looked at when the workers have come to it, and not applied."""
    writing.epoch([Sold(shop, 1, 1) for shop in SHOPS], written_ms=now_ms() - 48 * HOUR_MS)
    writing.rows([Sold(shop, 1, 99) for shop in SHOPS], epoch=1)
    with restoring() as view:
        view.wait_for(1)
        assert view.rows() == (1, writing.by_sequence[1])


@pytest.mark.slow
def test_a_milestone_that_compaction_has_overtaken_is_not_shown(writing: Writing, restoring: Restoring) -> None:
    """Containment: what follows the cut has grown too old; a later milestone, which nothing follows, is shown."""
    writing.epoch(Sold(shop, 1, 1) for shop in SHOPS)
    writing.rows([Sold(SHOPS[0], 1, 99)], epoch=1)
    with restoring(clock=lambda: now_ms() + 48 * HOUR_MS) as view:
        until(lambda: "compaction has overtaken" in view.view.status.reason, "the view to see it")
        assert view.view.milestone is None
        last = writing.epoch([Sold(SHOPS[0], 1, 99)], attempt=2)
        view.wait_for(last.sequence)
        assert view.rows() == (last.sequence, writing.by_sequence[last.sequence])


def workers(folder: Path) -> list[psutil.Process]:
    """The living workers of a store."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(loading_folder(folder)) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@pytest.mark.slow
def test_a_worker_that_is_killed_is_told(writing: Writing, restoring: Restoring, tmp_path: Path) -> None:
    """The view's process ends with what happened, and its supervisor begins again; nothing is left behind."""
    rows = [Sold(shop, 1, 1) for shop in SHOPS]
    cut = Cut.of_topic(writing.topic, [end + 1 for end in writing.ends().values()])
    writing.milestone(rows, [encoded(writing.job, row) for row in rows], changelog_cut=cut)

    def kill_one() -> None:
        with restoring() as view:
            until(lambda: workers(tmp_path / "view"), "a worker, which waits for records")
            workers(tmp_path / "view")[0].kill()
            until(lambda: view.error, "the end")

    with pytest.raises(MachineError, match="a worker of the restore ended with -9"):
        kill_one()
    assert not workers(tmp_path / "view")
    assert not loading_folder(tmp_path / "view").exists()


@pytest.mark.slow
def test_records_that_are_missing_below_the_cut_are_waited_for(writing: Writing, restoring: Restoring) -> None:
    """The log seems to end below the milestone's cut, behind an open transaction: nothing is shown until then."""
    with ExitStack() as open_one:
        open_one.enter_context(held_back(writing))
        writing.epoch([Sold(shop, 1, 1) for shop in SHOPS])
        with restoring() as view:
            until(lambda: view.seen.retries, "a worker to give up for now")
            assert view.view.milestone is None
            open_one.close()
            view.wait_for(1)
            assert view.rows() == (1, writing.by_sequence[1])


KILLED = """
    import os, random, signal, sys
    from pathlib import Path
    sys.path[:0] = {paths!r}
    from support.views.changelogs import Writing, until
    from cutwater.adapters.kafka.client_config import Cluster
    from cutwater.adapters.job_files.loader import load_job
    from cutwater.views.store.store import Store
    from cutwater.views.store.table import RocksTable
    from broker.views.bulk.test_bulk_loader import Restoring

    class Log:
        cluster, job = Cluster({bootstrap!r}), load_job(Path({job!r}))

    luck = random.Random({seed})
    where, left = luck.choice(((Store, "load"), (RocksTable, "load"), (RocksTable, "write"))), luck.randint(1, 2)
    kind, name = where
    known, after = getattr(kind, name), luck.random() < 0.5

    def dying(*args, **options):
        global left
        left -= 1
        if left == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        known(*args, **options)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(kind, name, dying)
    with Restoring(Log, Path({folder!r}))() as view:
        until(lambda: view.seen.done, "the end of the restore")
"""


@pytest.mark.slow
def test_killed_at_ten_moments_it_ends_as_if_undisturbed(
    writing: Writing, restoring: Restoring, tmp_path: Path
) -> None:
    """I4: before and behind a file, its loading, its note; what was loaded is not read again."""
    for epoch in range(8):
        writing.epoch(Sold(f"s{number}", number % 9, number + epoch) for number in range(ROWS))
    tests = Path(__file__).parents[3]
    script = {
        "paths": [str(tests)],
        "bootstrap": writing.cluster.bootstrap,
        "job": str(next(tmp_path.glob("*.yaml"))),
        "folder": str(tmp_path / "view"),
    }
    for seed in range(10):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(KILLED).format(seed=seed, **script)],
            capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == -signal.SIGKILL, f"the kill of seed {seed} did not happen: {done.stderr[-2000:]}"
        until(lambda: not workers(tmp_path / "view"), "the workers to leave", 20)
    with restoring() as view:
        view.wait_for(8)
        assert view.rows() == (8, writing.by_sequence[8])
    first = restoring.seen.done[0][0]
    assert first.records > ROWS, "it went on from what was loaded before"
    assert 8 * ROWS <= restoring.seen.done[-1][0].records < 9 * ROWS, "and read hardly anything twice"

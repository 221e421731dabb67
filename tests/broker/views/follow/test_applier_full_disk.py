"""A disk that is really full: the view applies nothing, serves what it has, and goes on with room again."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import disk_usage
from typing import Any

import pytest

from cutwater.adapters.object_store import Objects
from cutwater.core.errors import DiskFullError
from cutwater.core.state.bulk_load import Done
from cutwater.core.state.snapshot_manifest import Manifest
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.query.view import State
from cutwater.views.snapshots.disk_space import OPENING_BYTES
from cutwater.views.snapshots.local_tier import Checkpoints
from cutwater.views.store.folders import folder_of, restoring_folder
from cutwater.views.store.store import Store
from support.smalldisk import SmallDisk, small_disk
from support.views.changelogs import GENERATION, Sold, Writing, following, make_job, until
from support.views.rehydrating import Process, running
from support.views.snapshots import Keeping, keeping

pytestmark = pytest.mark.needs("mount")

PAGE_BYTES = 4096
ROOM = 96 << 10
"""Left on the full disk: the fault comes in the middle of a milestone, not before it."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "small") as one:
        yield one


def written(broker: Any, folder: Path) -> tuple[Writing, Path]:
    job, path = make_job(folder / "job")
    writing = Writing(broker.cluster, job)
    writing.epoch(Sold(f"s{number}", 0, number) for number in range(1_000))
    return writing, path


def more(writing: Writing, epochs: int = 4) -> int:
    """Some hundred KB of milestones; returns the last one's sequence."""
    for _ in range(epochs):
        writing.epoch(Sold(f"s{number}", writing.last.sequence, number) for number in range(1_000))
    return int(writing.last.sequence)


def is_full(served: Process) -> bool:
    return bool(served.get("/healthz").json()["status"] == "full")


def disk_full(served: Process) -> float:
    lines = served.get("/metrics").text.splitlines()
    return float(next(one.split()[1] for one in lines if one.startswith("cutwater_view_disk_full ")))


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_a_rehydrator_outlives_a_full_disk(broker: Any, disk: SmallDisk, tmp_path: Path, killed: bool) -> None:
    """Its log is on the same disk. With room again it goes on, exactly; killed meanwhile, its successor does."""
    writing, path = written(broker, tmp_path)
    with running(broker.cluster, path, disk.folder, CUTWATER_VIEW_CENSUS_MS="1000") as served:
        until(served.answers, "the API")
        until(lambda: served.shown() == 1, "the first milestone")
        disk.fill(but=ROOM)
        last = more(writing)
        until(lambda: is_full(served), "the disk to be full")
        health = served.get("/healthz").json()
        assert "No space left on device" in health["reason"], "the fault must be a full disk"
        assert str(folder_of(disk.folder, writing.job.name, GENERATION)) in health["reason"]
        assert disk_full(served) == 1
        stays = served.shown()
        assert 1 <= stays < last
        assert served.get("/readyz").status_code == 200, "it serves"
        assert sum(served.pieces("s7")) == 7 * stays
        assert len(served.get("/v1/export").text.splitlines()) == 1_000 * stays + 2
        if killed:
            served.process.kill()
            served.process.wait(20)
        disk.make_room()
        if not killed:
            until(lambda: served.shown() == last, "what did not fit")
            until(lambda: not is_full(served), "it to follow")
            assert disk_full(served) == 0
            assert served.pieces("s7") == [7] * last
            last = more(writing, epochs=1)
            until(lambda: served.shown() == last, "the next one")
            until(lambda: served.get("/v1/sizes").json()["rows"] == 1_000 * last, "a census")
            served.process.send_signal(signal.SIGTERM)
            assert served.ended()[0] == 0
    with running(broker.cluster, path, disk.folder) as served:
        until(served.answers, "the API")
        until(lambda: served.shown() == last, "everything")
        assert served.pieces("s7") == [7] * last
    writing.close()


@pytest.mark.parametrize("json_lines", [False, True])
def test_a_log_on_a_full_disk_ends_nothing(json_lines: bool) -> None:
    """A service goes on without its lines, and its exit code is its own."""
    code = f"""
import sys
from cutwater.adapters.runtime.log_setup import configure
log = configure("view", {json_lines})
for number in range(1_000):
    log.info("a line", number=number)
print("on it goes", file={"sys.stderr" if json_lines else "sys.stdout"})
"""
    with Path("/dev/full").open("wb") as full:
        streams = (subprocess.PIPE, full) if not json_lines else (full, subprocess.PIPE)
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=streams[0], stderr=streams[1], timeout=60, check=False
        )
    assert (done.returncode, (done.stdout or done.stderr).strip()) == (0, b"on it goes")


class Loading:
    """Nobody watches."""

    def loaded(self, done: Done, records_max: int) -> None:
        """Of the bulk restore."""


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 40 << 10, 100 << 10])
def test_a_bulk_restore_goes_on_when_there_is_room(
    broker: Any, disk: SmallDisk, tmp_path: Path, room: int
) -> None:
    """Whether its folder, a worker's file or RocksDB meets the end of the disk; nothing half is shown."""
    writing, _ = written(broker, tmp_path)
    last = more(writing, epochs=12)

    def bulk(store: Store, stopping: Callable[[], bool]) -> BulkLoader:
        cluster, job, topic = writing.cluster, writing.job, writing.topic
        return BulkLoader(cluster, job, topic, store, Loading(), 2, stopping, least_records=1, file_rows=1_000)

    Store(disk.folder / "view", writing.job, GENERATION).close()  # a new RocksDB needs room to begin with
    with following(writing.cluster, writing.job, disk.folder / "view", bulk=bulk) as view:
        disk.fill(but=room)
        until(lambda: view.view.status.state is State.FULL or view.view.milestone, "the disk to be full")
        assert view.view.status.state is State.FULL
        assert "No space left on device" in view.view.status.reason
        assert view.view.milestone is None
        disk.make_room()
        view.wait_for(last)
        assert view.rows() == (last, writing.by_sequence[last])
    writing.close()


def long_names() -> list[str]:
    """Some that take a megabyte, however a table packs them."""
    chance = random.Random(7)
    return [chance.randbytes(250).hex() for _ in range(2_000)]


def snapshot_of_long_names(broker: Any, folder: Path) -> tuple[Writing, Objects, Manifest]:
    """Its milestone is the newest one."""
    writing = Writing(broker.cluster, make_job(folder / "job")[0])
    objects = Objects(str(folder / "objects"))
    with keeping(writing, folder / "one", objects) as (view, kept):
        view.wait_for(writing.epoch(Sold(name, 0, 1) for name in long_names()).sequence)
        manifest = kept.snapshot().manifest
    return writing, objects, manifest


def empty_view(disk: SmallDisk, writing: Writing) -> int:
    """Made before the disk is full, since a new RocksDB needs room. Returns what it takes to open it again."""
    store = Store(disk.folder / "view", writing.job, GENERATION)
    store.close()
    before = disk_usage(disk.folder).free
    store = Store(disk.folder / "view", writing.job, GENERATION)
    taken = before - disk_usage(disk.folder).free
    store.close()
    return taken


def tries(kept: Keeping) -> int:
    return sum(text == "no room for a snapshot" for _, text, _ in kept.told.lines)


@pytest.mark.slow
@pytest.mark.parametrize("opened", [False, True])
def test_a_snapshot_that_does_not_fit_is_fetched_with_room(
    broker: Any, disk: SmallDisk, tmp_path: Path, opened: bool
) -> None:
    """The disk's end is met in a file, or by RocksDB that opens them all. It gives back what it took, and is not
    fetched again before all of it fits; that a disk is full says nothing against the snapshot."""
    writing, objects, manifest = snapshot_of_long_names(broker, tmp_path)
    pages = sum(-(-one.size // PAGE_BYTES) for one in manifest.files)
    disk.fill(but=empty_view(disk, writing) + (pages + 2 if opened else pages // 2) * PAGE_BYTES)
    with keeping(writing, disk.folder / "view", objects) as (view, kept):
        until(lambda: view.view.status.state is State.FULL, "the disk to be full")
        until(lambda: "are free" in view.view.status.reason, "it to look for room")
        assert f"they need {manifest.size + OPENING_BYTES:,} bytes" in view.view.status.reason
        assert (tries(kept), kept.told.damaged, kept.told.well) == (1, 0, True)
        assert not restoring_folder(view.store.folder).exists()
        assert view.view.milestone is None
        disk.make_room()
        view.wait_for(1)
        assert view.rows() == (1, writing.by_sequence[1])
        assert kept.restored is not None
        assert view.seen.done == [], "not from the changelog"
        until(lambda: view.view.status.state is State.FOLLOWING, "it to follow")
    writing.close()


def test_a_near_snapshot_is_not_damaged_by_a_full_disk(broker: Any, disk: SmallDisk, tmp_path: Path) -> None:
    """Its tables take no room as links; the small files are copies, and do."""
    writing = Writing(broker.cluster, make_job(tmp_path / "job")[0])
    with keeping(writing, disk.folder / "view", Objects(str(tmp_path / "objects"))) as (view, kept):
        view.wait_for(writing.epoch([Sold("s1", 0, 1)]).sequence)
        manifest = kept.snapshot().manifest
    near, to = Checkpoints(disk.folder / "view"), disk.folder / "to"
    to.mkdir()
    disk.fill()
    for one in manifest.files:
        if one.name.endswith(".sst") or not one.size:
            near.fetch(manifest, one, to / one.name, lambda: None)
        else:
            with pytest.raises(DiskFullError, match="No space left on device"):
                near.fetch(manifest, one, to / one.name, lambda: None)
            assert not (to / one.name).exists()
    writing.close()

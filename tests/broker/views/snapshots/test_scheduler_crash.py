"""kill -9 of a rehydrator at every point of taking, uploading, pruning and restoring a snapshot."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.object_store import Objects
from cutwater.core.state.snapshot_manifest import Policy, Unusable
from support.views.changelogs import Sold, Writing, until
from support.views.rehydrating import Process, running
from support.views.snapshots import GRACE_MS, POINTS, keeping, shelf_of

UPLOADING = [
    ("checkpoint-made", 1),
    ("checkpoint-listed", 1),
    ("file-uploaded", 1),
    ("file-uploaded", 4),
    ("files-uploaded", 1),
    ("manifest-written", 1),
    ("manifest-retired", 1),
]
RESTORING = [("file-fetched", 1), ("file-fetched", 3), ("view-dropped", 1)]


def sales(epoch: int, count: int = 300) -> list[Sold]:
    return [Sold(f"s{number}", number % 9, epoch * 1_000 + number) for number in range(count)]


def settings(tmp_path: Path) -> dict[str, str]:
    """A snapshot at each milestone, at most one of them kept."""
    return {
        "CUTWATER_SNAPSHOTS": str(tmp_path / "objects"),
        "CUTWATER_SNAPSHOT_EVERY_MS": "100",
        "CUTWATER_SNAPSHOT_KEEP_LAST": "1",
        "CUTWATER_SNAPSHOT_KEEP_HOURS": "0",
        "CUTWATER_SNAPSHOT_KEEP_DAYS": "0",
    }


def job_file(tmp_path: Path, writing: Writing) -> Path:
    return tmp_path / f"{writing.job.name}.yaml"


def die(one: Process, mark: Path) -> None:
    """The process has ended at its point, and nowhere else."""
    assert one.process.wait(60) == -9, one.log.read_text()
    assert mark.exists()


def write_until_it_dies(writing: Writing, one: Process) -> None:
    """How many files a milestone's snapshot has anew is RocksDB's: further milestones reach any point."""
    for epoch in range(1, 13):
        writing.epoch(sales(epoch, 100))
        with suppress(subprocess.TimeoutExpired):
            one.process.wait(5)
            return


def require_whole(writing: Writing, objects: Objects) -> list[int]:
    """Every manifest in the store can be read, and every file of it, to the last byte."""
    shelf = shelf_of(writing, objects)
    for sequence in shelf.sequences():
        for one in shelf.manifest(sequence).files:
            shelf.require_size(one)
            assert sum(map(len, shelf.chunks(one))) == one.size
    return shelf.sequences()


def settled(writing: Writing, objects: Objects) -> list[int]:
    """The same beside a rehydrator that prunes: what it has moved since it was listed is looked at again."""
    try:
        return require_whole(writing, objects)
    except Unusable:
        return []


@pytest.mark.slow
@pytest.mark.parametrize(("point", "times"), UPLOADING)
def test_killed_while_it_takes_and_uploads(writing: Writing, tmp_path: Path, point: str, times: int) -> None:
    """There is never a manifest without its files; the next start goes on, and what it leaves is exact."""
    mark, objects = tmp_path / "mark", Objects(str(tmp_path / "objects"))
    first = writing.epoch(sales(0))
    place = (writing.cluster, job_file(tmp_path, writing), tmp_path / "data")
    with running(*place, **settings(tmp_path)) as one:
        until(lambda: settled(writing, objects) == [1], "the first snapshot")
        until(lambda: one.shown() == first.sequence, "the first milestone")
    armed = {"CUTWATER_CRASH_POINT": f"{point}@{times}", "CUTWATER_CRASH_MARK": str(mark)}
    with running(*place, **settings(tmp_path), **armed) as one:
        write_until_it_dies(writing, one)  # or it is dead before it answers
        die(one, mark)
    assert require_whole(writing, objects)
    if point == "manifest-retired":
        names = shelf_of(writing, objects).names
        places = (names.manifest(1), names.retired_manifest(1))
        assert all(objects.size(one) for one in places), "whoever lists one and then the other sees it"
    with running(*place, **settings(tmp_path)) as one:
        until(one.answers, "the API")
        last = writing.epoch(sales(20, 50)).sequence
        until(lambda: settled(writing, objects)[:1] == [last], "the snapshot of the last milestone")
        until(lambda: shelf_of(writing, objects).sequences() == [last], "the older ones to be retired")
    shelf = shelf_of(writing, objects)
    shelf.prune(Policy(1, 0, 0), round(time.time() * 1000) + 2 * GRACE_MS)
    assert set(shelf.stored()) == shelf.manifest(last).objects, "what died left nothing behind"
    with keeping(writing, tmp_path / "elsewhere", objects) as (view, kept):
        view.wait_for(last)
        assert kept.restored is not None
        assert view.rows() == (last, writing.by_sequence[last])


@pytest.mark.slow
@pytest.mark.parametrize(("point", "times"), RESTORING)
def test_killed_while_it_restores_from_a_snapshot(
    writing: Writing, tmp_path: Path, point: str, times: int
) -> None:
    """What was fetched and is right is not fetched again; the view begins from the snapshot, exact."""
    mark, objects = tmp_path / "mark", Objects(str(tmp_path / "objects"))
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        view.wait_for(writing.epoch(sales(0)).sequence)
        count = len(kept.snapshot().manifest.files)
    place = (writing.cluster, job_file(tmp_path, writing), tmp_path / "data")
    armed = {"CUTWATER_CRASH_POINT": f"{point}@{times}", "CUTWATER_CRASH_MARK": str(mark)}
    with running(*place, **settings(tmp_path), **armed) as one:
        die(one, mark)
    (folder,) = (tmp_path / "data" / "views" / writing.job.name).glob("*.restoring")
    whole = {path.name: path.stat().st_ino for path in folder.iterdir() if path.suffix != ".part"}
    assert (times if point == "file-fetched" else count) <= len(whole)
    with running(*place, **settings(tmp_path)) as one:
        until(lambda: one.answers() and one.shown() == 1, "the snapshot's milestone")
        assert one.pieces("s7") == [writing.by_sequence[1]["s7", 7 * 3_600_000]]
        assert "snapshot restored" in one.log.read_text()
        assert "cutwater_view_records_applied_total 0.0" in one.get("/metrics").text
        assert "cutwater_view_snapshots_restored_total 1.0" in one.get("/metrics").text
        restored = folder.with_name(folder.name.removesuffix(".restoring"))
        kept_files = {path.name: path.stat().st_ino for path in restored.iterdir()}
        tables = {name: at for name, at in whole.items() if name.endswith(".sst")}
        assert tables.items() <= kept_files.items()
    assert not folder.exists()


def test_two_owners_do_not_overwrite_each_other(writing: Writing, tmp_path: Path) -> None:
    """A stale owner uploads the milestone that a newer one has uploaded: the manifest stays as it was."""
    objects = Objects(str(tmp_path / "objects"))
    with (
        keeping(writing, tmp_path / "one", objects) as (one, kept),
        keeping(writing, tmp_path / "two", objects) as (two, others),
    ):
        last = writing.epoch(sales(0)).sequence
        one.wait_for(last)
        two.wait_for(last)
        kept.snapshot()
        before = (tmp_path / "objects" / kept.shelf.names.manifest(last)).read_bytes()
        done = others.snapshot()
        assert (tmp_path / "objects" / kept.shelf.names.manifest(last)).read_bytes() == before
        assert done.manifest.encode() == before, "it takes the one that is there for its own"
        assert require_whole(writing, objects) == [last]
        two.wait_for(writing.epoch(sales(1, 10)).sequence)
        others.snapshot()
        assert kept.shelf.sequences() == [last + 1, last]
        one.wait_for(last + 1)


def test_a_manifest_that_stands_is_not_overwritten_even_when_it_is_damaged(
    writing: Writing, tmp_path: Path
) -> None:
    """It may be a newer version's: the upload says so, and the next milestone gets its own."""
    objects = Objects(str(tmp_path / "objects"))
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        objects.put(kept.shelf.names.manifest(1), b'{"format": 2}')
        view.wait_for(writing.epoch(sales(0)).sequence)
        kept.taking.request(20)
        until(lambda: kept.told.failures, "the upload to be refused")
        assert objects.read(kept.shelf.names.manifest(1), 99) == b'{"format": 2}'
        assert "format 2, but this version reads format 1" in kept.told.errors()
        view.wait_for(writing.epoch(sales(1)).sequence)
        assert kept.snapshot().manifest.sequence == 2
        until(lambda: kept.told.prunings, "the pruning that follows the snapshot")
        (unreadable,) = kept.told.prunings[-1].unreadable
        assert "format 2" in unreadable
        with pytest.raises(Unusable):
            kept.shelf.manifest(1)


def test_files_that_vanish_before_the_manifest_are_uploaded_again(writing: Writing, tmp_path: Path) -> None:
    """The last look: whatever deletes in the store meanwhile, the manifest names what is there."""

    class Deleting(Objects):
        looks = 0

        def list_objects(self, prefix: str) -> Any:
            self.looks += prefix.endswith("/files")
            if self.looks == 1 and prefix.endswith("/files"):
                for name in [one.name for one in super().list_objects(prefix)][::2]:
                    self.delete(name)
            return super().list_objects(prefix)

    objects = Deleting(str(tmp_path / "objects"))
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        view.wait_for(writing.epoch(sales(0)).sequence)
        done = kept.snapshot()
        assert done.files > len(done.manifest.files)
        assert objects.looks >= 2
        assert require_whole(writing, objects) == [1]


@pytest.mark.slow
def test_an_upload_that_takes_too_long_is_given_up(writing: Writing, tmp_path: Path) -> None:
    """What it names might be garbage by now: there is no manifest, and the next try begins anew."""
    objects = Objects(str(tmp_path / "objects"))
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        view.wait_for(writing.epoch(sales(0)).sequence)
        kept.shelf._grace_ms = 1
        kept.taking.request(20)
        until(lambda: kept.told.failures, "the upload to be given up")
        assert "took longer than half of CUTWATER_SNAPSHOT_GRACE_MS" in kept.told.errors()
        assert kept.shelf.sequences() == []
        kept.shelf._grace_ms = GRACE_MS
        until(lambda: kept.told.uploads, "the next try")
        assert require_whole(writing, objects) == [1]


def test_every_point_of_snapshots_is_died_at() -> None:
    assert {point for point, _ in (*UPLOADING, *RESTORING)} == set(POINTS)

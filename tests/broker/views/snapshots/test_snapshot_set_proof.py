"""A parent's state read from snapshots of its milestone: whole and right, or refused with what is wrong."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.object_store import Objects
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.manifest_signature import Keys
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.snapshot_manifest import UNSIGNED, share_name
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.query.pages import Stored
from cutwater.views.snapshots.repositories import SnapshotRepositories
from cutwater.views.snapshots.snapshot_set import StoredSeeds
from support.views.changelogs import Rows, Sold, Writing
from support.views.snapshots import GRACE_MS, keeping, shelf_of

WHY = "the log is cut"
LOG = structlog.get_logger()


def sales(epoch: int) -> list[Sold]:
    return [Sold(f"s{number}", number % 9, epoch * 1_000 + number) for number in range(300)]


def snapshot(
    writing: Writing,
    folder: Path,
    objects: Objects,
    partitions: Partitions | None = None,
    keys: Keys = UNSIGNED,
) -> Milestone:
    """Of the newest milestone, by a view of these partitions."""
    assert writing.last is not None
    with keeping(writing, folder, objects, partitions, near=False, keys=keys) as (view, kept):
        view.wait_for(writing.last.sequence)
        kept.snapshot()
    return writing.last


def seeds(writing: Writing, objects: Objects | None, parent: Milestone, keys: Keys = UNSIGNED) -> StoredSeeds:
    shelves = SnapshotRepositories(objects, GRACE_MS, keys) if objects else None
    return StoredSeeds(shelves, writing.job, parent, WHY)


def pieces(writing: Writing, rows: list[Stored]) -> Rows:
    codec = Codec(writing.job.state_schema)
    return {(window.key, window.start_ms): int(codec.decode(value)["pieces"]) for window, value in rows}


def read(writing: Writing, one: StoredSeeds, folder: Path) -> tuple[list[str], Rows]:
    """The names of the snapshots that were taken, and the rows; none of them comes twice."""
    with one.opened(folder, LOG) as (taken, rows):
        found = list(rows)
    assert len(found) == len({window for window, _ in found})
    assert not folder.exists(), "nothing is left on this disk"
    return [part.repository.names.share for part in taken], pieces(writing, found)


def test_the_rows_of_the_very_milestone_whatever_came_since(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """Not the newest snapshot, nor the nearest: that of the parent; above its horizon."""
    hour_ms = 3_600_000
    writing.epoch(sales(1))
    snapshot(writing, tmp_path / "one", objects)
    writing.epoch([Sold("late", 26, 1), *sales(2)[:100]], watermark_ms=27 * hour_ms)  # the horizon is at hour 3
    parent = snapshot(writing, tmp_path / "one", objects)
    writing.epoch(sales(3))
    snapshot(writing, tmp_path / "one", objects)
    assert parent.horizon_ms == 3 * hour_ms
    found = read(writing, seeds(writing, objects, parent), tmp_path / "seeding")
    assert found == (["all"], writing.by_sequence[2])
    assert 0 < len(found[1]) < 300


@pytest.mark.slow
def test_owners_of_parts_give_it_together(writing: Writing, tmp_path: Path, objects: Objects) -> None:
    """Each the partitions that nobody has given yet; a part alone is refused."""
    parts = [frozenset({0, 2}), frozenset({1, 2})]
    writing.epoch(sales(1))
    parent = snapshot(writing, tmp_path / "one", objects, parts[0])
    with pytest.raises(UsageError, match=r"replace it \(p0-2: it holds a part only\)"):
        seeds(writing, objects, parent).plan()
    snapshot(writing, tmp_path / "two", objects, parts[1])
    found = read(writing, seeds(writing, objects, parent), tmp_path / "seeding")
    assert found == (["p0-2", "p1-2"], writing.by_sequence[1])


def test_what_is_damaged_is_named_and_the_next_one_is_taken(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """A byte of one file: found while it is fetched. Another view's snapshot stands in; without one, a refusal."""
    writing.epoch(sales(1))
    parent = snapshot(writing, tmp_path / "one", objects)
    every = frozenset(range(writing.job.shards.partitions))
    snapshot(writing, tmp_path / "two", objects, every)
    hurt = damage(objects, writing, None)
    one = seeds(writing, objects, parent)
    assert [part.repository.names.share for part in one.plan()] == ["all"], "by its size it is as it should be"
    folder = tmp_path / "seeding"
    assert read(writing, one, folder) == ([share_name(every)], writing.by_sequence[1])
    hurt_too = damage(objects, writing, every)
    with pytest.raises(UsageError) as refused, seeds(writing, objects, parent).opened(folder, LOG):
        pass
    for name in (hurt, hurt_too):
        assert f"{name} is damaged" in str(refused.value)
    assert "'cutwater snapshots create'" in str(refused.value)
    assert not folder.exists()


@pytest.mark.slow
def test_in_place_of_a_damaged_one_another_is_taken_in_an_empty_store(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """What the refusal says: the same view, whole as it is, takes none beside what stands; elsewhere it does."""
    writing.epoch(sales(1))
    parent = snapshot(writing, tmp_path / "one", objects)
    damage(objects, writing, None)
    snapshot(writing, tmp_path / "one", objects)
    with pytest.raises(UsageError, match="set to an empty place"), opened_at(writing, objects, parent, tmp_path):
        pass
    empty = Objects(str(tmp_path / "empty"))
    snapshot(writing, tmp_path / "one", empty)
    assert read(writing, seeds(writing, empty, parent), tmp_path / "seeding") == (["all"], writing.by_sequence[1])


def test_one_that_is_not_signed_is_named_and_the_next_one_is_taken(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """With a key a generation begins from no snapshot that anybody who may write the store can have made."""
    keys = Keys.parse("the-key-of-this-test-" * 2)
    writing.epoch(sales(1))
    parent = snapshot(writing, tmp_path / "one", objects)
    refused_as = r"replace it \(all: the manifest is not signed, and CUTWATER_SNAPSHOT_KEY requires"
    with pytest.raises(UsageError, match=refused_as):
        seeds(writing, objects, parent, keys).plan()
    every = frozenset(range(writing.job.shards.partitions))
    snapshot(writing, tmp_path / "two", objects, every, keys)
    found = read(writing, seeds(writing, objects, parent, keys), tmp_path / "seeding")
    assert found == ([share_name(every)], writing.by_sequence[1])


def opened_at(writing: Writing, objects: Objects, parent: Milestone, folder: Path) -> Any:
    return seeds(writing, objects, parent).opened(folder / "seeding", LOG)


def damage(objects: Objects, writing: Writing, partitions: Partitions | None) -> str:
    """Change a byte of the largest file of a share; its name."""
    shelf = shelf_of(writing, objects, partitions)
    largest = max(shelf.manifest(1).files, key=lambda one: one.size)
    path = objects.path(shelf.names.file(largest.object))
    assert path is not None
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()  # it shares its bytes with the view
    path.write_bytes(data)
    return shelf.names.file(largest.object)


@pytest.mark.slow
def test_a_killed_fetch_is_gone_on_with(writing: Writing, tmp_path: Path, objects: Objects) -> None:
    """What is whole on this disk is used: the store is not needed for it any more."""
    writing.epoch(sales(1))
    parent, folder = snapshot(writing, tmp_path / "one", objects), tmp_path / "seeding"
    with pytest.raises(KeyboardInterrupt), seeds(writing, objects, parent).opened(folder, LOG):
        raise KeyboardInterrupt
    assert folder.exists()
    damage(objects, writing, None)
    assert read(writing, seeds(writing, objects, parent), folder) == (["all"], writing.by_sequence[1])


@pytest.mark.slow
def test_what_lies_there_of_another_milestone_gives_way(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """A try for another parent left it, of a stream that was replaced: nobody has to delete anything."""
    writing.epoch(sales(1))
    earlier, folder = snapshot(writing, tmp_path / "one", objects), tmp_path / "seeding"
    with pytest.raises(KeyboardInterrupt), seeds(writing, objects, earlier).opened(folder, LOG):
        raise KeyboardInterrupt
    writing.epoch(sales(2))
    parent = snapshot(writing, tmp_path / "one", objects)
    assert read(writing, seeds(writing, objects, parent), folder) == (["all"], writing.by_sequence[2])


@pytest.mark.slow
def test_told_to_stop_it_ends_and_leaves_what_is_fetched(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """In the midst of a file, and in the midst of the rows: the next try goes on with the files."""
    writing.epoch(sales(1))
    parent, folder = snapshot(writing, tmp_path / "one", objects), tmp_path / "seeding"
    one = seeds(writing, objects, parent)
    asked = iter([False, False])
    with pytest.raises(Stopped), one.opened(folder, LOG, lambda: next(asked, True)):
        pass
    fetched = [path for path in folder.rglob("*") if path.is_file()]
    assert fetched
    number = itertools.count()
    with pytest.raises(Stopped), one.opened(folder, LOG, lambda: next(number) > 50) as (_, rows):
        list(rows)
    damage(objects, writing, None)
    assert read(writing, one, folder) == (["all"], writing.by_sequence[1])


@pytest.mark.slow
def test_every_refusal_says_why(writing: Writing, tmp_path: Path, objects: Objects) -> None:
    """No store, none of that milestone, a file that is missing, a fork's milestone of that number."""
    writing.epoch(sales(1))
    parent = snapshot(writing, tmp_path / "one", objects)
    later = writing.epoch(sales(2))
    assert f"cannot continue from {parent.token}: {WHY}; and no snapshot store is configured" in refused(
        writing, None, parent
    )
    assert f"{objects.place} holds no snapshot of it" in refused(writing, objects, later)
    assert "(all: its g1-local-00000000:1 is another milestone" in refused(
        writing, objects, replace(parent, digest=parent.digest + 1)
    )
    shelf = shelf_of(writing, objects)
    gone = shelf.names.file(shelf.manifest(1).files[0].object)
    objects.delete(gone)
    assert f"{gone} is missing" in refused(writing, objects, parent)
    manifest = objects.path(shelf.names.manifest(1))
    assert manifest is not None
    manifest.write_bytes(b"{}")
    assert "(all: this is not a manifest of a snapshot)" in refused(writing, objects, parent)


def refused(writing: Writing, objects: Objects | None, parent: Milestone) -> str:
    with pytest.raises(UsageError) as error:
        seeds(writing, objects, parent).plan()
    return str(error.value)


@pytest.mark.slow
def test_a_store_that_is_away_is_no_refusal(writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold the snapshot: exit code 4, and the same may be asked again."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobodys-key")
    away = Objects("s3://bucket/prefix", "http://127.0.0.1:9", retries=0)
    parent = writing.epoch(sales(1))
    with pytest.raises(CutwaterError) as error:
        seeds(writing, away, parent).plan()
    assert error.value.exit_code == UnavailableError.exit_code, error.value

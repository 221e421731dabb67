"""Snapshots of a view, on a real broker, real RocksDB and a folder as the object store."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from cutwater.adapters.object_store import Objects
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol import topics
from cutwater.core.state.snapshot_manifest import MANIFEST_BYTES_MAX, Manifest, Policy
from cutwater.views.snapshots.restore import TRIES
from cutwater.views.snapshots.scheduler import REQUESTS_MAX
from cutwater.views.store.store import Store
from support.views.changelogs import Sold, Writing, following, now_ms, until
from support.views.snapshots import Told, keeping, shelf_of

ROWS = 2_000


def sales(epoch: int, count: int = ROWS) -> list[Sold]:
    return [Sold(f"s{number}", number % 9, epoch * 1_000 + number) for number in range(count)]


def three_snapshots(writing: Writing, folder: Path, objects: Objects) -> None:
    """Of the milestones 1, 2 and 3; the view is gone afterwards."""
    with keeping(writing, folder, objects) as (view, kept):
        for epoch in range(3):
            view.wait_for(writing.epoch(sales(epoch, ROWS - epoch)).sequence)
            kept.snapshot()
        assert kept.shelf.sequences() == [3, 2, 1]


def test_a_view_begins_from_its_snapshot_and_goes_on(writing: Writing, tmp_path: Path, objects: Objects) -> None:
    """From another machine: rows equal at the snapshot's milestone, and at those behind it, by steps."""
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        view.wait_for(writing.epoch(sales(0)).sequence)
        view.wait_for(writing.epoch(sales(1, 50)).sequence)
        done = kept.snapshot()
        assert (done.manifest.sequence, done.files) == (2, len(done.manifest.files))
    writing.epoch(sales(2, 30))
    with keeping(writing, tmp_path / "two", objects) as (view, kept):
        view.wait_for(3)
        assert view.rows() == (3, writing.by_sequence[3])
        assert kept.restored is not None
        assert (kept.restored.manifest.sequence, kept.restored.passed_over) == (2, 0)
        assert [one.sequence for one, _ in view.seen.done] == [3], "only the tail was read"
        assert sum(done.records for _, done in view.seen.done) == 30
        view.wait_for(writing.epoch(sales(3, 7)).sequence)
        assert view.rows() == (4, writing.by_sequence[4])
    assert not list(tmp_path.glob("*.restoring"))


@pytest.mark.slow
def test_the_snapshot_itself_is_shown_before_anything_is_read(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """I1: a view that has nothing but its snapshot shows exactly that milestone."""
    three_snapshots(writing, tmp_path / "one", objects)
    with keeping(writing, tmp_path / "two", objects) as (view, _):
        view.wait_for(3)
        assert view.rows() == (3, writing.by_sequence[3])
        assert view.seen.done == []


def test_the_time_of_the_next_snapshot_follows_the_objective(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """The first milestones say that the objective is out of reach: the next snapshot is due an hour sooner."""
    with keeping(writing, tmp_path / "one", objects, recovery_ms=5_000) as (view, kept):
        due_ms = kept.taking._next_ms
        for epoch in range(3):
            view.wait_for(writing.epoch(sales(epoch)).sequence)
        until(lambda: len(kept.decisions) == 2, "the decision")
        assert [dict(one.sets) for one in kept.decisions] == [
            {"snapshot_every_ms": 3_600_000},
            {"snapshot_every_ms": 30_000},
        ]
        assert kept.taking._next_ms == due_ms - 3_570_000


def test_a_second_snapshot_uploads_new_files_only(writing: Writing, tmp_path: Path, objects: Objects) -> None:
    """Incremental: tables that a kept snapshot holds are named again, and neither hashed nor written."""
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        view.wait_for(writing.epoch(sales(0)).sequence)
        first = kept.snapshot()
        hashed = kept.taking._hashes.computed
        view.wait_for(writing.epoch(sales(1, 20)).sequence)
        second = kept.snapshot()
        tables = {one.object for one in first.manifest.files if one.name.endswith(".sst")}
        assert tables
        assert tables <= second.manifest.objects
        assert second.files == len(second.manifest.objects - first.manifest.objects)
        assert second.files < len(second.manifest.files)
        others = len(second.manifest.files) - len(tables)
        assert 0 < kept.taking._hashes.computed - hashed <= others, "no table is read twice"
        assert len(kept.shelf.stored()) == first.files + second.files


@pytest.mark.slow
def test_a_snapshot_that_is_due_waits_for_files_that_are_sorted_and_one_that_is_asked_for_does_not(
    writing: Writing, tmp_path: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a load all files are written anew: the next snapshot would share none with this one."""
    sorting, asked = [True], []
    monkeypatch.setattr(Store, "sorting", property(lambda _: asked.append(True) or sorting[0]))
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        view.wait_for(writing.epoch(sales(0)).sequence)
        kept.taking._next_ms = 0
        until(lambda: len(asked) > 2, "it to be due")
        assert kept.told.uploads == []
        kept.snapshot()
        view.wait_for(writing.epoch(sales(1)).sequence)
        kept.taking._next_ms, before = 0, len(asked)
        until(lambda: len(asked) > before + 2, "it to be due")
        assert len(kept.told.uploads) == 1
        sorting[0] = False
        until(lambda: len(kept.told.uploads) == 2, "the snapshot that was due")


@pytest.mark.slow
def test_a_file_that_somebody_deleted_is_uploaded_again(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """A kept snapshot names it, and the last look before the manifest sees that it has gone."""
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        view.wait_for(writing.epoch(sales(0)).sequence)
        table = max(kept.snapshot().manifest.files, key=lambda one: (one.name.endswith(".sst"), one.size))
        objects.delete(kept.shelf.names.file(table.object))
        view.wait_for(writing.epoch(sales(1, 20)).sequence)
        second = kept.snapshot().manifest
        assert table.sha256 in {one.sha256 for one in second.files}
        assert table.object not in second.objects
    with keeping(writing, tmp_path / "two", objects) as (view, kept):
        view.wait_for(2)
        assert kept.restored is not None
        assert kept.restored.manifest.sequence == 2


@pytest.mark.slow
def test_a_manifest_of_a_replaced_stream_is_not_taken_for_ours(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """The number is taken: it is said, nothing is overwritten, and the next one warns of newer ones."""
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        view.wait_for(writing.epoch(sales(0)).sequence)
        mine = kept.snapshot().manifest
        for sequence in (2, 9):
            other = Manifest(**{**vars(mine), "sequence": sequence, "record": b"another stream's"})
            objects.put(kept.shelf.names.manifest(sequence), other.encode())
        view.wait_for(writing.epoch(sales(1)).sequence)
        kept.taking.request(20)
        until(lambda: kept.told.failures, "the upload to be refused")
        assert "of another commit stream" in kept.told.errors()
        view.wait_for(writing.epoch(sales(2)).sequence)
        kept.snapshot()
        until(lambda: [text for _, text, _ in kept.told.lines if "newer snapshots" in text], "the warning")


@pytest.mark.slow
def test_a_snapshot_at_or_before_a_target(writing: Writing, tmp_path: Path, objects: Objects) -> None:
    """The newest that is not above it."""
    three_snapshots(writing, tmp_path / "one", objects)
    with keeping(writing, tmp_path / "two", objects, target=2) as (view, kept):
        view.wait_for(3)
        assert kept.restored is not None
        assert kept.restored.manifest.sequence == 2
        assert view.rows() == (3, writing.by_sequence[3])


@pytest.mark.slow
def test_an_old_snapshot_is_followed_by_a_jump(writing: Writing, tmp_path: Path, objects: Objects) -> None:
    """Containment holds for what comes behind a snapshot, too: rows that compaction may have taken are no step."""
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        view.wait_for(writing.epoch(sales(0)).sequence)
        kept.snapshot()
    for epoch in (1, 2):
        writing.epoch(sales(epoch, 50 * epoch))
    two_days_later = now_ms() + 2 * 86_400_000
    with keeping(writing, tmp_path / "two", objects, clock=lambda: two_days_later) as (view, kept):
        view.wait_for(3)
        assert kept.restored is not None
        assert [one.sequence for one, _ in view.seen.done] == [3]
        assert sum(done.records for _, done in view.seen.done) == 150, "the tail only"
        assert view.rows() == (3, writing.by_sequence[3])


def flip(file: Path) -> None:
    """A bit of what RocksDB does not look at when it opens a table: only the digest tells."""
    data = bytearray(file.read_bytes())
    data[max(0, len(data) - 1_500)] ^= 1
    file.write_bytes(data)


def on_another_disk(*_places: object) -> None:
    raise OSError(errno.EXDEV, "Invalid cross-device link")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a flipped byte": flip,
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "missing": Path.unlink,
}


@pytest.mark.variations
@pytest.mark.parametrize(
    ("what", "links"), [("file", True), ("file", False), ("manifest", True)], ids=["linked", "copied", "manifest"]
)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_takes_the_next_older_one(
    writing: Writing, tmp_path: Path, objects: Objects, monkeypatch: Any, what: str, links: bool, damage: str
) -> None:
    """It is said in the log, counted, and the view ends up exact all the same."""
    if not links:
        monkeypatch.setattr(os, "link", on_another_disk)
    three_snapshots(writing, tmp_path / "one", objects)
    shelf = shelf_of(writing, objects)
    newest, older = shelf.manifest(3), shelf.manifest(2)
    root = Path(objects.place)
    if what == "file":
        (hurt,) = [one for one in newest.files if one.name.endswith(".sst") and one.object not in older.objects]
        place = root / shelf.names.file(hurt.object)
    else:
        place = root / shelf.names.manifest(3)
    DAMAGES[damage](place)
    with keeping(writing, tmp_path / "two", objects) as (view, kept):
        view.wait_for(3)
        assert view.rows() == (3, writing.by_sequence[3])
        assert kept.restored is not None
        assert kept.restored.manifest.sequence == 2
        gone = (what, damage) == ("manifest", "missing")  # it is not listed: nobody can know of it
        assert kept.told.damaged == kept.restored.passed_over == (0 if gone else 1)
        assert (what, damage) != ("file", "a flipped byte") or "its bytes are not those of" in kept.told.errors()
        assert gone or ("snapshot not usable" in kept.told.errors() and "'sequence': 3" in kept.told.errors())


def forged(manifest: Path, record: bytes) -> None:
    """With another record, and the right checksum."""
    manifest.write_bytes(replace(Manifest.decode(manifest.read_bytes()), record=record).encode())


HOSTILE: dict[str, Callable[[Path], object]] = {
    "a damaged record": lambda one: forged(one, Manifest.decode(one.read_bytes()).record[:-9]),
    "nesting without end": lambda one: one.write_text("[" * 200_000),
    "an infinite number": lambda one: one.write_text(
        one.read_text().replace('"sequence": 3', '"sequence": 1e999')
    ),
    "no record": lambda one: forged(one, b""),
    "more than any has": lambda one: os.truncate(one, MANIFEST_BYTES_MAX + 1),
}


@pytest.mark.slow
@pytest.mark.variations
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_manifest_takes_the_next_older_one(
    writing: Writing, tmp_path: Path, objects: Objects, hostile: str
) -> None:
    """It says nothing of the other snapshots in the store, and ends nothing."""
    three_snapshots(writing, tmp_path / "one", objects)
    HOSTILE[hostile](Path(objects.place) / shelf_of(writing, objects).names.manifest(3))
    with keeping(writing, tmp_path / "two", objects) as (view, kept):
        view.wait_for(3)
        assert view.rows() == (3, writing.by_sequence[3])
        assert kept.restored is not None
        assert (kept.restored.manifest.sequence, kept.told.damaged) == (2, 1)
        assert "snapshot not reached" not in kept.told.errors()


@pytest.mark.slow
def test_nothing_usable_leaves_the_changelog(writing: Writing, tmp_path: Path, objects: Objects) -> None:
    """Every snapshot damaged: the view is restored from the changelog, exact."""
    three_snapshots(writing, tmp_path / "one", objects)
    for file in (Path(objects.place) / shelf_of(writing, objects).names.files).iterdir():
        if file.stat().st_size:
            flip(file)
    with keeping(writing, tmp_path / "two", objects) as (view, kept):
        view.wait_for(3)
        assert view.rows() == (3, writing.by_sequence[3])
        assert (kept.restored, kept.told.damaged) == (None, 3)
        assert [one.sequence for one, _ in view.seen.done] == [3], "by a jump"


@pytest.mark.slow
@pytest.mark.parametrize("behind", [0, 1])
def test_a_snapshot_of_another_stream_is_passed_over(
    writing: Writing, tmp_path: Path, objects: Objects, behind: int
) -> None:
    """A manifest whose milestone is not what stands on the commit stream is no past of this view.

    Neither where another record stands in its place, nor where a transaction's marker does.
    """
    three_snapshots(writing, tmp_path / "one", objects)
    shelf = shelf_of(writing, objects)
    three, two = shelf.manifest(3), shelf.manifest(2)
    forged = Manifest(**{**vars(three), "offset": two.offset + behind})
    (Path(objects.place) / shelf.names.manifest(3)).write_bytes(forged.encode())
    with keeping(writing, tmp_path / "two", objects) as (view, kept):
        view.wait_for(3)
        assert kept.restored is not None
        assert kept.restored.manifest.sequence == 2
        assert "is not on the commit stream" in kept.told.errors()
        assert view.rows() == (3, writing.by_sequence[3])


@pytest.mark.slow
def test_a_stream_that_was_pruned_past_a_snapshot_lets_it_be(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """It cannot be asked for any more: it is believed, and the next one's parent hash must be its own."""
    three_snapshots(writing, tmp_path / "one", objects)
    manifest = shelf_of(writing, objects).manifest(3)
    writing.epoch([Sold("after", 1, 1)])
    admin = AdminClient(writing.cluster.librdkafka())
    place = TopicPartition(topics.milestones(writing.job.name), 0, manifest.offset + 1)
    for deleted in admin.delete_records([place]).values():
        deleted.result(20)
    with keeping(writing, tmp_path / "two", objects, near=False) as (view, kept):
        view.wait_for(4)
        assert kept.restored is not None
        assert kept.restored.manifest.sequence == 3
        assert view.rows() == (4, writing.by_sequence[4])


@pytest.mark.slow
def test_a_manifest_that_names_another_milestone_than_its_files(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """The files of 2 under the name of 3: opened, they are at 2, and that is seen before anybody reads them."""
    three_snapshots(writing, tmp_path / "one", objects)
    shelf = shelf_of(writing, objects)
    forged = Manifest(**{**vars(shelf.manifest(3)), "files": shelf.manifest(2).files})
    (Path(objects.place) / shelf.names.manifest(3)).write_bytes(forged.encode())
    with keeping(writing, tmp_path / "two", objects) as (view, kept):
        view.wait_for(3)
        assert kept.restored is not None
        assert (kept.restored.manifest.sequence, kept.told.damaged) == (2, 1)
        assert view.rows() == (3, writing.by_sequence[3])


@pytest.mark.slow
def test_a_view_that_has_a_milestone_is_never_replaced(writing: Writing, tmp_path: Path, objects: Objects) -> None:
    """Newer snapshots of somebody else do not touch a store that is there."""
    view_of_one = tmp_path / "one"
    writing.epoch(sales(0))
    with following(writing.cluster, writing.job, view_of_one) as view:
        view.wait_for(1)
    three_snapshots_of_others = tmp_path / "other"
    with keeping(writing, three_snapshots_of_others, objects) as (view, kept):
        view.wait_for(writing.epoch(sales(1)).sequence)
        kept.snapshot()
    with keeping(writing, view_of_one, objects) as (view, kept):
        assert view.first_shown.sequence == 1
        view.wait_for(2)
        assert kept.restored is None
        assert [one.sequence for one, _ in view.seen.done] == [2]


@pytest.mark.slow
def test_the_near_tier_is_enough_when_the_store_is_away(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """The view's folder is lost, and so is the object store: the checkpoint beside it is taken, damage seen."""
    three_snapshots(writing, tmp_path / "one", objects)
    away = Objects("s3://nobody/there", "http://127.0.0.1:9", anonymous=True, retries=0)
    (tmp_path / "one").rename(tmp_path / "lost")
    with keeping(writing, tmp_path / "one", away) as (view, kept):
        view.wait_for(3)
        assert view.rows() == (3, writing.by_sequence[3])
        assert kept.restored is not None
        assert (kept.restored.tier, kept.restored.manifest.sequence) == ("this disk", 3)
        assert "snapshots not listed" in kept.told.errors()
        assert kept.near.sequences() == [3, 2]
    three, two = ({one.name for one in kept.near.manifest(number).files} for number in (3, 2))
    (table,) = [one for one in three - two if one.endswith(".sst")]
    flip(kept.near.place(3) / table)
    (tmp_path / "one").rename(tmp_path / "lost again")
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        view.wait_for(3)
        assert view.rows() == (3, writing.by_sequence[3])
        assert kept.restored is not None
        assert (kept.restored.tier, kept.restored.passed_over) == (objects.place, 1)
        assert f"{table} is damaged: it does not match the manifest" in kept.told.errors()


@pytest.mark.slow
def test_a_store_that_is_away_stops_nothing(writing: Writing, tmp_path: Path) -> None:
    """Neither start nor following: it is said, counted, and tried again until the store is there."""
    place = tmp_path / "objects"
    place.write_text("a file stands where the folder should be")
    with keeping(writing, tmp_path / "one", Objects(str(place))) as (view, kept):
        view.wait_for(writing.epoch(sales(0)).sequence)
        assert not kept.told.well
        kept.taking.request(20)
        until(lambda: kept.told.failures == 1, "the upload to fail")
        view.wait_for(writing.epoch(sales(1)).sequence)
        assert view.rows() == (2, writing.by_sequence[2])
        place.unlink()
        until(lambda: kept.told.uploads, "the upload to be tried again")
        assert kept.told.well
        assert kept.shelf.sequences() == [1]


@pytest.mark.slow
def test_a_store_that_comes_and_goes_is_asked_on_as_long_as_files_come(
    writing: Writing, tmp_path: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage after every other file: more of them than tries, and the snapshot is restored all the same."""
    monkeypatch.setattr("cutwater.views.snapshots.restore.PAUSE_S", 0.0)
    monkeypatch.setattr("cutwater.views.snapshots.restore.FILES_AT_ONCE", 1)
    three_snapshots(writing, tmp_path / "one", objects)

    class ComesAndGoes(Objects):
        asked = 0
        lasts = 1
        """How many requests fail in a row."""

        def path(self, _name: str) -> None:
            """It is no folder whose files could be linked."""

        def chunks(self, name: str, size: int) -> Iterator[bytes]:
            self.asked += 1
            if self.asked % (2 + self.lasts) >= 2:
                raise UnavailableError("the store has gone")
            yield from super().chunks(name, size)

    shaky = ComesAndGoes(objects.place)
    with keeping(writing, tmp_path / "two", shaky, near=False) as (view, kept):
        view.wait_for(3)
        assert kept.restored is not None
        assert again(kept.told) > TRIES
        assert view.rows() == (3, writing.by_sequence[3])
    gone = ComesAndGoes(objects.place)
    gone.lasts = 1_000
    with keeping(writing, tmp_path / "three", gone, near=False) as (view, kept):
        view.wait_for(3)
        assert kept.restored is None
        assert 0 < again(kept.told) <= TRIES, "bounded, and then the changelog"
        assert not kept.told.well
        assert view.rows() == (3, writing.by_sequence[3])


def again(told: Told) -> int:
    """How often a download was begun once more."""
    return sum(text == "snapshot not reached, trying again" for _, text, _ in told.lines)


@pytest.mark.slow
def test_requests_for_a_snapshot_leave_room_for_reads(writing: Writing, tmp_path: Path, objects: Objects) -> None:
    """Each waits in a thread that could answer a read: more than a few are refused at once."""
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        refused: list[str] = []

        def ask() -> None:
            try:
                kept.taking.request(2)
            except UnavailableError as error:
                refused.append(str(error))

        asking = [threading.Thread(target=ask) for _ in range(REQUESTS_MAX + 3)]  # there is no milestone yet
        for one in asking:
            one.start()
        until(lambda: len(refused) == 3, "those that are too many")
        assert all("wait for a snapshot already" in one for one in refused)
        for one in asking:
            one.join(10)
        assert len(refused) == REQUESTS_MAX + 3
        view.wait_for(writing.epoch(sales(0)).sequence)
        assert kept.snapshot().manifest.sequence == 1


@pytest.mark.slow
def test_a_pruner_that_stood_still_leaves_what_another_owner_wrote(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """It reads again right before it deletes; a number that was retired is not written anew meanwhile."""
    three_snapshots(writing, tmp_path / "one", objects)

    class Meanwhile(Objects):
        def put(self, name: str, data: bytes) -> None:
            super().put(name, data)
            if "/retired/" in name:  # another owner, between the two requests of a retirement
                super().put(name.replace("/retired/", "/manifests/"), anew[name].encode())

    names = shelf_of(writing, objects).names
    known = {number: shelf_of(writing, objects).manifest(number) for number in (1, 2)}
    anew = {names.retired_manifest(at): replace(one, created_ms=7) for at, one in known.items()}
    shelf = shelf_of(writing, Meanwhile(objects.place))
    assert shelf.prune(Policy(1, 0, 0), now_ms()).retired == [1, 2]
    assert [shelf.manifest(at).created_ms for at in (1, 2)] == [7, 7]
    objects.delete(names.manifest(2))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnavailableError, match="sequence 2 was retired by another owner"):
        shelf.upload(replace(known[2], files=()), tmp_path / "empty", lambda: None, now_ms)
    assert shelf.sequences() == [3, 1]


@pytest.mark.slow
def test_a_number_that_was_retired_is_given_up_and_the_store_is_not_away(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """However often it is tried, it cannot be there; the next milestone's is taken without waiting for a retry."""
    writing.epoch(sales(0))
    names = shelf_of(writing, objects).names
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        view.wait_for(1)
        retired = kept.snapshot().manifest
    objects.put(names.retired_manifest(1), retired.encode())
    objects.delete(names.manifest(1))
    with keeping(writing, tmp_path / "two", objects) as (view, kept):
        view.wait_for(1)
        kept.told.well = False
        kept.taking.request(20)
        until(lambda: kept.told.failures, "the upload")
        until(lambda: kept.taking._waiting is None, "it to be given up")
        assert "was retired by another owner" in kept.told.errors()
        assert kept.told.well, "the store answers"
        view.wait_for(writing.epoch(sales(1)).sequence)
        assert kept.snapshot().manifest.sequence == 2
        assert kept.told.failures == 1


@pytest.mark.slow
def test_views_of_some_partitions_have_snapshots_of_their_own(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """Each share by its name; a view that holds others begins from the changelog."""
    part = frozenset({0, 2})
    with keeping(writing, tmp_path / "one", objects, part) as (view, kept):
        view.wait_for(writing.epoch(sales(0)).sequence)
        assert kept.snapshot().manifest.partitions == part
        rows = view.rows()
    with keeping(writing, tmp_path / "two", objects, part) as (view, kept):
        view.wait_for(1)
        assert (view.rows(), kept.restored is not None) == (rows, True)
    with keeping(writing, tmp_path / "two", objects) as (view, kept):
        assert view.store.emptied
        view.wait_for(1)
        assert (view.rows()[1], kept.restored) == (writing.by_sequence[1], None)
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        view.wait_for(1)
        assert (view.rows()[1], kept.restored) == (writing.by_sequence[1], None)
        assert kept.told.damaged == 0, "the checkpoint beside it is sound, and of another view"


@pytest.mark.slow
def test_retention_deletes_what_nobody_names_after_its_grace(
    writing: Writing, tmp_path: Path, objects: Objects
) -> None:
    """Two of four are kept; their files stay, those of the others go a grace period after they were retired."""
    with keeping(writing, tmp_path / "one", objects, policy=Policy(2, 0, 0)) as (view, kept):
        for epoch in range(4):
            view.wait_for(writing.epoch(sales(epoch)).sequence)
            last = kept.snapshot()
        until(lambda: len(kept.told.prunings) == 4, "the pruning")
        shelf = kept.shelf
        assert shelf.sequences() == [4, 3]
        assert sum(len(one.retired) for one in kept.told.prunings) == 2
        assert sum(one.deleted for one in kept.told.prunings) == 0, "the grace period has not passed"
    later = last.manifest.created_ms + 2 * 3_600_000
    needed = shelf.manifest(4).objects | shelf.manifest(3).objects
    assert set(shelf.stored()) > needed
    planned = shelf.prune(Policy(2, 0, 0), later, dry_run=True)
    done = shelf.prune(Policy(2, 0, 0), later)
    assert (planned.deleted, planned.bytes) == (done.deleted, done.bytes)
    assert done.deleted > 0
    assert done.forgotten == 2
    assert set(shelf.stored()) == needed
    assert shelf.prune(Policy(2, 0, 0), later).deleted == 0
    with keeping(writing, tmp_path / "two", objects) as (view, kept):
        view.wait_for(4)
        assert kept.restored is not None
        assert view.rows() == (4, writing.by_sequence[4])

"""`cutwater restore` on a real broker: a folder at one milestone, or a refusal in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.object_store import Objects
from cutwater.cli.main import app
from cutwater.cli.options import settings_beside
from cutwater.cli.report import iso
from cutwater.core.state.backlog import Entry
from cutwater.core.state.partition_share import held_by, owners
from cutwater.core.state.selection import Selection
from cutwater.local.running_file import describe_self
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.query.view import View
from cutwater.views.snapshots.object_store_tier import SnapshotRepository
from cutwater.views.store.folders import folder_of
from cutwater.views.store.key_layout import segment_ms
from cutwater.views.store.store import Store
from support.cli.jsonshapes import parsed
from support.views.changelogs import GENERATION, HOUR_MS, Rows, Sold, Writing, following, make_job, now_ms
from support.views.snapshots import keeping, shelf_of
from unit.local.test_running_file import STACK

SHOPS = [f"s{number}" for number in range(60)]


class Command:
    """The verb on one job."""

    def __init__(self, writing: Writing, job_file: Path, data: Path) -> None:
        self.writing, self.job_file, self.data = writing, job_file, data

    def __call__(self, *arguments: str) -> Result:
        fixed = ["--data-dir", str(self.data), "--bootstrap-servers", self.writing.cluster.bootstrap]
        return CliRunner().invoke(app, ["restore", str(self.job_file), *fixed, *arguments])

    def json(self, *arguments: str) -> dict[str, Any]:
        done = self(*arguments, "--json")
        assert done.exit_code == 0, done.output
        found: dict[str, Any] = parsed(["restore"], done.stdout)
        return found

    @property
    def folder(self) -> Path:
        return folder_of(self.data, self.writing.job.name, GENERATION)

    def rows(
        self, partitions: frozenset[int] | None = None, selection: Selection | None = None
    ) -> tuple[int, Rows]:
        """What the folder holds."""
        job = self.writing.job
        store = Store(self.folder, job, GENERATION, partitions=partitions, may_empty=False, selection=selection)
        view = View(store, job)
        try:
            milestone, rows = view.rows()
            return milestone.sequence, {(row["key"], row["window_start"]): row["pieces"] for row in rows}
        finally:
            view.close()


@pytest.fixture
def restore(broker: Any, tmp_path: Path) -> Iterator[Command]:
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    for epoch in range(3):
        writing.epoch(Sold(shop, 1 + epoch, 10 * epoch + at) for at, shop in enumerate(SHOPS))
    yield Command(writing, path, tmp_path / "data")
    writing.close()


def test_a_dry_run_says_what_would_be_read_and_makes_nothing(restore: Command) -> None:
    told = restore.json("--dry-run")
    assert (told["token"], told["records_max"], told["restored"]) == ("g1-local-00000000:3", 180, None)
    assert sum(one["end"] - one["first"] for one in told["partitions"]) == 180
    assert not restore.data.exists()
    assert "180 records at most" in restore("--dry-run").output


def test_brokers_are_those_of_the_stack_that_runs_the_job(
    restore: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any folder, as EXPORTING.md shows it; a stack of another job does not count."""
    monkeypatch.setenv("CUTWATER_DATA_DIR", str(tmp_path / "stack"))
    monkeypatch.delenv("CUTWATER_BOOTSTRAP_SERVERS", raising=False)
    (tmp_path / "stack").mkdir()
    pid, started = describe_self()
    stack = replace(
        STACK,
        pid=pid,
        started=started,
        job=restore.writing.job.name,
        bootstrap_servers=restore.writing.cluster.bootstrap,
        data_dir=str(tmp_path / "stack"),
    )
    stack.write()
    asked = ["restore", str(restore.job_file), "--data-dir", str(restore.data), "--dry-run", "--json"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert parsed(["restore"], done.stdout)["token"] == "g1-local-00000000:3"
    other = settings_beside("another", restore.data, None)
    assert other.cluster.bootstrap != stack.bootstrap_servers
    assert settings_beside(stack.job, None, "127.0.0.1:1").cluster.bootstrap == "127.0.0.1:1", "the option wins"


def test_the_newest_and_then_what_came_since(restore: Command) -> None:
    """A folder that is there is brought on, not made anew; a view that follows goes on from it."""
    assert restore.json()["restored"]["records"] == 180
    assert restore.rows() == (3, restore.writing.by_sequence[3])
    assert restore.json()["restored"] is None
    assert "already holds this milestone" in restore().output
    restore.writing.epoch([Sold("new", 9, 1)])
    told = restore.json()
    assert (told["from"], told["restored"]["records"]) == ("g1-local-00000000:3", 1)
    with following(restore.writing.cluster, restore.writing.job, restore.folder) as view:
        assert view.rows() == (4, restore.writing.by_sequence[4])
        last = restore.writing.epoch([Sold("newer", 9, 1)])
        view.wait_for(last.sequence)
        assert view.rows() == (5, restore.writing.by_sequence[5])


def test_an_older_milestone(restore: Command) -> None:
    """By its token; then only forwards."""
    restore.json("--to", "g1-local-00000000:2")
    assert restore.rows() == (2, restore.writing.by_sequence[2])
    refused = restore("--to", "g1-local-00000000:1")
    assert refused.exit_code == 2
    assert "views do not go back" in refused.output
    restore.json()
    assert restore.rows() == (3, restore.writing.by_sequence[3])


def test_some_partitions(restore: Command) -> None:
    restore.json("--partitions", "0,2")
    part = frozenset({0, 2})
    whole = restore.writing.by_sequence[3]
    assert restore.rows(part) == (
        3,
        {at: one for at, one in whole.items() if restore.writing.partition(at[0]) in part},
    )


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--dry-run", "--json"])
def test_a_view_of_other_partitions_stays_as_it_is(restore: Command, option: str) -> None:
    """Refused, with both named: a rehydrator would empty it, which nobody has asked for here."""
    restore.json()
    refused = restore("--partitions", "0,2", option)
    assert refused.exit_code == 2
    assert "holds the partitions of all, not 0, 2" in " ".join(refused.output.split())
    assert restore.rows() == (3, restore.writing.by_sequence[3])


def test_a_dry_run_over_a_folder(restore: Command) -> None:
    restore.json("--to", "g1-local-00000000:2")
    told = restore.json("--dry-run")
    assert (told["from"], told["records_max"]) == ("g1-local-00000000:2", 60)
    assert restore.rows() == (2, restore.writing.by_sequence[2])


@pytest.mark.slow
def test_of_the_partitions_that_the_settings_name(restore: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a rehydrator that shares them is brought on by the same settings."""
    peers = ["http://a:1", "http://b:1"]
    monkeypatch.setenv("CUTWATER_PEERS", "http://a:1/, http://b:1")
    monkeypatch.setenv("CUTWATER_PEER", "http://b:1/")
    part = held_by("http://b:1", owners(peers, 3))
    assert {one["partition"] for one in restore.json()["partitions"]} == part
    assert restore.rows(part)[0] == 3


@pytest.mark.slow
def test_a_part_of_a_later_milestone_is_not_taken_for_an_earlier_one(restore: Command) -> None:
    """A restore that was broken off may hold rows above the cut that is wanted now."""
    folder, job = restore.folder, restore.writing.job
    restore.json("--to", "g1-local-00000000:1")
    store = Store(folder, job, GENERATION)
    last = restore.writing.last
    assert last is not None
    store.begin(Entry(last, protocol_records.encode(last), 2))
    store.close()
    refused = restore("--to", "g1-local-00000000:2")
    assert refused.exit_code == 2
    assert "holds a part of g1-local-00000000:3" in " ".join(refused.output.split())
    restore.json()
    assert restore.rows() == (3, restore.writing.by_sequence[3])


@pytest.fixture
def shelf(restore: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SnapshotRepository:
    """Snapshots of the milestones 3 and 4, of a view that is gone."""
    writing, place = restore.writing, tmp_path / "snapshots"
    monkeypatch.setenv("CUTWATER_SNAPSHOTS", str(place))
    objects = Objects(str(place))
    with keeping(writing, tmp_path / "view", objects) as (view, kept):
        view.wait_for(3)
        kept.snapshot()
        writing.epoch([Sold("later", 8, 1)])
        view.wait_for(4)
        kept.snapshot()
    return shelf_of(writing, objects)


@pytest.mark.slow
def test_from_a_snapshot_and_what_came_since(restore: Command, shelf: SnapshotRepository) -> None:
    """Only the rest is read of the changelog; without snapshots all of it is."""
    restore.writing.epoch([Sold("latest", 9, 1)])
    told = restore.json("--dry-run")
    assert (told["snapshot"]["token"], told["records_max"]) == ("g1-local-00000000:4", 1)
    assert restore.json("--dry-run", "--no-snapshots")["records_max"] == 182
    assert restore.json()["restored"]["records"] == 1
    assert restore.rows() == (5, restore.writing.by_sequence[5])


@pytest.mark.slow
def test_an_old_milestone_that_only_a_snapshot_holds(restore: Command, shelf: SnapshotRepository) -> None:
    """Compaction has overtaken it: what the changelog could give is refused, and the snapshot has it."""
    old = now_ms() - 48 * HOUR_MS
    writing = restore.writing
    last = writing.epoch([Sold("old", 1, 1)], written_ms=old, epoch_started_ms=old)
    writing.epoch([Sold("new", 1, 1)])
    refused = restore("--to", "g1-local-00000000:4", "--no-snapshots")
    assert refused.exit_code == 2
    assert "g1-local-00000000:4 cannot be restored" in " ".join(refused.output.split())
    told = restore.json("--to", "g1-local-00000000:4")
    assert told["snapshot"]["token"] == told["token"] == "g1-local-00000000:4"
    assert restore.rows() == (4, writing.by_sequence[4])
    assert last.sequence == 5


@pytest.fixture
def lacking(restore: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Snapshots of the milestones 3 and 4; from the second windows were evicted, up to the moment returned."""
    writing, place = restore.writing, tmp_path / "snapshots"
    monkeypatch.setenv("CUTWATER_SNAPSHOTS", str(place))
    lower_ms = segment_ms(writing.job)
    with keeping(writing, tmp_path / "view", Objects(str(place)), evict=lambda _: lower_ms) as (view, kept):
        view.wait_for(3)
        kept.snapshot()
        writing.epoch([Sold("later", 8, 1)])
        view.wait_for(4)
        kept.snapshot()
    return lower_ms


@pytest.mark.slow
def test_what_was_evicted_from_a_snapshot_is_read(restore: Command, lacking: int) -> None:
    """The changelog has it still, above an older snapshot or alone."""
    told = restore.json("--dry-run")
    assert (told["snapshot"]["token"], told["lower_bound"]) == ("g1-local-00000000:3", None)
    assert told["snapshot_passed_over"]["token"] == "g1-local-00000000:4"
    assert told["snapshot_passed_over"]["lower_bound"] == iso(lacking)
    said = " ".join(restore().output.split())
    assert f"snapshot g1-local-00000000:4 is not used: windows that end by {iso(lacking)} were evicted" in said
    assert restore.rows() == (4, restore.writing.by_sequence[4])


@pytest.mark.slow
def test_what_was_evicted_and_cannot_be_had_is_told(restore: Command, lacking: int) -> None:
    """Only the snapshot holds the milestone: before, after, and once the folder is there."""
    old, writing = now_ms() - 48 * HOUR_MS, restore.writing
    writing.epoch([Sold("old", 1, 1)], written_ms=old, epoch_started_ms=old)
    to = ("--to", "g1-local-00000000:4")
    for arguments in ([*to, "--dry-run"], to, to):
        told = restore.json(*arguments)
        assert (told["snapshot_passed_over"], told["lower_bound"]) == (None, iso(lacking))
    assert f"windows that end by {iso(lacking)} are missing" in " ".join(restore(*to).output.split())
    state = writing.by_sequence[4]
    assert restore.rows() == (4, {at: one for at, one in state.items() if at[1] + HOUR_MS > lacking})
    assert len(state) > 1


@pytest.mark.slow
def test_a_damaged_snapshot_is_passed_over_and_said(restore: Command, shelf: SnapshotRepository) -> None:
    """The next older one is taken, and more of the changelog is read; the rows are the same."""
    manifest = shelf.manifest(4)
    older = {one.object for one in shelf.manifest(3).files}
    own = next(one for one in manifest.files if one.object not in older and one.size)
    place = Path(shelf.name) / shelf.names.file(own.object)
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(data)
    done = restore("--json")
    assert done.exit_code == 0, done.output
    assert "snapshot not usable" in done.stderr
    assert restore.rows() == (4, restore.writing.by_sequence[4])


@pytest.mark.slow
def test_a_snapshot_that_is_not_signed_is_passed_over_and_said(
    restore: Command, shelf: SnapshotRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key: one is planned from none of them, and made from the changelog; the rows are the same."""
    monkeypatch.setenv("CUTWATER_SNAPSHOT_KEY", "the-key-of-this-test-" * 2)
    assert shelf.manifest(4)
    told = restore.json("--dry-run")
    assert (told["snapshot"], told["records_max"]) == (None, 181)
    done = restore("--json")
    assert (done.exit_code, "the manifest is not signed" in " ".join(done.stderr.split())) == (0, True), (
        done.output
    )
    assert restore.rows() == (4, restore.writing.by_sequence[4])


@pytest.mark.slow
def test_a_job_that_has_been_idle_for_long(restore: Command) -> None:
    """Its stream ends with thousands of heartbeats."""
    for _ in range(8):
        restore.writing.heartbeat(now_ms(), times=1_000)
    assert restore.json("--dry-run")["token"] == "g1-local-00000000:3"


@pytest.mark.slow
def test_by_workers_too(restore: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Much is loaded by processes of their own."""
    monkeypatch.setattr(BulkLoader, "is_worthwhile", lambda _self, _slices: True)
    assert restore.json("--workers", "2")["restored"]["records"] == 180
    assert restore.rows() == (3, restore.writing.by_sequence[3])


@pytest.mark.slow
def test_a_milestone_that_compaction_has_overtaken_is_refused_with_those_that_can_be_had(restore: Command) -> None:
    old = now_ms() - 48 * HOUR_MS
    restore.writing.epoch([Sold("old", 1, 1)], written_ms=old, epoch_started_ms=old)
    restore.writing.epoch([Sold("new", 1, 1)])
    refused = restore("--to", "g1-local-00000000:3")
    assert refused.exit_code == 2
    assert "cannot be restored" in refused.output
    assert "there are g1-local-00000000:1 to g1-local-00000000:2" in refused.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--to", "yesterday"], "is no target"),
        (["--to", "g1-local-00000000:77"], "does not hold g1-local-00000000:77"),
        (["--partitions", "0,9"], "has partitions 0 to 2"),
        (["--partitions", "a"], "write numbers"),
    ],
)
def test_mistakes_are_one_line(restore: Command, arguments: list[str], says: str) -> None:
    refused = restore(*arguments)
    assert refused.exit_code == 2
    assert says in " ".join(refused.output.split())


@pytest.mark.slow
def test_a_folder_that_a_rehydrator_serves_from_is_refused(restore: Command) -> None:
    with following(restore.writing.cluster, restore.writing.job, restore.folder) as view:
        view.wait_for(3)
        refused = restore()
    assert refused.exit_code == 3
    assert "Another process serves from this folder" in " ".join(refused.output.split())

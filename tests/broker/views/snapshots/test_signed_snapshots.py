"""Snapshots in a store that others may write: with a key only what is signed by it is taken, everywhere."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import psutil
import pytest

from broker.cli.state.test_snapshots import asked, file_of
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.object_store import Objects
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.state.manifest_signature import Keys
from cutwater.core.state.snapshot_manifest import UNSIGNED, File, Manifest, Names, Policy, Unusable, object_name
from cutwater.views.snapshots.local_tier import Hashes
from cutwater.views.snapshots.object_store_tier import NumberTaken, SnapshotRepository
from cutwater.views.snapshots.repositories import repositories_at
from cutwater.views.snapshots.repositories import repository_of as shelf_by_settings
from cutwater.views.store.key_layout import WINDOWS_END, segment_prefix
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, Sold, Writing, make_job, now_ms, until
from support.views.rehydrating import running
from support.views.snapshots import GRACE_MS, keeping, shelf_of

KEY, OLDER, OTHER = "the-key-of-this-test-" * 2, "the-older-key-of-it-" * 2, "somebody-elses-key-" * 2
KEYS = Keys.parse(KEY)
ROWS = 300
OFF = Policy(1, 0, 0)
LOWEST = segment_prefix(-(1 << 63))


def sales(epoch: int) -> list[Sold]:
    return [Sold(f"s{number}", number % 9, epoch * 1_000 + number) for number in range(ROWS - epoch)]


def two_snapshots(writing: Writing, folder: Path, objects: Objects, keys: Keys) -> None:
    """Of the milestones 1 and 2; the view is gone afterwards."""
    with keeping(writing, folder, objects, keys=keys) as (view, kept):
        for epoch in range(2):
            view.wait_for(writing.epoch(sales(epoch)).sequence)
            kept.snapshot()


# --- somebody who may write the store, and has no key


def usurped(writing: Writing, objects: Objects, folder: Path) -> Manifest:
    """Another state in the place of the milestone 2: its files are in the store, and every checksum is right."""
    shelf, at, checkpoint = shelf_of(writing, objects), folder / "at", folder / "checkpoint"
    at.mkdir(parents=True)
    true = shelf.manifest(2)
    for one in true.files:
        shelf.fetch(true, one, at / one.name, lambda: None)
    store = Store(at, writing.job, GENERATION)
    (first, _), (_, value) = store.pin().piece(LOWEST, WINDOWS_END, 2)[0]
    store.put({first: value})
    store.checkpoint(checkpoint)
    store.close()
    files = tuple(Hashes().of(checkpoint))
    for one in files:
        objects.put_file(shelf.names.file(one.object), checkpoint / one.name)
    return replace(true, files=files)


def unsigned(_true: bytes, forged: Manifest) -> bytes:
    return forged.encode()


def signed_by_himself(_true: bytes, forged: Manifest) -> bytes:
    return forged.encode(Keys.parse(OTHER), f"{forged.job}/{GENERATION}/all")


def with_the_old_signature(true: bytes, forged: Manifest) -> bytes:
    plain = json.loads(forged.encode()) | {"signature": json.loads(true)["signature"]}
    del plain["checksum"]
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return json.dumps({**plain, "checksum": sha256(text.encode()).hexdigest()}).encode()


WAYS = {"unsigned": unsigned, "signed by himself": signed_by_himself, "the old signature": with_the_old_signature}


@pytest.mark.variations
@pytest.mark.parametrize("way", WAYS)
def test_another_state_with_right_checksums(writing: Writing, tmp_path: Path, objects: Objects, way: str) -> None:
    """Without a key the view shows it; with it the next older one is taken, and the rows are the job's."""
    two_snapshots(writing, tmp_path / "one", objects, KEYS)
    place = Path(objects.place) / shelf_of(writing, objects).names.manifest(2)
    place.write_bytes(WAYS[way](place.read_bytes(), usurped(writing, objects, tmp_path / "hostile")))
    with keeping(writing, tmp_path / "two", objects) as (view, kept):
        view.wait_for(2)
        assert kept.restored is not None
        assert kept.restored.manifest.sequence == 2
        sequence, rows = view.rows()
        assert (sequence, len(rows)) == (2, ROWS)
        assert rows != writing.by_sequence[2], "he says what the state is"
    with keeping(writing, tmp_path / "three", objects, keys=KEYS) as (view, kept):
        view.wait_for(2)
        assert kept.restored is not None
        assert (kept.restored.manifest.sequence, kept.told.damaged) == (1, 1)
        assert "CUTWATER_SNAPSHOT_KEY" in kept.told.errors()
        assert view.rows() == (2, writing.by_sequence[2])


# --- retention, on real files


class Place:
    """A share in a folder, with snapshots of one small file each."""

    def __init__(self, folder: Path, job: str = "sales") -> None:
        self.objects = Objects(str(folder / "objects"))
        self.names = Names(job, str(GENERATION), "all")
        self._folder = folder / "files"
        self._folder.mkdir(exist_ok=True)

    def shelf(self, keys: Keys) -> SnapshotRepository:
        return SnapshotRepository(self.objects, self.names, GRACE_MS, keys)

    def upload(self, sequence: int, keys: Keys, text: str = "") -> Manifest:
        data = (text or f"state {sequence}").encode()
        (self._folder / "1.sst").write_bytes(data)
        digest = sha256(data).hexdigest()
        files = (File("1.sst", len(data), digest, object_name(digest, "00000000")),)
        one = Manifest(self.names.job, GENERATION, None, sequence, b"\x01m", 7, 3_600_000, "aa", files, 0)
        return self.shelf(keys).upload(one, self._folder, lambda: None, now_ms).manifest

    def age(self) -> None:
        """All that lies there is older than the grace period."""
        for path in Path(self.objects.place).rglob("*"):
            os.utime(path, (1_000_000_000, 1_000_000_000))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_files_that_only_an_unsigned_manifest_names_are_not_deleted(place: Place) -> None:
    """It may stand in the place of a signed one, whose files nobody names then: nothing is deleted beside it."""
    for sequence in (1, 2):
        place.upload(sequence, KEYS)
    hurt = place.shelf(KEYS).manifest(1)
    forged = replace(hurt, files=place.shelf(KEYS).manifest(2).files)
    place.objects.put(place.names.manifest(1), forged.encode())
    place.age()
    done = place.shelf(KEYS).prune(Policy(3, 0, 0), now_ms())
    assert (done.retired, done.deleted, done.forgotten) == ([], 0, 0)
    assert "is not signed" in done.unreadable[0]
    assert hurt.objects <= set(place.shelf(KEYS).stored())
    place.shelf(KEYS).prune(OFF, now_ms(), drop_unreadable=True)
    assert place.shelf(KEYS).prune(OFF, now_ms()).deleted == 1
    assert place.shelf(KEYS).sequences() == [2]


@pytest.mark.parametrize("wrong", [Keys.parse(OTHER), Keys.parse(f"{OTHER},{OLDER}")])
def test_a_wrong_key_costs_no_snapshot(place: Place, wrong: Keys) -> None:
    """None of them can be read by it, and all would go: it is said why they stay."""
    for sequence in (1, 2):
        place.upload(sequence, KEYS)
    place.age()
    done = place.shelf(wrong).prune(OFF, now_ms(), drop_unreadable=True)
    assert (done.retired, done.deleted) == ([], 0)
    assert all("signed with a key of CUTWATER_SNAPSHOT_KEY" in one for one in done.unreadable)
    assert place.shelf(KEYS).sequences() == [2, 1]
    assert [place.shelf(KEYS).manifest(one).sequence for one in (1, 2)] == [1, 2]


@pytest.mark.parametrize("by", [UNSIGNED, KEYS, Keys.parse(f"{OTHER},{KEY}")])
def test_a_retired_manifest_keeps_its_signature(place: Place, by: Keys) -> None:
    """Whoever retires it, one without a key, too: else it could not be read any more, and nothing be deleted."""
    for sequence in (1, 2):
        place.upload(sequence, KEYS)
    data = place.objects.read(place.names.manifest(1), 10_000)
    assert place.shelf(by).prune(OFF, now_ms()).retired == [1]
    assert place.objects.read(place.names.retired_manifest(1), 10_000) == data
    place.age()
    done = place.shelf(KEYS).prune(OFF, now_ms())
    assert (done.unreadable, done.deleted, done.forgotten) == ((), 1, 1)


def test_what_an_unsigned_manifest_names_is_uploaded_anew(place: Place) -> None:
    """Its files may be anything; and a number that it has taken is given up."""
    foreign = place.upload(1, UNSIGNED, "the same")
    own = place.upload(2, KEYS, "the same")
    assert not foreign.objects & own.objects
    assert place.upload(3, KEYS, "the same").objects == own.objects
    with pytest.raises(NumberTaken, match="is not signed"):
        place.upload(1, KEYS)


# --- settings, and the verbs


def test_every_shelf_has_the_keys_of_the_settings(tmp_path: Path) -> None:
    """A view's own, and those of the seeds of driver and mirror: they are made in one place."""
    job: Job = make_job(tmp_path)[0]
    place = Place(tmp_path, job.name)
    place.upload(1, KEYS)
    place.upload(2, Keys.parse(OLDER))
    place.upload(3, UNSIGNED)

    def usable(settings: dict[str, str]) -> list[list[int]]:
        made = load_settings({"CUTWATER_SNAPSHOTS": place.objects.place, **settings})
        (below,) = repositories_at(place.objects.place, made).below(job.name)
        return [readable(one) for one in (below, shelf_by_settings(made, job, None))]

    assert usable({}) == [[3, 2, 1]] * 2
    assert usable({"CUTWATER_SNAPSHOT_KEY": KEY}) == [[1]] * 2
    assert usable({"CUTWATER_SNAPSHOT_KEY": f"{KEY},{OLDER}"}) == [[2, 1]] * 2
    with pytest.raises(UsageError, match=r"CUTWATER_SNAPSHOT_KEY: .*at least 32") as refused:
        load_settings({"CUTWATER_SNAPSHOT_KEY": "short-secret"})
    assert "short-secret" not in str(refused.value)


def readable(shelf: SnapshotRepository) -> list[int]:
    found = []
    for one in shelf.sequences():
        with suppress(Unusable):
            found.append(shelf.manifest(one).sequence)
    return found


def test_the_listing_says_what_is_not_signed_and_what_another_key_signed(tmp_path: Path) -> None:
    """With the key only; `verify` says the same."""
    (tmp_path / "job").mkdir()
    job, path = make_job(tmp_path / "job")
    place = Place(tmp_path, job.name)
    place.upload(1, KEYS)
    place.upload(2, Keys.parse(OTHER))
    place.upload(3, UNSIGNED)
    env = {"CUTWATER_SNAPSHOTS": place.objects.place, "CUTWATER_SNAPSHOT_KEY": KEY}
    for verb in ("list", "verify"):
        code, told, said = asked(verb, path, **env)
        three, two, one = [found["problem"] for found in told["snapshots"]]
        assert (code, "is not signed" in three, "by none of the keys" in two, one) == (1, True, True, "")
        assert KEY not in said + json.dumps(told)
    code, told, _ = asked("list", path, CUTWATER_SNAPSHOTS=place.objects.place)
    assert (code, [found["problem"] for found in told["snapshots"]]) == (0, ["", "", ""])


@pytest.mark.slow
def test_a_rehydrator_signs_and_begins_from_what_is_signed(writing: Writing, tmp_path: Path) -> None:
    """A process: the key comes by environment, and is in no argument, no log and no file. Then it is changed."""
    path, place = file_of(tmp_path, writing), tmp_path / "objects"
    env = {"CUTWATER_SNAPSHOTS": str(place), "CUTWATER_SNAPSHOT_KEY": KEY}
    last = writing.epoch(sales(0))
    with running(writing.cluster, path, tmp_path / "one", **env) as one:
        until(lambda: one.answers() and one.shown() == 1, "the milestone")
        until(lambda: asked("list", path, **env)[1]["snapshots"], "the first snapshot")
        url = f"http://127.0.0.1:{one.port}"
        code, made, said = asked("create", path, "--api-url", url, **env)
        assert (code, made["token"]) == (0, str(last.token)), said
        wrong = {**env, "CUTWATER_SNAPSHOT_KEY": OTHER}
        code, _, said = asked("create", path, "--api-url", url, **wrong)
        assert (code, "same CUTWATER_SNAPSHOT_KEY as this command" in " ".join(said.split())) == (2, True), said
        assert KEY not in " ".join(psutil.Process(one.process.pid).cmdline())
    (manifest,) = (place / writing.job.name).glob("*/all/manifests/*.json")
    assert json.loads(manifest.read_bytes())["signature"]
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert not [one for one in files if KEY.encode() in one.read_bytes()]
    changed = {**env, "CUTWATER_SNAPSHOT_KEY": f"{OLDER},{KEY}"}
    for keys, count in ((changed, 1), (wrong, 0)):
        with running(writing.cluster, path, tmp_path / keys["CUTWATER_SNAPSHOT_KEY"][:5], **keys) as two:
            until(lambda: two.answers() and two.shown() == 1, "the milestone")
            assert two.pieces("s7") == [writing.by_sequence[1]["s7", 7 * 3_600_000]]
            assert ("snapshot restored" in two.log.read_text()) == bool(count)
            assert ("by none of the keys" in two.log.read_text()) != bool(count)

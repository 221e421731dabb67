"""`cutwater snapshots` and the rehydrator's part in it, as processes; the store is a folder, or speaks S3."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from cutwater.adapters.object_store import Objects
from cutwater.adapters.topics.recovery_log import history
from cutwater.cli.main import app
from support.cli.jsonshapes import parsed
from support.objectstore import BUCKET, KEYS, ObjectStore, object_store
from support.views.changelogs import Sold, Writing, make_job, until
from support.views.rehydrating import running
from support.views.snapshots import keeping, shelf_of

TOKEN = "a-token-of-enough-letters"


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    one = Writing(broker.cluster, make_job(tmp_path)[0])
    yield one
    one.close()


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with object_store(tmp_path / "s3") as one:
        yield one


def sales(epoch: int, count: int = 300) -> list[Sold]:
    return [Sold(f"s{number}", number % 9, epoch * 1_000 + number) for number in range(count)]


def file_of(tmp_path: Path, writing: Writing) -> Path:
    return tmp_path / f"{writing.job.name}.yaml"


def asked(*words: object, **env: str) -> tuple[int, Any, str]:
    """Exit code, JSON if there is any, and what was said."""
    done = CliRunner(env=env).invoke(app, ["snapshots", *map(str, words), "--json"])
    told = parsed(["snapshots", *map(str, words)], done.stdout) if done.stdout else None
    return done.exit_code, told, done.stderr


@pytest.mark.slow
def test_by_s3_requests_from_start_to_end(
    writing: Writing, tmp_path: Path, s3: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Take, list, verify, restore into another folder, prune: all over HTTP, and rows equal."""
    place, path = f"s3://{BUCKET}/pre/fix", file_of(tmp_path, writing)
    env = {"CUTWATER_SNAPSHOTS": place, "CUTWATER_S3_ENDPOINT": s3.url, "CUTWATER_API_TOKEN": TOKEN}
    env |= {"CUTWATER_BOOTSTRAP_SERVERS": writing.cluster.bootstrap}  # of the audit log
    with running(writing.cluster, path, tmp_path / "one", **env) as one:
        until(one.answers, "the API")
        writing.epoch(sales(0))
        until(lambda: one.shown() == 1, "the milestone")
        until(lambda: asked("list", path, **env)[1]["snapshots"], "the first snapshot, at once")
        last = writing.epoch(sales(1, 40))
        until(lambda: one.shown() == 2, "the next one")
        url = f"http://127.0.0.1:{one.port}"
        code, made, said = asked("create", path, "--api-url", url, "--wait", 60, **env)
        assert (code, made["token"], said) == (0, str(last.token), "")
        assert httpx.post(f"{url}/v1/snapshots", timeout=10).status_code == 401
        assert "cutwater_view_snapshot_store_away 0.0" in one.get("/metrics").text
        log = one.log.read_text()
    names = s3.names(f"pre/fix/{writing.job.name}/")
    assert len([name for name in names if "/manifests/" in name]) == 2
    code, listed, _ = asked("list", path, **env)
    assert code == 0
    assert [one["token"] for one in listed["snapshots"]] == [str(last.token), f"{last.generation}:1"]
    assert listed["stored_bytes"] < sum(one["bytes"] for one in listed["snapshots"]), "files are shared"
    assert asked("verify", path, **env)[0] == 0
    with running(writing.cluster, path, tmp_path / "two", **env) as two:
        until(lambda: two.answers() and two.shown() == 2, "the snapshot's milestone")
        assert two.pieces("s7") == [writing.by_sequence[2]["s7", 7 * 3_600_000]]
        assert "cutwater_view_records_applied_total 0.0" in two.get("/metrics").text
        code, made, _ = asked("create", path, "--api-url", f"http://127.0.0.1:{two.port}", **env)
        assert (code, made["token"]) == (0, str(last.token)), "it is there: nothing is uploaded again"
        assert "cutwater_view_snapshots_taken_total 0.0" in two.get("/metrics").text
        log += two.log.read_text()
    code, pruned, _ = asked("prune", path, **env)
    assert (code, pruned["shares"][0]["retired"]) == (0, []), "three are kept"
    off = {
        "CUTWATER_SNAPSHOT_KEEP_LAST": "1",
        "CUTWATER_SNAPSHOT_KEEP_HOURS": "0",
        "CUTWATER_SNAPSHOT_KEEP_DAYS": "0",
    }
    assert asked("prune", path, "--dry-run", **env, **off)[1]["shares"][0]["retired"] == [1]
    assert asked("prune", path, **env, **off)[1]["shares"][0]["retired"] == [1]
    assert [one["token"] for one in asked("list", path, **env)[1]["snapshots"]] == [str(last.token)]
    assert asked("verify", path, **env)[0] == 0
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in log
    assert TOKEN not in log


@pytest.mark.slow
def test_keys_that_are_not_let_in_and_a_bucket_that_is_not_there(tmp_path: Path, s3: ObjectStore) -> None:
    """Exit 2, the place, what to do; never the secret."""
    (tmp_path / "job").mkdir()
    _, path = make_job(tmp_path / "job")
    env = {"CUTWATER_SNAPSHOTS": "s3://elsewhere/x", "CUTWATER_S3_ENDPOINT": s3.url}
    code, _, said = asked("list", path, **env)
    assert (code, "there is no such bucket" in said, "s3://elsewhere/x" in said) == (2, True, True), said
    env |= {"CUTWATER_SNAPSHOTS": f"s3://{BUCKET}/x", "CUTWATER_S3_ENDPOINT": "http://127.0.0.1:9"}
    code, _, said = asked("list", path, **env)
    assert (code, f"s3://{BUCKET}/x" in said) == (4, True), said
    for bad in ("ftp://x/y", "s3://key:secret-secret@b/x", "s3://b/x?token=secret-secret"):
        code, _, said = asked("list", path, CUTWATER_SNAPSHOTS=bad)
        assert (code, "secret-secret" in said) == (2, False), said
    assert asked("list", path, CUTWATER_SNAPSHOTS="")[0] == 2


def test_a_rehydrator_of_an_earlier_version_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not say where its snapshots lie: exit 2, and what to do; no traceback."""
    (tmp_path / "job").mkdir()
    _, path = make_job(tmp_path / "job")
    answer = httpx.Response(202, json={"token": "g1-local-00000000:1"})
    monkeypatch.setattr(httpx, "request", lambda *_, **__: answer)
    code, _, said = asked("create", path, "--store", tmp_path / "objects")
    assert (code, "Upgrade the rehydrator" in " ".join(said.split())) == (2, True), said


@pytest.mark.slow
def test_damage_is_found_by_verify_and_told_by_the_rehydrator(writing: Writing, tmp_path: Path) -> None:
    """The trail, the log, the metric and the command line name what is damaged; the view is exact all the same."""
    path, objects = file_of(tmp_path, writing), Objects(str(tmp_path / "objects"))
    env = {"CUTWATER_SNAPSHOTS": objects.place}
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        for epoch in range(2):
            view.wait_for(writing.epoch(sales(epoch)).sequence)
            kept.snapshot()
    shelf = shelf_of(writing, objects)
    new = shelf.manifest(2).objects - shelf.manifest(1).objects
    (hurt,) = [one for one in shelf.manifest(2).files if one.object in new and one.name.endswith(".sst")]
    place = Path(objects.place) / shelf.names.file(hurt.object)
    place.write_bytes(b"x" + place.read_bytes()[1:])
    code, told, _ = asked("verify", path, **env)
    assert code == 1
    problems = {one["token"]: one["problem"] for one in told["snapshots"]}
    assert (hurt.object in problems[f"{writing.last.generation}:2"], problems[f"{writing.last.generation}:1"]) == (
        True,
        "",
    )
    assert asked("verify", path, "--at", f"{writing.last.generation}:1", **env)[0] == 0
    assert asked("verify", path, "--at", f"{writing.last.generation}:9", **env)[0] == 2
    with running(writing.cluster, path, tmp_path / "two", **env) as two:
        until(lambda: two.answers() and two.shown() == 2, "the newest milestone")
        assert two.pieces("s7") == [writing.by_sequence[2]["s7", 7 * 3_600_000]]
        assert "cutwater_view_snapshots_unusable_total 1.0" in two.get("/metrics").text
        assert "cutwater_view_snapshots_passed_over 1.0" in two.get("/metrics").text
        assert hurt.object in two.log.read_text()
        until(lambda: history(writing.cluster, writing.job.name, 10), "the recovery trail")
    (start,) = history(writing.cluster, writing.job.name, 10)
    found = {fact.name: fact.value for fact in start.found}
    assert found["snapshot"] == f"{writing.last.generation}:1 ({objects.place}; newer ones unusable: 1)"
    assert start.decision == f"restore the snapshot of {writing.last.generation}:1 and continue after it"
    assert [step.name for step in start.steps if "restoring the snapshot" in step.name]


def test_a_manifest_that_cannot_be_read_is_listed_and_dropped(writing: Writing, tmp_path: Path) -> None:
    """`list` names it and exits 1; while it is there no file is deleted; --drop-unreadable ends that."""
    path, objects = file_of(tmp_path, writing), Objects(str(tmp_path / "objects"))
    env = {"CUTWATER_SNAPSHOTS": objects.place}
    with keeping(writing, tmp_path / "one", objects) as (view, kept):
        view.wait_for(writing.epoch(sales(0)).sequence)
        kept.snapshot()
    shelf = shelf_of(writing, objects)
    objects.put(shelf.names.manifest(7), b"{}")
    orphan = f"{'0' * 64}-00000000"
    objects.put(shelf.names.file(orphan), b"x")
    long_ago = 1_000_000_000
    os.utime(Path(objects.place) / shelf.names.file(orphan), (long_ago, long_ago))
    code, listed, _ = asked("list", path, **env)
    assert (code, listed["snapshots"][0]["problem"]) == (1, "this is not a manifest of a snapshot")
    assert asked("prune", path, **env)[0] == 1
    assert orphan in shelf.stored()
    assert asked("prune", path, "--drop-unreadable", **env)[0] == 1
    code, done, _ = asked("prune", path, **env)
    assert (code, done["shares"][0]["deleted"]) == (0, 1)
    assert shelf.manifest(1).objects == set(shelf.stored())


@pytest.mark.slow
def test_a_store_that_is_away_is_said_and_serving_goes_on(writing: Writing, tmp_path: Path) -> None:
    """From the start on: the API answers, the view follows, the gauge says so, and the log what to do."""
    path = file_of(tmp_path, writing)
    env = {"CUTWATER_SNAPSHOTS": "s3://bucket/x", "CUTWATER_S3_ENDPOINT": "http://127.0.0.1:9", **KEYS}
    with running(writing.cluster, path, tmp_path / "one", **env) as one:
        until(one.answers, "the API")
        writing.epoch(sales(0))
        until(lambda: one.shown() == 1, "the milestone")
        until(lambda: "cutwater_view_snapshot_failures_total 0.0" not in one.get("/metrics").text, "the failure")
        assert "cutwater_view_snapshot_store_away 1.0" in one.get("/metrics").text
        writing.epoch(sales(1))
        until(lambda: one.shown() == 2, "the next milestone")
        assert one.pieces("s7") == [writing.by_sequence[2]["s7", 7 * 3_600_000]]
        code, _, said = asked("create", path, "--api-url", f"http://127.0.0.1:{one.port}", "--wait", 0, **env)
        assert (code, "s3://bucket/x" in said) == (4, True)
        one.process.terminate()
        assert one.ended(20)[0] == 0
        assert KEYS["AWS_SECRET_ACCESS_KEY"] not in one.log.read_text()


@pytest.mark.slow
def test_without_a_store_none_is_taken(writing: Writing, tmp_path: Path) -> None:
    """The default of a rehydrator of its own: 409, and no file beside the view."""
    path = file_of(tmp_path, writing)
    with running(writing.cluster, path, tmp_path / "one") as one:
        until(one.answers, "the API")
        writing.epoch(sales(0))
        until(lambda: one.shown() == 1, "the milestone")
        url = f"http://127.0.0.1:{one.port}"
        code, _, said = asked("create", path, "--api-url", url, "--store", tmp_path / "objects")
        assert (code, "CUTWATER_SNAPSHOTS" in said) == (2, True)
        assert not list((tmp_path / "one").rglob("*.checkpoints"))


@pytest.mark.slow
def test_what_lies_beside_the_view_goes_when_none_are_taken_any_more(writing: Writing, tmp_path: Path) -> None:
    """Checkpoints keep files of the view's alive; a half-fetched snapshot is of no use. The log says so."""
    path = file_of(tmp_path, writing)
    writing.epoch(sales(0))
    with running(writing.cluster, path, tmp_path / "one", CUTWATER_SNAPSHOTS=str(tmp_path / "objects")) as one:
        until(lambda: list((tmp_path / "objects").rglob("manifests/*.json")), "the first snapshot")
    (near,) = (tmp_path / "one").rglob("*.checkpoints")
    assert list(near.glob("*.json"))
    half = near.with_suffix(".restoring")
    half.mkdir()
    with running(writing.cluster, path, tmp_path / "one") as one:
        until(lambda: one.answers() and one.shown() == 1, "the milestone")
        assert "this rehydrator takes no snapshots: local snapshots are removed" in one.log.read_text()
    assert not near.exists()
    assert not half.exists()
    with running(writing.cluster, path, tmp_path / "one") as one:
        until(lambda: one.answers() and one.shown() == 1, "the milestone")
        assert "are removed" not in one.log.read_text()

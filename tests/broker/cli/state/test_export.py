"""`cutwater export`: what DuckDB reads from the file is what the view holds, at the milestone that it names."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner, Result

from cutwater.adapters.columnar import arrow, parquet
from cutwater.adapters.config.held_part import HeldPart
from cutwater.cli.main import app
from cutwater.client.export import part_owners
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.state.partition_share import require_whole_once
from cutwater.core.state.selection import Selection
from cutwater.rehydrator.cluster.held_part import Replica
from cutwater.views.query import view as viewing
from cutwater.views.store.folders import folder_of
from support.cli.jsonshapes import parsed
from support.views.apiserving import Own, app_of, holding, serving
from support.views.changelogs import GENERATION, HOUR_MS, Rows, Sold, Writing, make_job
from support.views.measured_job import Expected, measured_job, measured_rows
from unit.views.store.test_store import rows

TOKEN = "a-token-of-enough-letters"
PARTS = (frozenset({0, 2}), frozenset({1}))


def export(job_file: Path, to: Path, *words: object, **env: str) -> Result:
    return CliRunner(env=env).invoke(app, ["export", str(job_file), "--out", str(to), *map(str, words)])


def done(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return parsed(["export"], result.stdout)


def read(path: Path) -> Expected:
    """By DuckDB, which knows nothing of ours."""
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        found = database.sql(f"select * from '{path}'")
        return {
            (row[0], _ms(row[1]), _ms(row[2])): dict(zip(found.columns[3:], row[3:], strict=True))
            for row in found.fetchall()
        }


def _ms(moment: datetime) -> int:
    return round(moment.astimezone(UTC).timestamp() * 1000)


def about(path: Path) -> dict[str, str]:
    """The file's own metadata, by DuckDB."""
    with duckdb.connect() as database:
        found = database.sql(f"select key, value from parquet_kv_metadata('{path}')").fetchall()
    return {name.decode(): text.decode() for name, text in found if name.startswith(b"cutwater.")}


def pieces(path: Path) -> Rows:
    return {(key, start): int(row["pieces"]) for (key, start, _), row in read(path).items()}


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[tuple[Own, Path, Expected]]:
    """A view with every kind of measure, among them one row below the horizon."""
    job, path = measured_job(tmp_path)
    own = Own(folder_of(tmp_path / "data", job.name, GENERATION), job)
    stored, expected = measured_rows(job, own.store, 600)
    own.show(7, stored, horizon_ms=HOUR_MS)
    yield own, path, {at: row for at, row in expected.items() if at[2] > HOUR_MS}
    own.close()


@pytest.mark.slow
def test_every_measure_of_every_type(
    wide: tuple[Own, Path, Expected], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, NULLs, decimals and estimates to the last digit; the file names its milestone, and lies alone."""
    own, job_file, expected = wide
    monkeypatch.setattr(viewing, "EXPORT_ROWS", 70)
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 100)
    out = tmp_path / "out" / "state.parquet"
    out.parent.mkdir()
    out.write_text("an older file")
    with serving(app_of(own.view, TOKEN)) as url:
        told = done(export(job_file, out, "--url", url, "--json", CUTWATER_API_TOKEN=TOKEN))
    found = read(out)
    assert len(found) == len(expected) > 500
    for at, row in expected.items():
        assert found[at] == row, at
    assert {row["max_price"] is None for row in found.values()} == {True, False}
    assert [file.name for file in out.parent.iterdir()] == ["state.parquet"]
    assert about(out) == {
        "cutwater.job": own.job.name,
        "cutwater.token": "g1-local-00000000:7",
        "cutwater.sequence": "7",
        "cutwater.generation": "g1-local-00000000",
        "cutwater.epoch": "6",
        "cutwater.watermark": "1970-01-01T06:00:00Z",
        "cutwater.horizon": "1970-01-01T01:00:00Z",
        "cutwater.committed": about(out)["cutwater.committed"],
        "cutwater.partitions": "all",
    }
    file = {"path": str(out), "token": "g1-local-00000000:7", "partitions": None, "rows": len(expected)}
    assert told["files"] == [file | {"bytes": out.stat().st_size, "selection": None, "standbys": []}]
    groups = duckdb.sql(f"select distinct row_group_num_rows from parquet_metadata('{out}')").fetchall()
    assert max(rows for (rows,) in groups) <= 100


@pytest.mark.slow
def test_a_folder_gives_the_same_file_as_the_rehydrator(wide: tuple[Own, Path, Expected], tmp_path: Path) -> None:
    """While somebody serves from it, it is refused; then rows and metadata are the same."""
    own, job_file, expected = wide
    with serving(app_of(own.view)) as url:
        done(export(job_file, tmp_path / "served.parquet", "--url", url, "--json"))
    refused = export(job_file, tmp_path / "no.parquet", "--data-dir", tmp_path / "data")
    assert (refused.exit_code, "Another process serves" in " ".join(refused.output.split())) == (3, True)
    own.close()
    done(export(job_file, tmp_path / "kept.parquet", "--data-dir", tmp_path / "data", "--json"))
    assert about(tmp_path / "kept.parquet") == about(tmp_path / "served.parquet")
    assert read(tmp_path / "kept.parquet") == read(tmp_path / "served.parquet")
    assert len(read(tmp_path / "kept.parquet")) == len(expected)


def test_an_older_milestone_and_some_partitions(broker: Any, tmp_path: Path) -> None:
    """Restored, then exported: what the milestone's writer knew of it."""
    job, job_file = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    for epoch in range(3):
        writing.epoch(Sold(f"s{at}", 1 + epoch, 10 * epoch + at) for at in range(60))
    for name, words in (("then", ["--to", "g1-local-00000000:2"]), ("part", ["--partitions", "0,2"])):
        fixed = ["--data-dir", str(tmp_path / name), "--bootstrap-servers", writing.cluster.bootstrap]
        assert CliRunner().invoke(app, ["restore", str(job_file), *fixed, *words]).exit_code == 0
        done(export(job_file, tmp_path / f"{name}.parquet", "--data-dir", tmp_path / name, "--json"))
    writing.close()
    assert pieces(tmp_path / "then.parquet") == writing.by_sequence[2]
    assert about(tmp_path / "then.parquet")["cutwater.token"] == "g1-local-00000000:2"
    part = {at: one for at, one in writing.by_sequence[3].items() if writing.partition(at[0]) in (0, 2)}
    assert pieces(tmp_path / "part.parquet") == part
    assert about(tmp_path / "part.parquet")["cutwater.partitions"] == "0,2"


class Shared:
    """Two rehydrators that share three partitions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job, self.job_file = make_job(folder)
        self.views = [Own(folder / str(at), self.job, part) for at, part in enumerate(PARTS)]
        self.stack = ExitStack()
        apps = [app_of(own.view, peers=holding(part)) for own, part in zip(self.views, PARTS, strict=True)]
        self.urls = [self.stack.enter_context(serving(one)) for one in apps]

    def show(self, at: int, sequence: int) -> None:
        self.views[at].show(sequence, rows(self.job, self.views[at].store, [Sold(f"p{at}", 1, sequence)]))

    def export(self, to: Path, *words: object) -> Result:
        return export(self.job_file, to, "--url", self.urls[0], "--url", self.urls[1], *words)

    def close(self) -> None:
        for own in self.views:
            own.close()
        self.stack.close()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    one = Shared(tmp_path)
    yield one
    one.close()


@pytest.mark.slow
def test_peers_make_one_file_of_the_same_milestone(shared: Shared, tmp_path: Path) -> None:
    """The one that is behind is waited for."""
    shared.show(0, 2)
    shared.show(1, 1)
    later = threading.Timer(2.0, shared.show, (1, 2))  # longer than all pauses together
    later.start()
    done(shared.export(tmp_path / "all.parquet", "--json"))
    later.join()
    assert pieces(tmp_path / "all.parquet") == {("p0", HOUR_MS): 2, ("p1", HOUR_MS): 2}
    assert about(tmp_path / "all.parquet")["cutwater.partitions"] == "all"


def test_peers_that_do_not_meet_make_no_file(
    shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused with both milestones; in a folder each makes its own, and a warning says so."""
    monkeypatch.setattr(part_owners, "WAIT_MS", 0)
    shared.show(0, 2)
    shared.show(1, 1)
    refused = shared.export(tmp_path / "all.parquet")
    assert refused.exit_code == 4
    assert f"{shared.urls[1]} at g1-local-00000000:1" in "".join(refused.output.split("\n"))
    assert not (tmp_path / "all.parquet").exists()
    (tmp_path / "out").mkdir()
    told = shared.export(tmp_path / "out")
    assert (told.exit_code, "of different milestones" in told.output) == (0, True)
    names = [
        f"{shared.job.name}.{GENERATION}.2.1-of-2.parquet",
        f"{shared.job.name}.{GENERATION}.1.2-of-2.parquet",
    ]
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == sorted(names)
    assert [about(tmp_path / "out" / name)["cutwater.partitions"] for name in names] == ["0,2", "1"]
    assert [pieces(tmp_path / "out" / name) for name in names] == [{("p0", HOUR_MS): 2}, {("p1", HOUR_MS): 1}]


@pytest.fixture
def standby(shared: Shared) -> Iterator[tuple[Own, str]]:
    """A second view of what the first peer holds, and its address."""
    own = Own(shared.folder / "standby", shared.job, PARTS[0])
    with serving(app_of(own.view, peers=holding(PARTS[0], "the first"))) as url:
        yield own, url
    own.close()


@pytest.mark.slow
@pytest.mark.parametrize("owner", ["away", "behind", "busy", "well"])
def test_a_standby_is_asked_where_its_owner_is_away_or_behind(
    shared: Shared, standby: tuple[Own, str], tmp_path: Path, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And who answered in its place is said; an owner that is there as well as its standby answers itself."""
    monkeypatch.setattr(part_owners, "WAIT_MS", 5_000)
    own, url = standby
    for sequence in (1, 2):
        own.show(sequence, rows(shared.job, own.store, [Sold("p0", 1, sequence)]))
        shared.show(1, sequence)
        if sequence == 1 or owner != "behind":
            shared.show(0, sequence)
    first = "http://127.0.0.1:1" if owner == "away" else shared.urls[0]
    if owner == "busy":
        monkeypatch.setattr(shared.views[0].view, "pieces", _refused)
    words = ["--url", f"{first}|{url}/", "--url", shared.urls[1], "--at-least", "g1-local-00000000:2"]
    told = done(export(shared.job_file, tmp_path / "all.parquet", *words, "--json"))
    plain = export(shared.job_file, tmp_path / "all.parquet", *words)
    asked = owner != "well"
    assert told["files"][0]["standbys"] == ([url] if asked else [])
    assert ("standbys that answered for their owners" in plain.output) == asked
    assert pieces(tmp_path / "all.parquet") == {("p0", HOUR_MS): 2, ("p1", HOUR_MS): 2}
    peers = f"{first}|{url},{shared.urls[1]}"
    assert done(export(shared.job_file, tmp_path / "all.parquet", "--json", CUTWATER_PEERS=peers)) | {
        "seconds": 0
    } == told | {"seconds": 0}


def _refused() -> Any:
    raise UnavailableError("enough exports run already")


@pytest.mark.slow
def test_where_nobody_holds_a_part_the_whole_is_not_there(shared: Shared, tmp_path: Path) -> None:
    """Owner and standby are away: exit 4, and both are named."""
    shared.show(1, 1)
    nobody = "http://127.0.0.1:1|http://127.0.0.1:2"
    refused = export(shared.job_file, tmp_path / "x.parquet", "--url", nobody, "--url", shared.urls[1])
    assert refused.exit_code == 4
    assert all(place in "".join(refused.output.split("\n")) for place in nobody.split("|"))


@pytest.mark.slow
def test_a_part_is_not_taken_for_the_whole(shared: Shared, tmp_path: Path) -> None:
    shared.show(0, 1)
    missing = export(shared.job_file, tmp_path / "x.parquet", "--url", shared.urls[0])
    assert (missing.exit_code, "no peer holds partition 1" in " ".join(missing.output.split())) == (2, True)
    twice = export(shared.job_file, tmp_path / "x.parquet", "--url", shared.urls[0], "--url", shared.urls[0] + "/")
    assert twice.exit_code == 2
    assert not (tmp_path / "x.parquet").exists()


@pytest.mark.slow
def test_a_replica_of_a_part_is_exported_as_what_it_is(shared: Shared, tmp_path: Path) -> None:
    """Alone it makes a file that names its selection; with others one of its own, or none."""
    job, some = shared.job, Selection.of(["p0", "[x]"], ["a"])
    for at in range(2):
        shared.show(at, 1)
    own = Own(tmp_path / "replica", job, PARTS[0])
    own.show(1, rows(job, own.store, [Sold("p0", 1, 1)]))
    replica = Replica(HeldPart(PARTS[0], some), job.shards)
    with serving(app_of(own.view, replica=replica)) as url:
        told = export(shared.job_file, tmp_path / "one.parquet", "--url", url)
        assert (told.exit_code, "0, 2, of the keys" in " ".join(told.output.split())) == (0, True), told.output
        assert pieces(tmp_path / "one.parquet") == {("p0", HOUR_MS): 1}
        assert json.loads(about(tmp_path / "one.parquet")["cutwater.selection"]) == some.as_object()
        assert about(tmp_path / "one.parquet")["cutwater.partitions"] == "0,2"
        mixed = [
            ["--url", url, "--url", shared.urls[1]],
            ["--url", url, "--url", shared.urls[0], "--url", shared.urls[1]],
        ]
        for words in mixed:
            assert export(shared.job_file, tmp_path / "x.parquet", *words).exit_code == 2
        assert not (tmp_path / "x.parquet").exists()
        (tmp_path / "out").mkdir()
        files = done(shared.export(tmp_path / "out", "--url", url, "--json"))["files"]
        assert [one["selection"] for one in files] == [None, None, some.as_object()]
        warned = shared.export(tmp_path / "out", "--url", url)
        assert "from replicas that hold only a part" in warned.output
        assert export(shared.job_file, tmp_path / "out", "--url", url, "--url", shared.urls[0]).exit_code == 2
    own.close()


def test_who_holds_what_is_compared() -> None:
    """Each partition once; None is all of them."""
    require_whole_once({"a": None}, 3)
    require_whole_once({"a": frozenset({0, 2}), "b": frozenset({1})}, 3)
    for held in (
        {"a": None, "b": None},
        {"a": frozenset({0, 1})},
        {"a": frozenset({0, 1, 2}), "b": frozenset({1})},
    ):
        with pytest.raises(UsageError):
            require_whole_once(held, 3)


@pytest.mark.slow
def test_an_export_that_is_broken_off_leaves_the_older_file(
    wide: tuple[Own, Path, Expected], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rehydrator's answer ends early: exit 4, and neither a part nor a half-written file."""
    own, job_file, _ = wide
    out = tmp_path / "out" / "state.parquet"
    out.parent.mkdir()
    out.write_text("an older file")
    monkeypatch.setattr(own.view, "pieces", lambda: _broken(own))
    with serving(app_of(own.view)) as url:
        refused = export(job_file, out, "--url", url)
    assert refused.exit_code == 4, refused.output
    assert [(file.name, file.read_text()) for file in out.parent.iterdir()] == [("state.parquet", "an older file")]


def _broken(own: Own) -> Any:
    def some() -> Iterator[Any]:
        for number, (storage, value) in enumerate(own.store.pin().rows(b"\x01", b"\x02")):
            if number == 300:
                raise RuntimeError("the disk is away")
            yield [(storage, value)]

    return own.view.milestone, some()


@pytest.mark.slow
def test_refusals_in_words(
    wide: tuple[Own, Path, Expected], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing, and what to do: no folder, two places at once, no rehydrator, no pyarrow."""
    own, job_file, _ = wide
    nobody = ["--url", "http://127.0.0.1:1"]
    missing: list[tuple[list[object], int, str]] = [
        (["--data-dir", tmp_path / "nothing"], 2, "cutwater restore"),
        (["--data-dir", tmp_path / "data", *nobody], 2, "are for a rehydrator"),
        (["--at-least", "x"], 2, "not a token"),
        (nobody, 4, "does not answer"),
    ]
    for words, code, text in missing:
        refused = export(job_file, tmp_path / "x.parquet", *words)
        assert (refused.exit_code, text in " ".join(refused.output.split())) == (code, True), refused.output
    with serving(app_of(own.view, TOKEN)) as url:
        assert "CUTWATER_API_TOKEN" in export(job_file, tmp_path / "x.parquet", "--url", url).output
        other, _ = make_job(tmp_path / "other")
        foreign = export(
            tmp_path / "other" / f"{other.name}.yaml",
            tmp_path / "x.parquet",
            "--url",
            url,
            CUTWATER_API_TOKEN=TOKEN,
        )
        assert foreign.exit_code == 2, foreign.output
        nowhere = export(job_file, tmp_path / "no" / "x.parquet", "--url", url, CUTWATER_API_TOKEN=TOKEN)
        assert (nowhere.exit_code, "cannot be written" in nowhere.output) == (3, True)
    monkeypatch.setattr(arrow, "find_spec", lambda _name: None)
    own.close()
    refused = export(job_file, tmp_path / "x.parquet", "--data-dir", tmp_path / "data")
    assert (refused.exit_code, "pip install 'cutwater[arrow]'" in " ".join(refused.output.split())) == (3, True)
    assert not (tmp_path / "x.parquet").exists()


def test_a_view_of_nothing_is_a_file_of_no_rows(tmp_path: Path) -> None:
    """With all its columns; and a folder that was never filled is refused."""
    job, job_file = make_job(tmp_path)
    own = Own(folder_of(tmp_path / "data", job.name, GENERATION), job)
    own.close()
    empty = export(job_file, tmp_path / "x.parquet", "--data-dir", tmp_path / "data")
    assert (empty.exit_code, "no whole milestone" in " ".join(empty.output.split())) == (2, True)
    own = Own(folder_of(tmp_path / "data", job.name, GENERATION), job)
    own.show(1, {})
    own.close()
    done(export(job_file, tmp_path / "x.parquet", "--data-dir", tmp_path / "data", "--json"))
    columns = duckdb.sql(f"describe select * from '{tmp_path}/x.parquet'").fetchall()
    assert [(name, kind) for name, kind, *_ in columns] == [
        ("key", "VARCHAR"),
        ("window_start", "TIMESTAMP WITH TIME ZONE"),
        ("window_end", "TIMESTAMP WITH TIME ZONE"),
        ("sales", "BIGINT"),
        ("pieces", "DECIMAL(38,0)"),
        ("takings", "DECIMAL(38,2)"),
        ("mean", "DOUBLE"),
    ]
    assert read(tmp_path / "x.parquet") == {}

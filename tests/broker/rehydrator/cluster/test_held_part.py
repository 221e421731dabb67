"""A part of the state by keys and time: restored, followed and served by a replica that says what it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker.cli.state.test_restore import Command
from broker.views.bulk.test_bulk_loader import Restoring
from cutwater.core.checks.state_comparison import CHANGELOG, VIEW, Verdict
from cutwater.core.query.key_path import path_of
from cutwater.core.state.selection import Selection
from cutwater.verify.run import Request, Result, verify
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.store.folders import folder_of
from cutwater.views.store.key_layout import Window, segment_ms, storage_key
from cutwater.views.store.store import Store
from cutwater.views.store.table import RocksTable
from support.views.changelogs import GENERATION, HOUR_MS, Rows, Sold, Writing, following, make_job, until
from support.views.rehydrating import Process, running

ODD = ["a" * 200, "zero\0inside", "ü/x"]
SHOPS = [f"{place}{number}" for place in ("EW", "JF", "LG") for number in range(20)] + ODD


@dataclass
class Stage:
    """A job with a few epochs, and a folder for whoever serves it."""

    writing: Writing
    job_file: Path
    folder: Path

    def kept(self, sequence: int, **names: Any) -> Rows:
        """What a view of a selection must show."""
        selection = Selection.of(**names)
        assert selection is not None
        rows = self.writing.by_sequence[sequence].items()
        return {at: one for at, one in rows if selection.keeps(at[0], at[1] + HOUR_MS)}

    def replica(self, **env: str) -> Any:
        return running(self.writing.cluster, self.job_file, self.folder / "replica", **env)

    def verified(self, served: Process) -> Result:
        url, one = f"http://127.0.0.1:{served.port}", self.writing
        return verify(Request(one.job, self.job_file, one.cluster, GENERATION, (CHANGELOG, VIEW), api_url=url))


@pytest.fixture
def stage(broker: Any, tmp_path: Path) -> Iterator[Stage]:
    job, path = make_job(tmp_path / "job")
    writing = Writing(broker.cluster, job)
    for epoch in range(4):
        writing.epoch(Sold(shop, epoch, 100 * epoch + at) for at, shop in enumerate(SHOPS))
    yield Stage(writing, path, tmp_path)
    writing.close()


PARTS: list[dict[str, Any]] = [
    {"keys": ["EW3", "LG7", "nobody", *ODD]},
    {"prefixes": ["EW", "ü", "zero\0"]},
    {"since_ms": 3 * HOUR_MS},
    {"keys": ["JF1"], "prefixes": ["LG1", "aaa"], "since_ms": 2 * HOUR_MS},
]


@pytest.mark.variations
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("how", ["steps", "chunks", "workers"])
def test_a_view_holds_its_part_and_proves_the_whole(stage: Stage, part: dict[str, Any], how: str) -> None:
    """However rows come into the store, and as they change."""
    writing, selection = stage.writing, Selection.of(**part)
    options: dict[str, Any] = {"chunk_rows": 7 if how == "chunks" else 1_000}
    if how == "workers":
        options["bulk"] = Restoring(writing, stage.folder).bulk
    with following(writing.cluster, writing.job, stage.folder / "view", selection=selection, **options) as view:
        view.wait_for(4)
        assert view.rows() == (4, stage.kept(4, **part))
        last = writing.epoch(Sold(shop, 3, 7) for shop in SHOPS[::2])
        view.wait_for(last.sequence)
        assert view.rows() == (last.sequence, stage.kept(last.sequence, **part))
        assert view.seen.divergences == 0
    assert 0 < len(stage.kept(5, **part)) < len(writing.by_sequence[5])


@pytest.mark.parametrize("workers", [False, True])
def test_rows_that_are_not_kept_are_proved_all_the_same(stage: Stage, workers: bool) -> None:
    """A milestone is whole or it is not shown, whoever looks at it."""
    writing = stage.writing
    rows = [Sold(shop, 9, 1) for shop in SHOPS]
    written = writing.rows([Sold("JF1", 9, 2), *rows[1:]], epoch=4)
    writing.milestone(rows, [*written[1:], (written[0][0], b"otherwise")])
    options = {"bulk": Restoring(writing, stage.folder).bulk} if workers else {}
    selection = Selection.of(prefixes=["EW"])
    with following(writing.cluster, writing.job, stage.folder / "view", selection=selection, **options) as view:
        assert "holds" in view.wait_stopped()


@pytest.mark.slow
def test_a_store_of_another_part_is_built_anew(stage: Stage) -> None:
    """Also by one that holds everything, and the same part stays."""
    writing, before = stage.writing, "at first"
    for part in (None, {"keys": ["EW3"]}, {"keys": ["EW3", "EW4"]}, {"since_ms": 2 * HOUR_MS}, None):
        selection = Selection.of(**part) if part else None
        with following(writing.cluster, writing.job, stage.folder / "view", selection=selection) as view:
            assert view.store.emptied == (before != "at first")
            view.wait_for(4)
            assert view.rows() == (4, stage.kept(4, **part) if part else writing.by_sequence[4])
        again = Store(stage.folder / "view", writing.job, GENERATION, selection=selection)
        assert (again.emptied, again.applied is None) == (False, False)
        again.close()
        before = str(part)


@pytest.fixture
def restore(stage: Stage) -> Command:
    return Command(stage.writing, stage.job_file, stage.folder / "data")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [False, True])
def test_restore_keeps_what_is_asked_for(
    stage: Stage, restore: Command, workers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys, prefixes and time together; all rows are read, and another part of the folder is refused."""
    if workers:
        monkeypatch.setattr(BulkLoader, "is_worthwhile", lambda _self, _slices: True)
    asked = ["--keys", "JF1,LG2", "--prefix", "EW1", "--since", "1970-01-01T02:00:00Z"]
    told = restore.json(*asked)
    part: dict[str, Any] = {"keys": ["JF1", "LG2"], "prefixes": ["EW1"], "since_ms": 2 * HOUR_MS}
    assert told["restored"]["records"] == 4 * len(SHOPS)
    assert told["selection"] == {"keys": ["JF1", "LG2"], "prefixes": ["EW1"], "since_ms": 2 * HOUR_MS}
    assert restore.rows(selection=Selection.of(**part)) == (4, stage.kept(4, **part))
    for other in ([], ["--keys", "JF1"], ["--partitions", "0"]):
        refused = restore(*other)
        assert refused.exit_code == 2
        assert "with the keys JF1, LG2 and the keys that begin with EW1" in " ".join(refused.output.split())
    stage.writing.epoch([Sold("JF1", 3, 5), Sold("JF2", 3, 5)])
    assert restore.json(*asked)["restored"]["records"] == 2
    assert restore.rows(selection=Selection.of(**part)) == (5, stage.kept(5, **part))


def test_of_keys_alone_only_their_partitions_are_read(stage: Stage, restore: Command) -> None:
    partition = stage.writing.partition("JF1")
    theirs = [shop for shop in SHOPS if stage.writing.partition(shop) == partition]
    told = restore.json("--keys", '["JF1"]')
    assert [one["partition"] for one in told["partitions"]] == [partition]
    assert told["restored"]["records"] == 4 * len(theirs) < 4 * len(SHOPS)
    held = restore.rows(frozenset({partition}), Selection.of(["JF1"]))
    assert held == (4, stage.kept(4, keys=["JF1"]))
    refused = restore("--keys", "JF1", "--partitions", str((partition + 1) % 3))
    assert refused.exit_code == 2
    assert f"key JF1 is in partition {partition}" in " ".join(refused.output.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--keys", ","], "is no list of names"),
        (["--prefix", '[""]'], "an empty prefix"),
        (["--since", "yesterday"], "is no time"),
    ],
)
def test_mistakes_are_one_line(restore: Command, arguments: list[str], says: str) -> None:
    refused = restore(*arguments)
    assert refused.exit_code == 2
    assert says in " ".join(refused.output.split())
    assert not restore.data.exists()


@pytest.mark.slow
def test_a_replica_follows_and_says_what_it_lacks(stage: Stage) -> None:
    """Of a selection; each answer names it, other keys are refused, and what it holds is verified."""
    part: dict[str, Any] = {"prefixes": ["EW"], "since_ms": 2 * HOUR_MS}
    told = {"keys": [], "prefixes": ["EW"], "since_ms": 2 * HOUR_MS}
    kept = {"CUTWATER_SNAPSHOTS": str(stage.folder / "snapshots")}
    env = {"CUTWATER_SELECT_PREFIXES": "EW", "CUTWATER_SELECT_SINCE": str(2 * HOUR_MS), **kept}
    with stage.replica(**env) as served:
        until(served.answers, "the API")
        token = str(stage.writing.epoch([Sold("EW1", 3, 5), Sold("JF1", 3, 6)]).token)
        answer = served.get("/v1/state/EW1", at_least=token).json()
        assert [row["pieces"] for row in answer["rows"]] == [201, 5]
        counted = {"keys": 0, "prefixes": 1, "since_ms": 2 * HOUR_MS}
        assert answer["holds"] == {"partitions": None, "selection": counted}
        refused = served.get("/v1/state/JF1")
        assert refused.status_code == 421
        assert "holds only the keys that begin with EW, in windows that end after 1970" in refused.text
        scanned = served.get("/v1/state", limit=10_000).json()
        assert len(scanned["rows"]) == len(stage.kept(5, **part)) == 40
        assert scanned["holds"]["selection"] == told
        health = served.get("/healthz").json()
        assert (health["role"], health["selection"], health["partitions"]) == ("replica", counted, None)
        assert "it is a read-only replica" in served.post("/v1/snapshots").json()["detail"]
        result = stage.verified(served)
        assert {one.place: (one.verdict, one.found.rows) for one in result.answers} == {
            CHANGELOG: (Verdict.EQUAL, len(stage.writing.by_sequence[5])),
            VIEW: (Verdict.EQUAL, 40),
        }
    assert not (stage.folder / "snapshots").exists()


@pytest.mark.slow
def test_a_replica_of_partitions_or_of_some_keys(stage: Stage) -> None:
    """Of keys alone it reads their partitions only; neither answers for what it does not hold."""
    partition = stage.writing.partition("JF1")
    others = [shop for shop in SHOPS if stage.writing.partition(shop) != partition]
    theirs = [shop for shop in SHOPS if stage.writing.partition(shop) == partition and shop != "JF1"]
    for env, status in (("PARTITIONS", 200), ("KEYS", 421)):
        asked = {f"CUTWATER_SELECT_{env}": str(partition) if env == "PARTITIONS" else "JF1"}
        with stage.replica(**asked) as served:
            until(lambda: served.answers() and served.shown() == 4, "it")
            assert served.get("/healthz").json()["partitions"] == [partition]
            assert len(served.get("/v1/state/JF1").json()["rows"]) == 4
            assert served.get(path_of(theirs[0])).status_code == status
            assert served.get(path_of(others[0])).status_code == 421
            assert {one.verdict for one in stage.verified(served).answers} == {Verdict.EQUAL}


@pytest.mark.slow
def test_verify_finds_what_a_replica_lacks(stage: Stage) -> None:
    """It is compared with its selection, not with what it happens to hold."""
    asked = {"CUTWATER_SELECT_PREFIXES": "EW"}
    with stage.replica(**asked) as served:
        until(lambda: served.answers() and served.shown() == 4, "it")
    job = stage.writing.job
    table = RocksTable(folder_of(stage.folder / "replica", job.name, GENERATION))
    lost = storage_key(Window("EW7", 3 * HOUR_MS, 4 * HOUR_MS), segment_ms(job))
    assert table.get(lost)
    table.write({lost: None})
    table.close()
    with stage.replica(**asked) as served:
        until(lambda: served.answers() and served.shown() == 4, "it")
        result = stage.verified(served)
    assert [(one.place, one.verdict) for one in result.answers] == [
        (CHANGELOG, Verdict.EQUAL),
        (VIEW, Verdict.DIFFERENT),
    ]
    assert [one.name.key for one in result.differences] == ["EW7"]


@pytest.mark.slow
def test_a_replica_of_everything_is_one_too(stage: Stage) -> None:
    """It takes no snapshots, and needs no excuse in its answers."""
    kept = {"CUTWATER_SNAPSHOTS": str(stage.folder / "snapshots")}
    with stage.replica(CUTWATER_REPLICA="true", **kept) as served:
        until(lambda: served.answers() and served.shown() == 4, "it")
        assert "holds" not in served.get("/v1/state/JF1").json()
        assert served.get("/healthz").json()["role"] == "replica"
        assert served.post("/v1/snapshots").status_code == 409


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "says"),
    [
        (
            {"CUTWATER_REPLICA": "true", "CUTWATER_PEERS": "http://a:1", "CUTWATER_PEER": "http://a:1"},
            "is no peer",
        ),
        (
            {"CUTWATER_SELECT_KEYS": "a", "CUTWATER_PEERS": "http://a:1", "CUTWATER_PEER": "http://a:1"},
            "is no peer",
        ),
        ({"CUTWATER_SELECT_KEYS": ","}, "is no list of names"),
        ({"CUTWATER_SELECT_PARTITIONS": "0,9"}, "has partitions 0 to 2"),
    ],
)
def test_settings_that_cannot_be(stage: Stage, env: dict[str, str], says: str) -> None:
    """One line and code 2, before anything is opened."""
    with stage.replica(**env) as served:
        code, line = served.ended()
    assert (code, says in line) == (2, True), line
    assert not (stage.folder / "replica" / "views").exists()

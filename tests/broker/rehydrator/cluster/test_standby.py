"""A standby answers, marked, while its owner does not: killed, hung, cut off, or behind."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.config.settings import load_settings
from cutwater.core.checks.state_comparison import CHANGELOG, VIEW, RowTotals, Verdict
from cutwater.core.query.key_path import path_of
from cutwater.local.machine.ports import free_ports
from cutwater.verify.run import Request, verify
from support.views.changelogs import GENERATION, Sold, Writing, make_job, until
from support.views.rehydrating import Process, running

TOKEN = "a-token-of-enough-letters"
SHOPS = [f"s{number}" for number in range(40)]
GATED = """
import pathlib, time
from cutwater.views.follow.applier import Applier
apply = Applier.apply
def gated(self, plan):
    while not pathlib.Path({gate!r}).exists():
        time.sleep(0.02)
    return apply(self, plan)
Applier.apply = gated
"""
"""A rehydrator that applies nothing before a file is there."""


class Crew:
    """Rehydrators as processes, named by letters: `a|x,b` is an owner with a standby, and another owner."""

    def __init__(self, writing: Writing, job_file: Path, folder: Path, groups: str) -> None:
        self._arguments = (writing.cluster, job_file)
        self.folder = folder
        letters = groups.replace("|", "").replace(",", "")
        self.urls = {
            name: f"http://127.0.0.1:{port}" for name, port in zip(letters, free_ports(len(letters)), strict=True)
        }
        self.peers = "".join(self.urls.get(letter, letter) for letter in groups)

    @contextmanager
    def running(self, name: str, prefix: str = "", **env: str) -> Iterator[Process]:
        settings = {
            "CUTWATER_PORT": self.urls[name].rsplit(":", 1)[1],
            "CUTWATER_PEERS": self.peers,
            "CUTWATER_PEER": self.urls[name],
            "CUTWATER_API_TOKEN": TOKEN,
        }
        with running(*self._arguments, self.folder / name, prefix=prefix, **settings | env) as one:
            until(one.answers, "the API")
            yield one


def seen(process: Process, shop: str = "s7", **query: Any) -> tuple[int, bool, *tuple[int, ...]]:
    """Sequence, mark and pieces of an answer."""
    answer = process.get(path_of(shop), **query)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return body["milestone"]["sequence"], body["milestone"]["standby"], *(one["pieces"] for one in body["rows"])


def follows(process: Process, sequence: int) -> None:
    until(lambda: process.shown() == sequence and process.get("/healthz").json()["status"] == "following", "it")


@dataclass
class Stage:
    """A job with one epoch, and a folder for whoever serves it."""

    writing: Writing
    job_file: Path
    folder: Path

    def crew(self, groups: str) -> Crew:
        return Crew(self.writing, self.job_file, self.folder, groups)

    def verified(self, url: str) -> tuple[Verdict, RowTotals]:
        """The view at an address, compared with the changelog: the verdict, its rows and digest."""
        one = self.writing
        request = Request(one.job, self.job_file, one.cluster, GENERATION, (CHANGELOG, VIEW), api_url=url)
        result = verify(replace(request, api_headers={"Authorization": f"Bearer {TOKEN}"}))
        assert result.milestone == one.last
        found = {answer.place: answer for answer in result.answers}[VIEW]
        return found.verdict, found.found


@pytest.fixture
def stage(broker: Any, tmp_path: Path) -> Iterator[Stage]:
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    writing.epoch(Sold(shop, 1, 10) for shop in SHOPS)
    yield Stage(writing, path, tmp_path)
    writing.close()


@pytest.mark.slow
def test_a_killed_owner_is_answered_for_and_comes_back(stage: Stage) -> None:
    """Killed with -9: the standby goes on within a milestone, marked, and never back; restarted, the owner answers
    as soon as it has caught up, and what both hold has one digest."""
    crew = stage.crew("a|x")
    with crew.running("x") as standby:
        with crew.running("a") as owner:
            for one in (owner, standby):
                follows(one, 1)
                assert one.get("/readyz").status_code == 200
                assert seen(one) == (1, False, 10), "the standby passes it on"
            assert [one.get("/healthz").json()["role"] for one in (owner, standby)] == ["owner", "standby"]
            assert standby.get("/v1/milestone").json()["standby"], "its own"
            token = str(stage.writing.epoch([Sold("s7", 1, 20)]).token)
            owner.get(path_of("s7"), at_least=token)
            owner.process.kill()
        at = seen(standby)
        assert at in ((1, True, 10), (2, True, 20)), "within one milestone"
        assert seen(standby, at_least=token) == (2, True, 20)
        assert "cutwater_view_standby_answers_total 2.0" in standby.get("/metrics").text
        token = str(stage.writing.epoch([Sold("s7", 1, 30)]).token)
        assert seen(standby, at_least=token) == (3, True, 30)
        gate = stage.folder / "gate"
        with crew.running("a", GATED.format(gate=str(gate))) as owner:
            assert owner.shown() in (1, 2), "it shows what it had"
            for one in (owner, standby):
                assert seen(one) == (3, True, 30), "and lets the standby answer until it has the rest"
            gate.touch()
            until(lambda: seen(owner) == (3, False, 30), "the owner")
            until(lambda: seen(standby) == (3, False, 30), "the owner, by way of the standby")
            digests = {stage.verified(crew.urls[name]) for name in "ax"}
            assert len(digests) == 1
            assert digests.pop()[0] is Verdict.EQUAL


@pytest.mark.slow
def test_an_empty_owner_restores_while_its_standby_answers(stage: Stage) -> None:
    """Its folder is lost. Without the standby it says that it restores, as ever."""
    crew, gate = stage.crew("a|x"), stage.folder / "gate"
    with crew.running("a", GATED.format(gate=str(gate))) as owner:
        with crew.running("x") as standby:
            follows(standby, 1)
            for one in (owner, standby):
                assert seen(one) == (1, True, 10)
                assert one.get("/v1/state", limit=50).json()["milestone"]["standby"]
            assert owner.get("/readyz").status_code == 503
        assert owner.get("/v1/state/s7").status_code == 503
        gate.touch()
        until(lambda: owner.get("/v1/state/s7").status_code == 200, "the owner")
        assert seen(owner) == (1, False, 10)


@pytest.mark.slow
def test_the_other_peers_ask_the_standby_too(stage: Stage) -> None:
    """Keys and scans by way of the other owner; a scan that the owner began goes on at its standby."""
    crew = stage.crew("a|x,b")
    with crew.running("b") as other, crew.running("x") as standby:
        with crew.running("a") as owner:
            for one in (owner, standby, other):
                follows(one, 1)
            held = [one.get("/healthz").json()["partitions"] for one in (owner, standby, other)]
            assert held[0] == held[1]
            assert sorted([*held[0], *held[2]]) == [0, 1, 2]
            mine = {shop for shop in SHOPS if stage.writing.partition(shop) in held[0]}
            assert whole(pages(other)) == {False}
            scan, begun = pages(other), []
            while not (begun and keys(begun[-1]) & mine):
                begun.append(next(scan))
            owner.process.kill()
        assert whole([*begun, *scan]) == {True, False}
        assert {seen(other, shop) for shop in mine} == {(1, True, 10)}
        assert {seen(standby, shop) for shop in mine} == {(1, True, 10)}
        assert {seen(standby, shop) for shop in {*SHOPS} - mine} == {(1, False, 10)}, "those are b's"
        assert whole(pages(other)) == whole(pages(standby)) == {True, False}
        assert failures(other) < 10, "few asked the dead one; the others left it out"


Page = dict[str, Any]


def pages(process: Process) -> Iterator[Page]:
    """Of a scan, one after the other."""
    page: Page = {"next": None}
    while True:
        after = {"after": page["next"]} if page["next"] else {}
        answer = process.get("/v1/state", limit=3, **after)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        yield page
        if not page["next"]:
            return


def keys(page: Page) -> set[str]:
    return {row["key"] for row in page["rows"]}


def whole(scan: Iterable[Page]) -> set[bool]:
    """Everything, each row once; the marks that came with it."""
    every = list(scan)
    assert sorted(row["key"] for page in every for row in page["rows"]) == sorted(SHOPS)
    return {page["milestone"]["standby"] for page in every}


def failures(process: Process) -> float:
    lines = process.get("/metrics").text.splitlines()
    return float(next(one for one in lines if one.startswith("cutwater_view_peer_failures_total")).split()[1])


@pytest.mark.slow
def test_a_hung_owner_holds_up_one_question_at_a_time(stage: Stage) -> None:
    """It takes connections and says nothing: one question in a few seconds waits for it, and all are answered."""
    crew = stage.crew("a|x")
    with crew.running("x") as standby, crew.running("a") as owner:
        for one in (owner, standby):
            follows(one, 1)
        owner.process.send_signal(signal.SIGSTOP)
        try:
            for shop in SHOPS:
                assert seen(standby, shop) == (1, True, 10)
            assert failures(standby) < len(SHOPS) / 4
        finally:
            owner.process.send_signal(signal.SIGCONT)
        until(lambda: seen(standby) == (1, False, 10), "the owner")


@pytest.mark.slow
def test_where_nobody_is_at_the_newest_what_there_is_is_shown(stage: Stage) -> None:
    """Owner and standby both start anew, and the other peer asks them: behind is better than nothing."""
    crew, gate = stage.crew("a|x,b"), stage.folder / "gate"
    with crew.running("b") as other:
        with crew.running("a") as owner, crew.running("x") as standby:
            for one in (owner, standby, other):
                follows(one, 1)
            mine = next(
                shop
                for shop in SHOPS
                if stage.writing.partition(shop) in owner.get("/healthz").json()["partitions"]
            )
        stage.writing.epoch([Sold(shop, 1, 20) for shop in SHOPS])
        with ExitStack() as stack:
            late = [stack.enter_context(crew.running(name, GATED.format(gate=str(gate)))) for name in "ax"]
            assert seen(other, mine) == (1, False, 10)
            assert seen(late[0], mine) == (1, False, 10)
            assert seen(late[1], mine) == (1, True, 10)
            gate.touch()
            until(lambda: seen(other, mine) == (2, False, 20), "the owner")


@pytest.mark.slow
@pytest.mark.parametrize("owner", ["behind", "empty"])
def test_where_nobody_is_at_the_newest_the_newest_that_anyone_shows_is_served(stage: Stage, owner: str) -> None:
    """The standby's brokers are away, so it cannot know that it is at the newest; the owner starts, and shows less
    or nothing at all. Whoever is asked, the standby answers, marked, until the owner has caught up."""
    crew, gate = stage.crew("a|x,b"), stage.folder / "gate"
    with crew.running("b") as other:
        with crew.running("a") as one:
            follows(one, 1)
            held = one.get("/healthz").json()["partitions"]
        mine = next(shop for shop in SHOPS if stage.writing.partition(shop) in held)
        stage.writing.epoch([Sold(shop, 1, 20) for shop in SHOPS])
        with crew.running("x") as one:
            follows(one, 2)
        if owner == "empty":
            shutil.rmtree(stage.folder / "a")
        with (
            crew.running("a", GATED.format(gate=str(gate))) as late,
            crew.running("x", CUTWATER_BOOTSTRAP_SERVERS="127.0.0.1:1") as standby,
        ):
            assert late.shown() == (0 if owner == "empty" else 1)
            assert standby.shown() == 2
            for asked in (late, standby, other):
                assert seen(asked, mine) == (2, True, 20)
                assert whole(pages(asked)) == {True, False}
            gate.touch()
            for asked in (late, other):
                until(lambda: seen(asked, mine) == (2, False, 20), "the owner")  # noqa: B023


@pytest.mark.slow
def test_an_owner_without_its_brokers_is_answered_for(stage: Stage) -> None:
    """It shows what it had, and cannot know what is newest; alone it goes on showing that."""
    crew = stage.crew("a|x")
    with crew.running("a") as owner:
        follows(owner, 1)
    with crew.running("a", CUTWATER_BOOTSTRAP_SERVERS="127.0.0.1:1") as owner:
        assert seen(owner) == (1, False, 10)
        with crew.running("x") as standby:
            follows(standby, 1)
            token = str(stage.writing.epoch([Sold("s7", 1, 20)]).token)
            assert seen(standby, at_least=token) == (2, True, 20)
            until(lambda: seen(owner) == (2, True, 20), "the standby, which was away a moment ago")


@pytest.mark.slow
def test_one_digest_from_the_log_from_a_snapshot_and_by_a_standby(stage: Stage) -> None:
    """Three ways to one milestone: the standby begins from its owner's snapshot and takes none itself, the owner's
    view came from the log, and a third one takes snapshot and tail after the owner is gone."""
    crew = stage.crew("a|x")
    kept = {"CUTWATER_SNAPSHOTS": str(stage.folder / "snapshots")}
    with crew.running("a", **kept) as owner:
        follows(owner, 1)
        assert owner.process.poll() is None
        taken = owner.post("/v1/snapshots")
        assert taken.status_code == 202, taken.text
        until(lambda: list(stage.folder.glob("snapshots/*/*/all/manifests/*")), "the snapshot")
        stage.writing.epoch(Sold(shop, 2, 30) for shop in SHOPS[:9])
        follows(owner, 2)
        from_log = stage.verified(crew.urls["a"])
        with crew.running("x", **kept) as standby:
            follows(standby, 2)
            assert "snapshots_restored_total 1.0" in standby.get("/metrics").text
            refused = standby.post("/v1/snapshots")
            assert refused.status_code == 409
            assert crew.urls["a"] in refused.json()["detail"]
            owner.process.kill()
            owner.process.wait(20)
            assert seen(standby) == (2, True, 10, 30)
            by_takeover = stage.verified(crew.urls["x"])
    place = (stage.writing.cluster, stage.job_file, stage.folder / "anew")
    with running(*place, CUTWATER_API_TOKEN=TOKEN, **kept) as anew:
        until(anew.answers, "the API")
        follows(anew, 2)
        assert "snapshots_restored_total 1.0" in anew.get("/metrics").text
        from_snapshot = stage.verified(f"http://127.0.0.1:{anew.port}")
    assert from_log == from_snapshot == by_takeover
    assert from_log[0] is Verdict.EQUAL
    assert len(list(stage.folder.glob("snapshots/*/*/all/manifests/*"))) == 1, "the standby took none"


@pytest.mark.slow
def test_a_standby_must_be_named_once(broker: Any, tmp_path: Path) -> None:
    """One line and code 2, before anything is opened."""
    _, path = make_job(tmp_path)
    cases: list[tuple[str, str, str]] = [
        ("http://a:1|http://s:1,http://b:1|http://s:1", "http://s:1", "one is named twice: http://s:1"),
        ("http://a:1|", "http://a:1", "CUTWATER_PEERS: '' is no URL"),
        ("http://a:1|http://s:1", "http://c:1", "is none of http://a:1"),
    ]
    for peers, peer, says in cases:
        with running(broker.cluster, path, tmp_path / "data", CUTWATER_PEERS=peers, CUTWATER_PEER=peer) as one:
            code, line = one.ended()
        assert (code, says in line) == (2, True), line


def test_shares_are_those_of_the_setting() -> None:
    shares = load_settings({"CUTWATER_PEERS": "http://a:1/ | http://s:1, http://b:1"}).shares
    assert shares == {"http://a:1": ("http://s:1",), "http://b:1": ()}

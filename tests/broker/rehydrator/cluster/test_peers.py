"""Several rehydrators share a job's partitions: each proves its own, and any of them answers for all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import HTTPException

from cutwater.core.job.shards import ShardMap
from cutwater.core.query.key_path import KEY_ROUTE, key_query, path_of
from cutwater.core.state.partition_share import held_by, owners
from cutwater.local.machine.ports import free_ports
from cutwater.rehydrator.cluster.peers import Peers as AllPeers
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, Sold, Writing, encoded, following, make_job, until
from support.views.rehydrating import Process, running

TOKEN = "a-token-of-enough-letters"
ODD = ["a/b", "ü?x=1", "..", ".", "a/../b", "%2E%2E/x", "a b+c", "#", "x;y=1"]
"""Keys that a path may lose."""
SHOPS = [f"s{number}" for number in range(60)]


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    one = Writing(broker.cluster, make_job(tmp_path)[0])
    yield one
    one.close()


def held(writing: Writing, sequence: int, partitions: set[int]) -> dict[tuple[str, int], int]:
    """What a view of these partitions must show."""
    state = writing.by_sequence[sequence]
    return {window: pieces for window, pieces in state.items() if writing.partition(window[0]) in partitions}


@pytest.mark.parametrize("chunk_rows", [1_000, 7])
def test_a_view_of_some_partitions_holds_just_them(writing: Writing, tmp_path: Path, chunk_rows: int) -> None:
    """Restored, followed, in one piece and in chunks: its part of each milestone, proved."""
    writing.epoch(Sold(shop, 1, 10) for shop in SHOPS)
    options: dict[str, Any] = {"chunk_rows": chunk_rows, "partitions": frozenset({0, 2})}
    with following(writing.cluster, writing.job, tmp_path / "view", **options) as view:
        for epoch in range(3):
            last = writing.epoch(Sold(shop, 1 + epoch, 20 + epoch) for shop in SHOPS[epoch * 9 :])
            view.wait_for(last.sequence)
            assert view.rows() == (last.sequence, held(writing, last.sequence, {0, 2}))
        assert view.seen.divergences == 0
    assert held(writing, 4, {1}), "the others hold something, too"


@pytest.mark.parametrize("chunk_rows", [1_000, 2])
def test_each_view_proves_its_own_partitions(writing: Writing, tmp_path: Path, chunk_rows: int) -> None:
    """A row that is not what the milestone proves stops the view that holds it, and no other."""
    writing.epoch(Sold(shop, 1, 10) for shop in SHOPS)
    rows = [Sold(shop, 1, 11) for shop in SHOPS]
    damaged = writing.partition(SHOPS[0])
    sound = frozenset(range(3)) - {damaged}
    with ExitStack() as stack:
        views = [
            stack.enter_context(
                following(writing.cluster, writing.job, tmp_path / name, chunk_rows=chunk_rows, partitions=part)
            )
            for name, part in (("damaged", frozenset({damaged})), ("sound", sound))
        ]
        for view in views:
            view.wait_for(1)
        writing.rows([Sold(SHOPS[0], 1, 99), *rows[1:]], epoch=1)
        writing.milestone(rows, [encoded(writing.job, row) for row in rows])
        assert f"partitions {damaged})" in (reason := views[0].wait_stopped()), reason
        assert views[0].rows() == (1, held(writing, 1, {damaged}))
        views[1].wait_for(2)
        assert views[1].rows() == (2, held(writing, 2, set(sound)))


@pytest.mark.slow
def test_a_store_of_other_partitions_is_built_anew(writing: Writing, tmp_path: Path) -> None:
    """Nothing of a partition that went elsewhere is left, and what came is whole; the same ones stay."""
    writing.epoch(Sold(shop, 1, 10) for shop in SHOPS)
    before: frozenset[int] | None = None
    for part in (None, frozenset({0}), frozenset({0, 1}), None):
        with following(writing.cluster, writing.job, tmp_path / "view", partitions=part) as view:
            assert (view.store.emptied, view.first_shown) == (part != before, None)
            view.wait_for(1)
            assert view.rows() == (1, held(writing, 1, set(part or range(3))))
        again = Store(tmp_path / "view", writing.job, GENERATION, partitions=part)
        assert (again.emptied, again.applied is None) == (False, False)
        again.close()
        before = part


class Peers:
    """Rehydrators as processes that share three partitions."""

    def __init__(self, writing: Writing, job_file: Path, folder: Path, count: int = 2) -> None:
        self._arguments = (writing.cluster, job_file)
        self._folder = folder
        self.ports = free_ports(count)
        self.urls = [f"http://127.0.0.1:{port}" for port in self.ports]

    @contextmanager
    def running(self, number: int, **env: str) -> Iterator[Process]:
        settings = {
            "CUTWATER_PORT": str(self.ports[number]),
            "CUTWATER_PEERS": ", ".join(self.urls),
            "CUTWATER_PEER": self.urls[number],
            "CUTWATER_API_TOKEN": TOKEN,
        }
        with running(*self._arguments, self._folder / str(number), **settings | env) as one:
            until(one.answers, "the API")
            yield one


def scanned(peer: Process, limit: int) -> dict[str, int]:
    """Every row by way of one peer, page by page."""
    found: dict[str, int] = {}
    page: dict[str, Any] = {"next": None}
    while True:
        query = {"after": page["next"]} if page["next"] else {}
        answer = peer.get("/v1/state", limit=limit, **query)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert len(page["rows"]) <= limit
        for row in page["rows"]:
            assert row["key"] not in found, "a row comes once"
            found[row["key"]] = row["pieces"]
        if page["next"] is None:
            return found


@pytest.mark.slow
def test_any_peer_answers_for_all(broker: Any, tmp_path: Path) -> None:
    """Keys and scans are passed on, tokens are waited for; a peer that is away takes its own part away only."""
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    writing.epoch(Sold(shop, 1, number) for number, shop in enumerate([*SHOPS, *ODD]))
    peers = Peers(writing, path, tmp_path)
    with peers.running(0) as one:
        with peers.running(1) as other:
            for peer in (one, other):
                until(lambda: peer.shown() == 1, "the milestone")  # noqa: B023
            health = [peer.get("/healthz").json()["partitions"] for peer in (one, other)]
            assert sorted([*health[0], *health[1]]) == [0, 1, 2]
            assert all(health)
            token = str(writing.epoch([Sold(shop, 1, 1_000) for shop in SHOPS[:30]]).token)
            wanted = {shop: pieces for (shop, _), pieces in writing.by_sequence[2].items()}
            for peer in (one, other):
                for shop, pieces in wanted.items():
                    answer = peer.get(path_of(shop), at_least=token)
                    assert peer.get(KEY_ROUTE, **key_query(shop)).json()["rows"] == answer.json()["rows"]
                    assert [row["pieces"] for row in answer.json()["rows"]] == [pieces], shop
                    assert answer.json()["milestone"]["token"] == token
                assert scanned(peer, 7) == wanted
                assert peer.get("/v1/state", limit=0).status_code == 422
                assert peer.get(f"/v1/state/{SHOPS[0]}", at_least="nonsense").status_code == 400
                assert "cutwater_view_requests_passed_on_total 0.0" not in peer.get("/metrics").text
        answers = {shop: one.get(f"/v1/state/{shop}") for shop in SHOPS}
        away = {shop for shop, answer in answers.items() if answer.status_code == 503}
        assert away == {shop for shop in SHOPS if writing.partition(shop) not in health[0]}
        assert peers.urls[1] in answers[min(away)].json()["detail"]
        assert {answer.status_code for shop, answer in answers.items() if shop not in away} == {200}
    writing.close()


@pytest.mark.slow
def test_peers_that_do_not_agree_say_so(broker: Any, tmp_path: Path) -> None:
    """A question is passed on once: it does not go round between two that each think the other holds the key."""
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    writing.epoch(Sold(shop, 1, 1) for shop in SHOPS)
    peers = Peers(writing, path, tmp_path)
    taken_for = held_by(peers.urls[1], owners(peers.urls, 3))
    strangers = (f"http://stranger-{number}:1" for number in range(100))
    stranger = next(
        one for one in strangers if taken_for - held_by(peers.urls[1], owners([peers.urls[1], one], 3))
    )
    with peers.running(0) as one, peers.running(1, CUTWATER_PEERS=f"{peers.urls[1]},{stranger}"):
        answers = [one.get(f"/v1/state/{shop}") for shop in SHOPS]
        scan = one.get("/v1/state", limit=7)
        while scan.status_code == 200 and scan.json()["next"]:
            scan = one.get("/v1/state", limit=7, after=scan.json()["next"])
    refused = [answer.text for answer in answers if answer.status_code == 421]
    assert refused
    assert "compare CUTWATER_PEERS" in refused[0]
    assert scan.status_code == 421, "a part of the rows would be left out, and nobody would know"
    writing.close()


def test_a_cursor_of_another_division_is_refused() -> None:
    """Between two pages the list of peers has changed: rows would be left out, or come twice."""
    before, now = (
        AllPeers(ShardMap(1024, 3), dict.fromkeys(urls, ()), urls[0], "", Metrics()).agreed
        for urls in (["http://a:1", "http://b:1"], ["http://a:1", "http://c:1"])
    )
    text = parsing.cursor_text(before, 1, b"place")
    assert parsing.cursor(text, before) == (1, b"place")
    with pytest.raises(HTTPException, match="division of the partitions has changed") as refused:
        parsing.cursor(text, now)
    assert refused.value.status_code == 400


@pytest.mark.slow
@pytest.mark.parametrize(
    ("peers", "peer", "says"),
    [
        ("http://a:1,http://a:1", "http://a:1", "named twice"),
        ("http://a:1,http://b:1", "http://c:1", "is none of http://a:1, http://b:1"),
        ("http://a:1,http://b:1,http://c:1,http://d:1", "http://a:1", "4 peers cannot share 3 partitions"),
        ("a:1,http://b:1", "http://b:1", "CUTWATER_PEERS: 'a:1' is no URL"),
        ("http://a:none", "http://a:none", "is no URL"),
        ("http://a:1/v1", "http://a:1/v1", "is no URL"),
    ],
)
def test_settings_that_cannot_be(broker: Any, tmp_path: Path, peers: str, peer: str, says: str) -> None:
    """One line and code 2, before anything is opened."""
    _, path = make_job(tmp_path)
    with running(broker.cluster, path, tmp_path / "data", CUTWATER_PEERS=peers, CUTWATER_PEER=peer) as one:
        code, line = one.ended()
    assert (code, says in line) == (2, True), line
    assert not (tmp_path / "data" / "views").exists()

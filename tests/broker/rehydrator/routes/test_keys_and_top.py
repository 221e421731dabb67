"""Answers that span owners: several keys, top rows and scans by shard are the same whichever peer is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.rehydrator.cluster.test_peers import SHOPS, TOKEN, Peers
from cutwater.adapters.hashing import key_hash
from cutwater.rehydrator.cluster.peers import PASSED_ON
from support.views.changelogs import Sold, Writing, make_job
from support.views.rehydrating import Process

SECRET = {"Authorization": f"Bearer {TOKEN}"}


def post(peer: Process, body: dict[str, Any], **query: Any) -> httpx.Response:
    url = f"http://127.0.0.1:{peer.port}/v1/keys"
    return httpx.post(url, json=body, params=query, headers=SECRET, timeout=40)


def parts(answer: Any) -> list[int]:
    """The partitions that the milestones of an answer are about, all together."""
    return sorted(number for one in answer["milestones"] for number in one["partitions"])


def several(peer: Process, token: str, sold: dict[str, int]) -> None:
    answer = post(peer, {"keys": [*sold, "nobody"]}, at_least=token).json()
    assert [one["key"] for one in answer["keys"]] == [*sold, "nobody"]
    assert [[row["pieces"] for row in one["rows"]] for one in answer["keys"]] == [
        *([one] for one in sold.values()),
        [],
    ]
    assert {one["token"] for one in answer["milestones"]} == {token}
    assert parts(answer) == [0, 1, 2]
    for one in answer["keys"]:  # of which part its rows are
        shard = key_hash(one["key"]) % 1024
        assert shard * 3 // 1024 in answer["milestones"][one["milestone"]]["partitions"]
    few = post(peer, {"keys": list(sold), "rows": 7}).json()
    assert len(few["keys"]) <= 7
    assert sorted([one["key"] for one in few["keys"]] + few["next_keys"]) == sorted(sold)
    assert len(post(peer, {"keys": list(sold), "rows": 1}).json()["keys"]) == 1


def top(peer: Process, token: str, sold: dict[str, int]) -> None:
    for order, sign in (("desc", -1), ("asc", 1)):
        answer = peer.get("/v1/top", measure="mean", order=order, limit=25, at_least=token).json()
        wanted = sorted(sold.items(), key=lambda one: (sign * one[1], one[0]))[:25]
        assert [(row["key"], row["pieces"]) for row in answer["rows"]] == wanted
        assert parts(answer) == [0, 1, 2]
    assert peer.get("/v1/top", measure="profit").status_code == 422
    assert peer.get("/v1/top", measure="mean", at_least=token[:-1] + "9", wait_ms=10).status_code == 412


def by_shard(peer: Process, sold: dict[str, int]) -> None:
    for shards in (range(1024), range(200), range(300, 700), range(1000, 1024)):
        found, after, asked = [], {}, f"{shards[0]}-{shards[-1]}"
        while True:
            page = peer.get("/v1/state", shards=asked, limit=9, **after).json()
            found += [row["key"] for row in page["rows"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert sorted(found) == sorted(shop for shop in sold if key_hash(shop) % 1024 in shards)


@pytest.mark.slow
def test_any_peer_answers_for_the_parts_of_all(broker: Any, tmp_path: Path) -> None:
    """Whole, in order, with a milestone of each owner; where one is away there is no answer about its part."""
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    sold = {shop: number // 3 for number, shop in enumerate(SHOPS)}  # with equal ones
    token = str(writing.epoch(Sold(shop, 1, pieces) for shop, pieces in sold.items()).token)
    peers = Peers(writing, path, tmp_path)
    with peers.running(0) as one:
        with peers.running(1) as other:
            for peer in (one, other):
                several(peer, token, sold)
                top(peer, token, sold)
                by_shard(peer, sold)
            own = set(one.get("/healthz").json()["partitions"])
            url = f"http://127.0.0.1:{one.port}"
            strange = SECRET | {PASSED_ON: "00"}
            refused = [
                httpx.post(f"{url}/v1/keys", json={"keys": ["a"]}, headers=strange),
                httpx.get(f"{url}/v1/top?measure=mean", headers=strange),
                httpx.get(f"{url}/v1/state?shards=1", headers=strange),
            ]
            assert [answer.status_code for answer in refused] == [421, 421, 421], "of another division"
        away = post(one, {"keys": list(sold)})
        assert (away.status_code, peers.urls[1] in away.json()["detail"]) == (503, True)
        assert one.get("/v1/top", measure="mean").status_code == 503
        mine = [shop for shop in sold if writing.partition(shop) in own]
        assert len(post(one, {"keys": mine}).json()["keys"]) == len(mine)
    writing.close()

"""Peers change over to another generation each by itself: what they answer meanwhile is whole, or 503."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.rehydrator.cluster.test_standby import GATED, Crew
from cutwater.adapters.hashing import key_hash
from cutwater.core.job.shards import ShardMap
from cutwater.core.query.key_path import path_of
from cutwater.core.state.partition_share import owners
from support.views.changelogs import Rows, Sold, Writing, make_job, until
from support.views.rehydrating import Process, running

SHOPS = [f"s{number}" for number in range(24)]


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    one = Writing(broker.cluster, make_job(tmp_path)[0])
    one.epoch(Sold(shop, 1, 10) for shop in SHOPS)
    yield one
    one.close()


def crew_of(writing: Writing, folder: Path, groups: str) -> Crew:
    return Crew(writing, folder / f"{writing.job.name}.yaml", folder, groups)


def check_keys(peer: Process, writing: Writing) -> dict[int, list[str]]:
    """Ask for each key; each answer has the rows of its milestone. Returns the keys by sequence, 0 for 503."""
    found: dict[int, list[str]] = {}
    for shop in SHOPS:
        answer = peer.get(path_of(shop))
        if answer.status_code == 503:
            assert "the switch is in progress" in answer.text, answer.text
            found.setdefault(0, []).append(shop)
            continue
        assert answer.status_code == 200, answer.text
        sequence = answer.json()["milestone"]["sequence"]
        assert [row["pieces"] for row in answer.json()["rows"]] == pieces(writing.by_sequence[sequence], shop)
        found.setdefault(sequence, []).append(shop)
    return found


def pieces(rows: Rows, shop: str) -> list[int]:
    return [rows[at] for at in sorted(rows) if at[0] == shop]


def parts(milestones: list[dict[str, Any]], writing: Writing) -> Iterator[tuple[str, int]]:
    """Keys and pieces of each owner's part at its own milestone."""
    shards = ShardMap(writing.job.shards.shards, sum(len(one["partitions"]) for one in milestones))
    for one in milestones:
        for (shop, _), found in writing.by_sequence[one["sequence"]].items():
            if shards.partition(shards.shard(key_hash(shop))) in one["partitions"]:
                yield shop, found


def check_spans(peer: Process, writing: Writing) -> int:
    """All keys at once, and the top rows: whole at one generation, or refused. Returns the status of both."""
    url = f"http://127.0.0.1:{peer.port}/v1/keys"
    answer = httpx.post(url, json={"keys": SHOPS}, headers=peer.headers, timeout=40)
    top = peer.get("/v1/top", measure="pieces", limit=1000)
    assert answer.status_code == top.status_code
    if answer.status_code == 200:
        body = answer.json()
        sequences = [one["sequence"] for one in body["milestones"]]
        assert [one["key"] for one in body["keys"]] == SHOPS
        for one in body["keys"]:
            at = writing.by_sequence[sequences[one["milestone"]]]
            assert [row["pieces"] for row in one["rows"]] == pieces(at, one["key"])
        shown = top.json()
        rows = sorted((row["key"], row["pieces"]) for row in shown["rows"])
        assert rows == sorted(parts(shown["milestones"], writing))
    else:
        assert (
            answer.status_code,
            "the switch is in progress" in answer.text,
            "the switch is in progress" in top.text,
        ) == (
            503,
            True,
            True,
        )
    return answer.status_code


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [5, 3])
def test_peers_change_over_one_after_the_other(writing: Writing, tmp_path: Path, partitions: int) -> None:
    """One has the other generation, one has not: the latter answers for all of the old one, the former for what it
    holds of the new one, and passes on what the other will hold. Divided alike, neither ever refuses."""
    crew, gate = crew_of(writing, tmp_path, "a,b"), tmp_path / "gate"
    with crew.running("a") as early, crew.running("b") as late:
        for one in (early, late):
            until(lambda: one.shown() == 1, "the first generation")  # noqa: B023
    with crew.running("a") as early, crew.running("b", GATED.format(gate=str(gate))) as late:
        for one in (early, late):
            assert set(check_keys(one, writing)) == {1}
        writing.promote(partitions, [Sold(shop, 2, 7) for shop in SHOPS])
        until(lambda: early.shown() == 2, "one to change over")
        assert late.shown() == 1
        old, new = (owners([crew.urls["a"], crew.urls["b"]], count) for count in (3, partitions))
        theirs = [shop for shop in SHOPS if new[writing.partition(shop)] == crew.urls["b"]]
        mixed = partitions == 3
        assert check_keys(early, writing) == {2: [s for s in SHOPS if s not in theirs], int(mixed): theirs}
        assert old == new or not mixed
        assert set(check_keys(late, writing)) == ({1, 2} if mixed else {1})
        assert (check_spans(early, writing), check_spans(late, writing)) == (200 if mixed else 503, 200)
        gate.touch()
        until(lambda: late.shown() == 2, "the other to change over")
        for one in (early, late):
            assert set(check_keys(one, writing)) == {2}
            assert check_spans(one, writing) == 200


@pytest.mark.slow
def test_a_standby_answers_while_its_owner_is_away(writing: Writing, tmp_path: Path) -> None:
    """Both change over; the owner is killed before it has: its standby has the new generation, and no owner."""
    crew, gate = crew_of(writing, tmp_path, "a|x,b"), tmp_path / "gate"
    gated = GATED.format(gate=str(gate))
    with crew.running("x") as standby, crew.running("b") as other:
        with crew.running("a") as owner:
            for one in (owner, standby, other):
                until(lambda: one.shown() == 1, "the first generation")  # noqa: B023
            owner.process.kill()
        with crew.running("a", gated) as owner:
            until(lambda: owner.shown() == 1, "the owner again")
            writing.promote(5, [Sold(shop, 2, 7) for shop in SHOPS])
            for one in (standby, other):
                until(lambda: one.shown() == 2, "the new generation")  # noqa: B023
            for one in (standby, other):
                assert set(check_keys(one, writing)) == {2}, "the owner is passed over: it is not there yet"
            assert set(check_keys(owner, writing)) <= {1, 2}
            gate.touch()
            until(lambda: owner.shown() == 2, "the owner")
            assert set(check_keys(owner, writing)) == {2}


@pytest.mark.slow
def test_a_replica_of_some_keys_finds_them_in_their_new_partitions(writing: Writing, tmp_path: Path) -> None:
    """Which partitions a selection of keys is in follows from the generation."""
    chosen = SHOPS[:3]
    env = {"CUTWATER_SELECT_KEYS": ",".join(chosen)}
    with running(writing.cluster, tmp_path / f"{writing.job.name}.yaml", tmp_path / "data", **env) as served:
        until(served.answers, "the API")
        until(lambda: served.shown() == 1, "the first generation")
        for partitions in (7, 1):
            last = writing.promote(partitions, [Sold(shop, 2, partitions) for shop in SHOPS])
            until(lambda: served.shown() == last.sequence, "the next generation")  # noqa: B023
            shards = writing.job.shards
            held = sorted({shards.partition(shards.shard(key_hash(shop))) for shop in chosen})
            assert served.get("/healthz").json()["partitions"] == held
            for shop in chosen:
                assert served.pieces(shop) == [10, partitions]
            assert served.get(path_of("s9")).status_code == 421


@pytest.mark.slow
def test_more_peers_than_partitions_leave_the_generation_before(writing: Writing, tmp_path: Path) -> None:
    """The last good milestone stays, it is not ready, and says what is wrong."""
    crew = crew_of(writing, tmp_path, "a,b")
    with crew.running("a") as one, crew.running("b") as other:
        for each in (one, other):
            until(lambda: each.shown() == 1, "the first generation")  # noqa: B023
        writing.promote(1)
        until(lambda: one.get("/readyz").status_code == 503, "it to stop")
        assert "cannot share 1 partitions" in one.get("/healthz").json()["reason"]
        assert set(check_keys(one, writing)) == {1}
        writing.promote(4)
        for each in (one, other):
            until(lambda: each.shown() == writing.last.sequence, "one that they can share")  # noqa: B023

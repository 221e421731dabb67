"""The global view over two real brokers: merged answers are what DuckDB makes of both regions' events together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import from_origin
from cutwater.core.query.key_path import path_of
from cutwater.core.util.timestamps import iso_ms
from cutwater.local.machine.ports import free_ports
from support.regions.mirroring import ORIGIN, Events, mirroring, wait_arrived
from support.regions.twoevents import Region, make_job, oracle, shown
from support.views.changelogs import HOUR_MS, until
from support.views.rehydrating import Process, running
from unit.views.store.test_store import entry

TOKEN = "a-token-of-enough-letters"
SHOPS = [*(f"shop-{number}" for number in range(25)), "a/b", "ü?x=1", ".."]
EU, HERE = SHOPS[:20] + SHOPS[25:], SHOPS[5:]
"""Most shops sell in both regions, some in one alone."""
HOURS = range(1, 9)


class Stage:
    """Region `local`, mirrored to `eu`; there a rehydrator of each, which know each other."""

    def __init__(self, own: Cluster, origin: Cluster, folder: Path) -> None:
        self.job, self.path = make_job(folder)
        self.folder, self.own, self.origin = folder, own, origin
        self.eu, self.us = Region(own, self.job, "eu", 1), Region(origin, self.job, ORIGIN, 2)
        self.ports = free_ports(2)
        self.urls = {
            name: f"http://127.0.0.1:{port}" for name, port in zip(("eu", ORIGIN), self.ports, strict=True)
        }

    @contextmanager
    def serving(self, region: str, **env: str) -> Iterator[Process]:
        settings = {
            "CUTWATER_REGION": "eu",
            "CUTWATER_PORT": str(self.ports[region == ORIGIN]),
            "CUTWATER_REGIONS": ",".join(f"{name}={url}" for name, url in self.urls.items()),
            "CUTWATER_API_TOKEN": TOKEN,
        }
        replica = {"CUTWATER_REPLICA_OF": ORIGIN} if region == ORIGIN else {}
        with running(self.own, self.path, self.folder / region, **settings | replica | env) as one:
            until(one.answers, "the API")
            yield one

    @contextmanager
    def mirrored(self) -> Iterator[None]:
        """A mirror; entered once what region `local` has so far has arrived."""
        assert self.us.last is not None
        with mirroring(self.own, self.origin, self.job) as mirror:
            wait_arrived(mirror, self.own, self.job, self.us.last.sequence)
            yield

    def close(self) -> None:
        self.eu.close()
        self.us.close()


@pytest.fixture
def stage(broker: Any, origin: Cluster, tmp_path: Path) -> Iterator[Stage]:
    one = Stage(broker.cluster, origin, tmp_path)
    yield one
    one.close()


def keyed(rows: list[dict[str, Any]]) -> dict[tuple[str, int], tuple[Any, ...]]:
    found = {(row["key"], iso_ms(row["window_start"])): shown(row) for row in rows}
    assert len(found) == len(rows), "each row comes once"
    return found


def paged(ask: Callable[[dict[str, Any]], dict[str, Any]], cursor: str, follows: str) -> list[dict[str, Any]]:
    """All rows, page by page."""
    rows, query = [], {}
    while True:
        answer = ask(query)
        rows += answer["rows"]
        if answer[follows] is None:
            return rows
        query = {cursor: answer[follows]}


def scanned(peer: Process, limit: int, **query: Any) -> list[dict[str, Any]]:
    def ask(more: dict[str, Any]) -> dict[str, Any]:
        answer = peer.get("/v1/global/state", limit=limit, **query, **more)
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["rows"]) <= limit
        return dict(answer.json())

    return paged(ask, "after", "next")


def same(found: dict[Any, Any], expected: dict[Any, Any]) -> None:
    assert sorted(found) == sorted(expected)
    for at, row in expected.items():
        assert found[at] == row, at


def point(peer: Process, key: str, **query: Any) -> Any:
    return peer.get(path_of(key).replace("/v1/state/", "/v1/global/state/", 1), **query)


def several(peer: Process, keys: list[str], rows: int, **query: Any) -> list[dict[str, Any]]:
    """All rows of some keys, question by question: each goes on with the keys and windows that had no room."""
    found: list[dict[str, Any]] = []
    asked: list[tuple[str, Any]] = [(key, None) for key in keys]
    while asked:
        first = asked[0][1]
        now = [key for key, start in asked if start == first]
        body = {"keys": now, "limit": 3, "rows": rows} | ({} if first is None else {"from": first})
        url = f"http://127.0.0.1:{peer.port}/v1/global/keys"
        answer = httpx.post(url, params=query, json=body, headers=peer.headers, timeout=40)
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert sum(len(one["rows"]) for one in told["keys"]) <= rows
        assert told["keys"], "each question gets on"
        assert sorted([one["key"] for one in told["keys"]] + told["next_keys"]) == sorted(now)
        found += [row for one in told["keys"] for row in one["rows"]]
        follow = [(one["key"], one["next_from"]) for one in told["keys"] if one["next_from"] is not None]
        asked = [*follow, *[(key, first) for key in told["next_keys"]], *[one for one in asked if one[1] != first]]
    return found


def ranked(expected: dict[tuple[str, int], tuple[Any, ...]], column: int, limit: int, sign: int) -> list[Any]:
    """The places of the first rows by a column."""
    return sorted(expected, key=lambda at: (sign * expected[at][column], at))[:limit]


@pytest.mark.slow
def test_merged_answers_are_those_over_the_events_of_both(stage: Stage) -> None:
    """Points, ranges and scans, from either side; every answer names one milestone of each region."""
    tokens: list[str] = []
    with ExitStack() as stack:
        for turn in range(3):
            tokens = [stage.eu.sell(300, EU, HOURS), stage.us.sell(200 + turn, HERE, HOURS)]
        stack.enter_context(stage.mirrored())
        both = [stack.enter_context(stage.serving(name)) for name in ("eu", ORIGIN)]
        for peer in both:
            expected = oracle(stage.eu, stage.us)
            first = point(peer, "shop-7", at_least=tokens, wait_ms=30_000)
            assert first.status_code == 200, first.text
            answer = first.json()
            assert [(one["region"], one["token"]) for one in answer["milestones"]] == list(
                zip(("eu", ORIGIN), tokens, strict=True)
            )
            assert (answer["partial"], answer["missing"], answer["next_from"]) == (False, [], None)
            assert answer["milestones"][1]["origin"] == ORIGIN
            for key in SHOPS:
                of = {at: row for at, row in expected.items() if at[0] == key}
                same(keyed(point(peer, key).json()["rows"]), of)
                narrow = point(peer, key, **{"from": 3 * HOUR_MS, "to": 6 * HOUR_MS}).json()["rows"]
                same(keyed(narrow), {at: row for at, row in of.items() if 3 * HOUR_MS <= at[1] < 6 * HOUR_MS})
            pages = paged(
                lambda more, peer=peer: point(peer, "shop-8", limit=2, **more).json(), "from", "next_from"
            )
            same(keyed(pages), {at: row for at, row in expected.items() if at[0] == "shop-8"})
            for limit in (1_000, 7):
                same(keyed(scanned(peer, limit)), expected)
            halves = [scanned(peer, 50, shards=shards) for shards in ("0-511", "512-1023")]
            same(keyed(halves[0] + halves[1]), expected)
            for rows in (1_000, 5):
                same(keyed(several(peer, SHOPS, rows)), expected)
            for measure, column in (("pieces", 1), ("takings", 2), ("most", 5), ("visitors", 8)):
                for order, sign in (("desc", -1), ("asc", 1)):
                    top = peer.get("/v1/global/top", measure=measure, limit=25, order=order).json()["rows"]
                    places = [(row["key"], iso_ms(row["window_start"])) for row in top]
                    assert places == ranked(expected, column, 25, sign), (measure, order)
                    assert [shown(row) for row in top] == [expected[at] for at in places]
            early = scanned(peer, 9, to=4 * HOUR_MS)
            same(keyed(early), {at: row for at, row in expected.items() if at[1] < 4 * HOUR_MS})
        tokens = [stage.eu.sell(30, EU, HOURS), stage.us.sell(20, HERE, HOURS)]
        answer = point(both[0], "shop-9", at_least=tokens, wait_ms=30_000).json()
        expected = oracle(stage.eu, stage.us)
        same(keyed(answer["rows"]), {at: row for at, row in expected.items() if at[0] == "shop-9"})
        asked_too_much(both[0], tokens)


def asked_too_much(peer: Process, tokens: list[str]) -> None:
    """Tokens of nobody, or out of reach, and cursors that are none: the status of an ordinary answer."""
    eu, us = tokens
    for at_least, status in (
        ([eu, eu], 400),
        (["g1-ap-00000000:1"], 400),
        (["nonsense"], 400),
        ([us[:-1] + "99"], 412),
        (["g1-eu-00000000:99"], 412),
    ):
        answer = point(peer, "shop-9", at_least=at_least, wait_ms=50)
        assert answer.status_code == status, answer.text
    for after in ("%", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAA"):
        assert peer.get("/v1/global/state", after=after).status_code == 400
    assert peer.get("/v1/global/state", shards="9999").status_code == 422


@pytest.mark.slow
def test_a_region_that_does_not_answer_is_named_or_there_is_no_answer(stage: Stage) -> None:
    """503 unless the asker allows less; then the rows are of the regions named, and of no other."""
    token = stage.eu.sell(200, EU, HOURS)
    with stage.serving("eu") as peer:
        for answer in (point(peer, "shop-7"), peer.get("/v1/global/state")):
            assert (answer.status_code, f"{ORIGIN} (" in answer.json()["detail"]) == (503, True), answer.text
        answer = point(peer, "shop-7", partial="true", at_least=[token], wait_ms=30_000).json()
        assert [one["region"] for one in answer["milestones"]] == ["eu"]
        assert (answer["partial"], [one["region"] for one in answer["missing"]]) == (True, [ORIGIN])
        same(keyed(answer["rows"]), {at: row for at, row in oracle(stage.eu).items() if at[0] == "shop-7"})
        same(keyed(scanned(peer, 20, partial="true")), oracle(stage.eu))
    away = f"{ORIGIN}=http://127.0.0.1:{free_ports(1)[0]}|{stage.urls[ORIGIN]}"
    token = stage.us.sell(200, HERE, HOURS)
    with stage.mirrored(), stage.serving(ORIGIN), stage.serving("eu", CUTWATER_REGIONS=away) as peer:
        until(lambda: peer.shown() == 1, "its own view")
        answer = point(peer, "shop-7", at_least=[token], wait_ms=30_000)
        assert answer.status_code == 200, answer.text  # by the second URL
        same(keyed(scanned(peer, 1_000)), oracle(stage.eu, stage.us))


@pytest.mark.slow
def test_below_the_highest_horizon_nothing_is_told(stage: Stage) -> None:
    """One region has forgotten its rows there: what the other still has would be taken for the whole."""
    stage.eu.sell(200, EU, HOURS)
    stage.us.sell(200, HERE, HOURS)
    last = [stage.eu.sell(50, EU, range(20, 28), watermark_ms=29 * HOUR_MS), stage.us.sell(50, HERE, range(9, 12))]
    with stage.mirrored(), stage.serving(ORIGIN), stage.serving("eu") as peer:
        answer = point(peer, "shop-7", at_least=last, wait_ms=30_000).json()
        above = iso_ms(answer["complete_above"])
        assert above == 5 * HOUR_MS, "retention behind the further one's watermark"
        assert iso_ms(answer["watermark"]) == 0, "the lower one"
        same(keyed(scanned(peer, 11)), oracle(stage.eu, stage.us, above_ms=above))


@pytest.mark.slow
def test_a_region_whose_rows_are_other_rows_is_left_out(stage: Stage) -> None:
    """The same events twice, or another job's: named as missing, never counted in."""
    stage.eu.sell(100, EU, HOURS)
    twice = f"{ORIGIN}={stage.urls['eu']}"
    with stage.serving("eu", CUTWATER_REGIONS=twice) as peer:
        until(lambda: peer.shown() == 1, "its own view")
        refused = point(peer, "shop-7")
        assert (refused.status_code, "is of another region" in refused.json()["detail"]) == (503, True)
        answer = point(peer, "shop-7", partial="true").json()
        assert "g1-eu-00000000" in answer["missing"][0]["reason"]
        same(keyed(answer["rows"]), {at: row for at, row in oracle(stage.eu).items() if at[0] == "shop-7"})


@pytest.mark.slow
def test_after_a_failover_each_event_counts_once(stage: Stage) -> None:
    """A region that went on from one that is dead counts its events, too: merged with the others, not with it."""
    source = stage.job.topic
    dead = replace(entry(stage.job, 7).milestone, generation=Generation(1, "ap"))
    own, copy = TopicPartition(source, 0), TopicPartition(from_origin(source, "ap"), 0)
    took = {"source_cut": Cut.of({own: 100, copy: 150}), "origin_cut": Cut.of({copy: 150})}
    stage.eu.take_over(dead, Generation(2, "eu", protocol_records.hash_of(dead).hex()[:8]))
    stage.eu.sell(150, EU, HOURS, of="ap", **took)
    events = Events(stage.us)
    events.produce(30)
    tokens = [stage.eu.sell(100, EU, HOURS, **took), stage.us.sell(100, HERE, HOURS, source_cut=events.cut())]
    with ExitStack() as stack:
        stack.enter_context(stage.mirrored())
        both = [stack.enter_context(stage.serving(name)) for name in ("eu", ORIGIN)]
        for peer in both:
            same(keyed(scanned(peer, 11, at_least=tokens, wait_ms=30_000)), oracle(stage.eu, stage.us))
            answer = point(peer, "shop-7").json()
            assert [one["events_of"] for one in answer["milestones"]] == [["ap", "eu"], [ORIGIN]]
        # And where it goes on to read a copy of the other region's source, whose job lives:
        took["source_cut"] = Cut.of({own: 100, copy: 150, TopicPartition(from_origin(source, ORIGIN), 0): 5})
        last = stage.eu.sell(50, EU, HOURS, of=ORIGIN, **took)
        refused = point(both[0], "shop-7", at_least=[last], wait_ms=30_000)
        assert refused.status_code == 503, refused.text
        for text in (
            "eu (its events would count twice",
            f"{ORIGIN} (its events",
            f"region {ORIGIN}'s {source}/0)",
        ):
            assert text in refused.json()["detail"]
        assert point(both[0], "shop-7", partial="true").status_code == 503, "neither of them is the whole"
        assert 'global_refusals_total{reason="regions"} 0.0' not in both[0].get("/metrics").text


@pytest.mark.slow
def test_the_owners_of_a_region_answer_together(stage: Stage) -> None:
    """Two rehydrators share a region's partitions: its part of the answer has the milestone of each."""
    ports = free_ports(2)
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    with ExitStack() as stack:
        tokens = [stage.eu.sell(300, EU, HOURS), stage.us.sell(300, HERE, HOURS)]
        stack.enter_context(stage.mirrored())
        for port, url in zip(ports, urls, strict=True):
            shared = {"CUTWATER_PEERS": ",".join(urls), "CUTWATER_PEER": url, "CUTWATER_PORT": str(port)}
            stack.enter_context(stage.serving("eu", **shared, CUTWATER_DATA_DIR=str(stage.folder / str(port))))
        peer = stack.enter_context(stage.serving(ORIGIN, CUTWATER_REGIONS=f"eu={urls[0]}|{urls[1]}"))
        expected = oracle(stage.eu, stage.us)
        same(keyed(scanned(peer, 13, at_least=tokens, wait_ms=30_000)), expected)
        for key in SHOPS[:9]:
            same(keyed(point(peer, key).json()["rows"]), {at: row for at, row in expected.items() if at[0] == key})
        same(keyed(several(peer, SHOPS, 9)), expected)
        top = peer.get("/v1/global/top", measure="pieces", limit=7).json()["rows"]
        assert [(row["key"], iso_ms(row["window_start"])) for row in top] == ranked(expected, 1, 7, -1)
        milestones = peer.get("/v1/global/state", limit=1).json()["milestones"]
        assert [one["region"] for one in milestones] == ["eu", "eu", ORIGIN]
        assert sorted(number for one in milestones[:2] for number in one["partitions"]) == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("regions", "says"),
    [
        ("us", "an entry looks like us="),
        ("us=x", "no URL"),
        ("US=http://a:1", "a region name is invalid"),
        ("us=http://a:1,us=http://b:1", "or repeated"),
    ],
)
def test_regions_that_cannot_be(stage: Stage, regions: str, says: str) -> None:
    """One line and code 2."""
    with running(stage.own, stage.path, stage.folder / "bad", CUTWATER_REGIONS=regions) as one:
        code, line = one.ended()
    assert (code, says in line) == (2, True), line


@pytest.mark.slow
def test_without_regions_there_is_no_global_view(stage: Stage) -> None:
    """409, and the setting."""
    with stage.serving("eu", CUTWATER_REGIONS="") as peer:
        for path in ("/v1/global/state", "/v1/global/state/a"):
            answer = peer.get(path)
            assert (answer.status_code, "CUTWATER_REGIONS" in answer.json()["detail"]) == (409, True)

"""The HTTP API over a real store: what it answers, and that no question makes it fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from cutwater.core.protocol.records import Heartbeat
from cutwater.rehydrator.app import create_app
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.views.query.view import State, Status, View
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, HOUR_MS, Sold, make_job
from unit.views.store.test_store import entry, rows

NOW_MS = 4_000_000_000_000


class Served:
    """An API over a view that the test writes itself; the clock stands at NOW_MS."""

    def __init__(self, folder: Path) -> None:
        self.job, _ = make_job(folder)
        self.store = Store(folder / "v", self.job, GENERATION)
        self.view = View(self.store, self.job)
        self.metrics = Metrics()
        self.metrics.watch(lambda: self.view, lambda: NOW_MS)
        self.client = TestClient(create_app(self.view, GENERATION, self.metrics, lambda: NOW_MS))
        self.view.status = Status(State.FOLLOWING)

    def show(self, sequence: int, sold: list[Sold], horizon_ms: int = 0) -> None:
        shown = entry(self.job, sequence, horizon_ms)
        self.store.commit(shown, rows(self.job, self.store, sold))
        self.view.show(shown)

    def get(self, path: str, **query: Any) -> Any:
        return self.client.get(path, params={name.rstrip("_"): value for name, value in query.items()})


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    one = Served(tmp_path)
    yield one
    one.view.close()


def test_key_answers_rows_and_milestone(served: Served) -> None:
    """Rows are presented by their measures, exactly; the answer names its milestone."""
    served.show(1, [Sold("JFK", hour, 150 + hour) for hour in range(3)])
    answer = served.get("/v1/state/JFK")
    assert answer.status_code == 200
    body = answer.json()
    assert body["key"] == "JFK"
    assert body["next_from"] is None
    assert body["rows"][1] == {
        "key": "JFK",
        "window_start": "1970-01-01T01:00:00Z",
        "window_end": "1970-01-01T02:00:00Z",
        "sales": 151,
        "pieces": 151,
        "takings": "1.51",
        "mean": 1.51,
    }
    milestone = body["milestone"]
    assert milestone["token"] == "g1-local-00000000:1"
    assert (milestone["sequence"], milestone["epoch"], milestone["generation"]) == (1, 0, "g1-local-00000000")
    assert milestone["watermark"] == milestone["horizon"] == "1970-01-01T00:00:00Z"
    assert served.get("/v1/milestone").json() == milestone
    assert served.get("/v1/state/nobody").json()["rows"] == []


def test_every_answer_says_what_was_evicted(served: Served) -> None:
    """Null while nothing was; then each answer has the bound, and one that reaches below it says so in words."""
    served.show(1, [Sold("JFK", hour, 1) for hour in range(20)])
    assert served.get("/v1/milestone").json()["lower_bound"] is None
    assert "hint" not in served.get("/v1/state/JFK").json()
    assert served.store.applied is not None
    served.store.commit(served.store.applied, {}, lower_ms=8 * HOUR_MS)
    served.view.show(served.store.applied)
    head = json.loads(served.get("/v1/export").text.splitlines()[0])
    assert [
        one["milestone"]["lower_bound"]
        for one in (
            head,
            served.get("/v1/state/JFK").json(),
            served.get("/v1/state").json(),
            served.get("/healthz").json(),
            {"milestone": served.get("/v1/milestone").json()},
        )
    ] == ["1970-01-01T08:00:00Z"] * 5
    below = served.get("/v1/state/JFK", from_=7 * HOUR_MS, to=8 * HOUR_MS).json()
    assert below["rows"] == []
    assert "evicted" in below["hint"]
    assert "1970-01-01T08:00:00Z" in below["hint"]
    all_of_it = served.get("/v1/state/JFK").json()
    assert (len(all_of_it["rows"]), "hint" in all_of_it) == (12, True)
    assert "hint" not in served.get("/v1/state/JFK", from_=8 * HOUR_MS).json()
    assert "cutwater_view_lower_bound_timestamp_seconds 28800.0" in served.get("/metrics").text


def test_ranges_pages_and_cursors(served: Served) -> None:
    """`from` and `to` are half open, ISO or milliseconds; `next_from` and `next` go on where a page ended."""
    served.show(1, [Sold(key, hour, hour) for key in ("a/b", "ü") for hour in range(10)])

    def hours(**query: Any) -> list[int]:
        return [row["pieces"] for row in served.get("/v1/state/a%2Fb", **query).json()["rows"]]

    assert hours(from_=2 * HOUR_MS, to=5 * HOUR_MS) == [2, 3, 4]
    assert hours(from_="1970-01-01T02:00:00Z", to="1970-01-01T06:00:00+01:00") == [2, 3, 4]
    assert hours(from_="1970-01-01T08:00", to=1 << 62) == [8, 9]
    first = served.get("/v1/state/a/b", limit=4).json()
    assert [row["pieces"] for row in first["rows"]] == [0, 1, 2, 3]
    assert hours(from_=first["next_from"]) == [4, 5, 6, 7, 8, 9]
    found, after = [], None
    while True:
        page = served.get("/v1/state", limit=7, **({"after": after} if after else {})).json()
        found += [(row["key"], row["pieces"]) for row in page["rows"]]
        if (after := page["next"]) is None:
            break
    assert sorted(found) == sorted((key, hour) for key in ("a/b", "ü") for hour in range(10))


def test_age_is_the_clock_less_the_last_sign_of_life(served: Served) -> None:
    """The age is now minus the commit, or minus the newest heartbeat of this milestone; never negative."""
    served.show(1, [])
    committed = served.view.milestone.committed_ms
    assert served.get("/v1/milestone").json()["age_ms"] == NOW_MS - committed
    served.view.record_heartbeat(Heartbeat(served.job.name, GENERATION, 1, 0, NOW_MS - 40))
    assert served.get("/v1/milestone").json()["age_ms"] == 40
    served.view.record_heartbeat(Heartbeat(served.job.name, GENERATION, 1, 7, NOW_MS))
    assert served.get("/v1/milestone").json()["age_ms"] == NOW_MS - committed
    served.view.record_heartbeat(Heartbeat(served.job.name, GENERATION, 1, 0, NOW_MS + 40))
    assert served.get("/v1/milestone").json()["age_ms"] == 0


def test_at_least_waits_and_then_refuses(served: Served) -> None:
    """A token that is reached within the bound is answered; else 412 with the milestone that is shown."""
    served.show(1, [Sold("a", 1, 1)])
    served.show(2, [Sold("a", 1, 2)])
    for sequence in (1, 2):
        assert served.get("/v1/state/a", at_least=f"g1-local-00000000:{sequence}").status_code == 200
    refused = served.get("/v1/state/a", at_least="g1-local-00000000:3", wait_ms=50)
    assert refused.status_code == 412
    assert refused.json()["detail"]["milestone"]["sequence"] == 2
    waiting = threading.Timer(0.3, served.show, (3, [Sold("a", 1, 3)]))
    waiting.start()
    answer = served.get("/v1/state/a", at_least="g1-local-00000000:3", wait_ms=20_000)
    waiting.join()
    assert answer.status_code == 200
    assert answer.json()["milestone"]["sequence"] == 3
    assert answer.json()["rows"][0]["pieces"] == 3


def test_token_of_another_generation_is_gone(served: Served) -> None:
    """A token lost in a failover answers 410 with what is shown, at once; one to come is waited for."""
    served.show(1, [])
    lost = served.get("/v1/milestone", at_least="g1-local-abcdef01:1")
    assert (lost.status_code, lost.json()["detail"]["milestone"]["sequence"]) == (410, 1)
    assert served.get("/v1/milestone", at_least="g2-local-00000000:1", wait_ms=0).status_code == 412


@pytest.mark.parametrize("token", ["", "x", "g1-local-00000000", "g1-local-00000000:-1", "g0-local-00000000:1"])
def test_malformed_token_is_the_callers_mistake(served: Served, token: str) -> None:
    """What is no token answers 400."""
    served.show(1, [])
    assert served.get("/v1/state/a", at_least=token).status_code == 400


@pytest.mark.parametrize("digits", [10, 19, 20, 400, 5_000])
def test_numbers_of_any_length_never_fail(served: Served, digits: int) -> None:
    """Numbers beyond 64 bits, and beyond what Python parses, are answered as the mistakes they are."""
    served.show(1, [Sold("a", 1, 1)])
    number = "9" * digits
    for name in ("from", "to"):
        for text in (number, "-" + number):
            assert served.get("/v1/state/a", **{name: text}).status_code in (200, 422)
    for name in ("limit", "wait_ms"):
        assert served.get("/v1/state/a", **{name: number}).status_code == 422
    assert served.get("/v1/state/a", at_least=f"g1-local-00000000:{number}", wait_ms=0).status_code in (400, 412)
    assert served.get("/v1/state/a", at_least=f"g{number}-local-00000000:1", wait_ms=0).status_code in (400, 412)


@pytest.mark.parametrize(
    "text", ["yesterday", "", "2013-13-01", "0000-01-01", "1e9", "١٢", "10000-01-01T00:00:00Z"]
)
def test_bad_times_are_422(served: Served, text: str) -> None:
    """What is no time is refused with the form that is allowed."""
    served.show(1, [])
    answer = served.get("/v1/state/a", from_=text)
    assert answer.status_code == 422
    assert "2013-01-02T03:00:00Z" in answer.json()["detail"]


@pytest.mark.parametrize("text", ["%", "ü", "a", "AAAA", "_" * 60_000])
def test_bad_cursors_never_fail(served: Served, text: str) -> None:
    """A cursor that nobody gave out is refused, or reads from somewhere; it never fails."""
    served.show(1, [Sold("a", 1, 1)])
    assert served.get("/v1/state", after=text).status_code in (200, 400)


def test_a_cursor_of_a_view_in_another_order_is_refused(served: Served) -> None:
    served.show(1, [Sold("a", hour, 1) for hour in range(3)])
    after = served.get("/v1/state", limit=1).json()["next"]
    assert len(served.get("/v1/state", after=after).json()["rows"]) == 2
    served.store.segment_ms *= 2
    refused = served.get("/v1/state", after=after)
    assert refused.status_code == 400
    assert "start the scan again" in refused.json()["detail"]


def test_limits_are_checked(served: Served) -> None:
    """A page has 1 to 10,000 rows, and a wait at most 30 s."""
    served.show(1, [])
    for query in ({"limit": 0}, {"limit": 10_001}, {"limit": "many"}, {"wait_ms": 30_001}, {"wait_ms": -1}):
        assert served.get("/v1/state/a", **query).status_code == 422
        assert served.get("/v1/state", **query).status_code == 422


def test_before_the_first_milestone(served: Served) -> None:
    """With nothing to show every question about state is 503 with the reason, and the process is healthy."""
    served.view.status = Status(State.RESTORING, "restoring milestone g1-local-00000000:5")
    for path in ("/v1/state/a", "/v1/state", "/v1/milestone"):
        answer = served.get(path)
        assert answer.status_code == 503
        assert "restoring milestone" in answer.json()["detail"]
    assert served.get("/v1/milestone", at_least="g1-local-00000000:1", wait_ms=20).status_code == 503
    health = served.get("/healthz")
    assert (health.status_code, health.json()["ready"]) == (200, False)
    assert served.get("/readyz").status_code == 503


def test_stopped_view_answers_and_is_not_ready(served: Served) -> None:
    """After a divergence the last good milestone is still answered; readiness is off and health says why."""
    served.show(1, [Sold("a", 1, 1)])
    assert served.get("/readyz").status_code == 200
    served.view.status = Status(State.STOPPED, "digest 1 against 2")
    assert served.get("/v1/state/a").status_code == 200
    assert served.get("/readyz").status_code == 503
    assert served.get("/healthz").json() | {"milestone": None} == {
        "status": "stopped",
        "ready": False,
        "reason": "digest 1 against 2",
        "role": "owner",
        "milestone": None,
        "partitions": None,
        "selection": None,
    }


def test_metrics_tell_what_is_shown(served: Served) -> None:
    """Sequence, age and readiness are read at the scrape; counters are there from the start."""
    served.show(41, [])
    text = served.get("/metrics").text
    assert "cutwater_view_sequence 41.0" in text
    assert "cutwater_view_ready 1.0" in text
    assert "cutwater_view_divergences_total 0.0" in text
    age = float(text.split("\ncutwater_view_age_seconds ")[1].split("\n")[0])
    assert age == (NOW_MS - served.view.milestone.committed_ms) / 1000


def test_reads_of_keys_and_windows_are_counted(served: Served) -> None:
    """Of one key, of several, and by a page: each answer about a key once, each window in it once."""
    served.show(1, [Sold("JFK", hour, 150 + hour) for hour in range(3)] + [Sold("EWR", 1, 7)])
    for _ in range(2):
        assert served.get("/v1/state/JFK", from_="1970-01-01T01:00:00Z").status_code == 200
    assert served.client.post("/v1/keys", json={"keys": ["JFK", "EWR"]}).status_code == 200
    assert served.get("/v1/stored/EWR").status_code == 200
    assert served.get("/v1/state/none").status_code == 200
    assert served.get("/v1/state").status_code == 200
    told = served.get("/v1/reads").json()
    assert told["reads"] == 6
    assert told["keys"] == [{"key": "JFK", "reads": 3}, {"key": "EWR", "reads": 2}, {"key": "none", "reads": 1}]
    assert told["windows"] == [
        {"window_start": "1970-01-01T01:00:00Z", "reads": 5},
        {"window_start": "1970-01-01T02:00:00Z", "reads": 3},
        {"window_start": "1970-01-01T00:00:00Z", "reads": 1},
    ]
    text = served.get("/metrics").text
    assert "cutwater_view_key_reads_total 6.0" in text
    assert 'cutwater_view_hot_key_reads{rank="1"} 3.0' in text


def test_a_long_key_is_cut_in_the_reads(served: Served) -> None:
    """Memory is bounded whatever is asked."""
    served.show(1, [Sold("JFK", 1, 1)])
    assert served.get("/v1/state/" + "x" * 5_000).status_code == 200
    (one,) = served.get("/v1/reads").json()["keys"]
    assert len(one["key"]) < 250

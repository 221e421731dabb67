"""Every route of the console over a constructed job: what a page gets, empty, with errors, and without brokers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry

from cutwater.adapters.config.settings import Settings
from cutwater.console.actions.page_actions import Actions
from cutwater.console.app import create_app
from cutwater.console.follower import JobFollower
from cutwater.console.jobs import NONE_RUNS, Jobs
from cutwater.console.ports import RunningJob
from cutwater.core.errors import UsageError
from support.console.sample_job import (
    AWAY,
    HOSTILE,
    NOW_MS,
    ConstructedOperator,
    ConstructedReader,
    ConstructedView,
    alert,
    follower,
    place,
)
from support.protocol_samples import GENERATION

PAGES = [
    *("overview", "milestones", "shards", "keys", "generations", "regions", "recovery", "restorable", "audit"),
    *("dead-letters", "late", "explore?key=JFK"),
]
FROM_BROKERS = ["generations", "regions", "recovery", "restorable", "audit", "dead-letters", "late"]
ACTIONS = Actions(lambda _place: ConstructedOperator(), lambda: NOW_MS, lambda: "0" * 32)


class Asked:
    """The routes of a console with one job, of which everything was read once."""

    def __init__(self, made: JobFollower, **running: Any) -> None:
        made.step()
        made.start = lambda: None  # type: ignore[method-assign]
        self.follower = made
        jobs = Jobs(
            lambda: [RunningJob(place(**running), (alert("repeated-failure", "driver"),))], lambda _place: made
        )
        self.app = create_app(jobs, lambda: NOW_MS, CollectorRegistry(), ACTIONS, look_s=0.01)
        self.client = TestClient(self.app)

    def get(self, page: str, status: int = 200) -> Any:
        answer = self.client.get(f"/api/jobs/flights/{page}")
        assert answer.status_code == status, answer.text
        assert answer.headers["cache-control"] == "no-store"
        return answer.json()


@pytest.fixture(scope="module")
def asked() -> Asked:
    return Asked(follower())


@pytest.mark.parametrize("page", PAGES)
def test_each_page_has_its_document(asked: Asked, page: str) -> None:
    """JSON that every browser reads: no NaN, and no answer without anything."""
    assert json.loads(json.dumps(asked.get(page), allow_nan=False))


def test_the_overview_is_the_pipeline_with_its_alerts(asked: Asked) -> None:
    found = asked.get("overview")
    assert [one["id"] for one in found["stages"]][:2] == ["source", "driver"]
    assert found["reader"]["state"] == "live"
    assert found["milestones_kept"] == 400
    assert [(one["kind"], one["text"]) for one in found["alerts"]] == [("repeated-failure", HOSTILE)]


def test_the_milestones_are_aggregated(asked: Asked) -> None:
    found = asked.get("milestones?columns=20")
    assert (found["count"], len(found["at"]), len(found["newest"])) == (400, 20, 50)
    assert found["summary"]["published"]["known"] == 400
    assert found["summary"]["applied"]["known"] == 0
    hour = asked.get(f"milestones?from={NOW_MS - 60_000}&columns=600")
    assert (hour["count"], hour["last"]["token"]) == (13, f"{GENERATION}:400")
    assert asked.get("milestones?to=5")["count"] == 0


def test_the_heat_maps_have_partitions_and_shards(asked: Asked) -> None:
    writes = asked.get("shards")
    assert (writes["lanes"], writes["of"], writes["hottest"][0]["lane"]) == (12, "writes", 4)
    part = asked.get("shards?first=4&end=6")
    assert (part["first"], part["end"], part["bands"]) == (4, 6, 2)
    state = asked.get("shards?of=state")
    assert (state["lanes"], state["columns"], state["bands"]) == (1024, 1, 512)


def test_keys_generations_regions_and_recovery(asked: Asked) -> None:
    keys = asked.get("keys")
    assert (keys["measure"], keys["ranked"][0]["value"]) == ("movements", 212)
    assert keys["census"]["keys"][0]["key"] == HOSTILE
    tree = asked.get("generations")
    assert [one["state"] for one in tree["generations"]] == ["current", "candidate", "candidate"]
    assert asked.get("regions")["replicas"][0]["origin"] == "us"
    assert len(asked.get("recovery")["starts"]) == 2
    assert [one["outcome"] for one in asked.get("audit")["actions"]] == ["begun", "failed", "done"]
    assert [one["milestones"] for one in asked.get("restorable")["ranges"]] == [19, 180]


def test_rejected_events(asked: Asked) -> None:
    letters, late = asked.get("dead-letters"), asked.get("late")
    assert (letters["total"], letters["reasons"][0]["count"], late["total"]) == (71, 70, 90)
    assert letters["samples"][0]["head"] == "{\x00\\xffsecret"


def test_payloads_are_hidden_by_the_setting() -> None:
    found = Asked(follower(), settings=Settings(show_payloads=False)).get("dead-letters")
    assert not found["payloads"]
    assert "secret" not in json.dumps(found)


def test_a_key_is_compared_with_an_answer_before() -> None:
    """At another milestone; the console keeps what it has shown."""
    view = ConstructedView()
    here = Asked(follower(view=view))
    first = here.get("explore?key=JFK")
    assert (first["shown_before"], first["against"], list(first["series"])) == (
        [],
        None,
        ["movements", "mean_delay"],
    )
    view.newest += 1
    token = first["milestone"]["token"]
    found = here.get(f"explore?key=JFK&against={token}")
    assert (found["shown_before"], found["against"]["milestone"]["token"]) == ([token], token)
    assert len(found["differences"]) == 48
    assert found["differences"][0]["values"] == {"movements": [20, 21]}
    assert here.get(f"explore?key=EWR&against={token}")["against"]["key"] == "EWR"
    assert here.get("explore?key=NOPE")["rows"] == []
    assert view.asked == ["JFK", "JFK", "EWR", "NOPE"]


def test_only_so_many_answers_are_kept() -> None:
    view = ConstructedView()
    here = Asked(follower(view=view))
    for _ in range(70):
        view.newest += 1
        here.get("explore?key=JFK")
    assert len(here.get("explore?key=JFK")["shown_before"]) == 63


def test_a_key_at_an_older_milestone() -> None:
    """By a token; compared with the newest, which need not have been shown."""
    view = ConstructedView()
    here = Asked(follower(view=view))
    old = f"{GENERATION}:41"
    found = here.get(f"explore?key=JFK&at={old}")
    assert (found["milestone"]["token"], found["at"], found["rows"][0]["movements"]) == (old, old, 21)
    assert view.asked == []
    both = here.get(f"explore?key=JFK&against={GENERATION}:7")
    assert both["against"]["milestone"]["token"] == f"{GENERATION}:7"
    assert both["differences"][0] == {"start_ms": NOW_MS, "is": "changed", "values": {"movements": [21, 20]}}
    assert here.get("explore?key=JFK&at=2020-01-01", 400)["kind"] == "usage"


@pytest.mark.parametrize("page", PAGES)
def test_a_job_without_anything_has_empty_pages(page: str) -> None:
    """No error, no invented figure: an empty document that says why."""
    found = Asked(follower(ConstructedReader(empty=True))).get(page)
    assert json.dumps(found)
    told = {
        "overview": lambda: found["milestone"] is None and found["links"][0]["behind"] == 0,
        "milestones": lambda: found["kept"] == 0,
        "shards": lambda: found["at"] == [] and found["lanes"] == 0,
        "keys": lambda: found["ranked"] == [] and "census" in found["no_census"],
        "generations": lambda: found["generations"] == [],
        "regions": lambda: "Nothing is copied" in found["empty"],
        "recovery": lambda: "No start" in found["empty"],
        "restorable": lambda: "No milestone" in found["empty"],
        "audit": lambda: "No operator" in found["empty"],
        "dead-letters": lambda: found["total"] == 0,
        "late": lambda: found["total"] == 0,
        "explore?key=JFK": lambda: found["rows"] == [],
    }
    assert told[page]()


@pytest.mark.parametrize("page", PAGES[:3])
def test_before_the_first_read_a_page_says_why(page: str) -> None:
    found = Asked(follower(ConstructedReader(away=True))).get(page, 503)
    assert found == {"detail": AWAY, "kind": "unavailable"}


def test_without_brokers_the_last_picture_stays() -> None:
    """The overview and what is already read; the rest is an error that says so, and works again afterwards."""
    reader = ConstructedReader()
    here = Asked(follower(reader))
    reader.away = True
    here.follower.step()
    found = here.get("overview")
    assert (found["reader"]["state"], found["reader"]["problem"]) == ("away", AWAY)
    assert here.get("milestones")["count"] == 400
    for page in FROM_BROKERS:
        assert here.get(page, 503)["detail"] == AWAY
    reader.away = False
    here.follower.step()
    assert here.get("overview")["reader"]["state"] == "live"
    for page in FROM_BROKERS:
        here.get(page)


def test_without_a_rehydrator_the_topics_are_still_shown() -> None:
    here = Asked(follower(view=ConstructedView(away=True)))
    stages = {one["id"]: one["state"] for one in here.get("overview")["stages"]}
    assert (stages["view"], stages["commit-signal"]) == ("unknown", "ok")
    assert here.get("keys", 503)["detail"].startswith("the rehydrator does not answer")
    assert here.get("explore?key=JFK", 503)["kind"] == "unavailable"


@pytest.mark.parametrize(
    "page",
    [
        *("milestones?columns=0", "milestones?columns=601", "milestones?from=x", f"milestones?to={2**70}"),
        *("shards?of=nothing", "shards?first=-1", "shards?end=0", "shards?end=99999999"),
        *("explore", "explore?key=", f"explore?key={'k' * 4_097}", f"explore?key=a&from={'1' * 41}"),
        *(f"explore?key=a&against={'t' * 81}", f"explore?key=a&at={'t' * 81}"),
    ],
)
def test_parameters_out_of_bounds_are_refused(asked: Asked, page: str) -> None:
    """With a text that names the parameter, and does not repeat its value."""
    found = asked.get(page, 422)
    assert found["kind"] == "usage"
    assert len(found["detail"]) < 300
    assert "kkkk" not in found["detail"]


def test_a_wrong_question_is_the_users(asked: Asked) -> None:
    assert asked.get("explore?key=too long", 400)["kind"] == "usage"


def test_an_unknown_job_is_not_found(asked: Asked) -> None:
    answer = asked.client.get("/api/jobs/orders/overview")
    assert (answer.status_code, answer.json()["kind"]) == (404, "unknown")
    assert "flights" in answer.json()["detail"]


def test_the_jobs_are_listed(asked: Asked) -> None:
    found = asked.client.get("/api/jobs").json()
    assert [(one["job"], one["state"]) for one in found["jobs"]] == [("flights", "live")]
    assert found["problem"] == ""


def test_without_a_stack_the_list_says_so() -> None:
    app = create_app(Jobs(list, lambda _place: follower()), lambda: NOW_MS, CollectorRegistry(), ACTIONS)
    found = TestClient(app).get("/api/jobs").json()
    assert found == {"jobs": [], "problem": NONE_RUNS}


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_no_route_takes_anything(asked: Asked, method: str) -> None:
    """Read-only."""
    for page in ("overview", "explore?key=a", "dead-letters"):
        assert getattr(asked.client, method)(f"/api/jobs/flights/{page}").status_code == 405


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_there_are_no_pages_with_scripts_of_others(asked: Asked, path: str) -> None:
    assert asked.client.get(path).status_code == 404


def test_health_and_metrics(asked: Asked) -> None:
    assert asked.client.get("/healthz").json() == {"status": "ok"}
    assert asked.client.get("/metrics").status_code == 200


def test_an_answer_is_kept_for_a_while() -> None:
    """A page that is opened by many asks the brokers once."""
    reader = ConstructedReader()
    here, reads = Asked(follower(reader)), []
    trail = reader.trail
    reader.trail = lambda: reads.append(1) or trail()  # type: ignore[method-assign, func-returns-value]
    for _ in range(5):
        here.get("recovery")
    assert len(reads) == 1


def test_an_unexpected_error_is_not_kept() -> None:
    reader = ConstructedReader()
    here = Asked(follower(reader))
    trail = reader.trail

    def wrong() -> Any:
        raise UsageError("topic flights.history does not exist")

    reader.trail = wrong  # type: ignore[method-assign]
    assert here.get("recovery", 400)["detail"] == "topic flights.history does not exist"
    reader.trail = trail  # type: ignore[method-assign]
    here.get("recovery")


@contextmanager
def events(here: Asked) -> Iterator[Iterator[str]]:
    """The lines of the live stream, by a real server: a test client would wait for its end."""
    import httpx

    from support.console.sample_job import served

    with served(here.follower) as console, httpx.stream("GET", f"{console.url}api/jobs/flights/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield answer.iter_lines()


def test_the_stream_has_the_overview_and_each_change() -> None:
    here = Asked(follower(replaced := ConstructedReader()))
    with events(here) as lines:
        first = next(json.loads(one[6:]) for one in lines if one.startswith("data: "))
        assert first["reader"]["state"] == "live"
        replaced.away = True
        here.follower.step()
        before = time.monotonic()
        second = next(json.loads(one[6:]) for one in lines if one.startswith("data: "))
        assert second["reader"]["state"] == "away"
        assert time.monotonic() - before < 5


def test_a_place_is_the_same_for_the_same_reader() -> None:
    one = place()
    assert one.same_place(replace_place(one, generation="g2-local-0badcafe", ready=False))
    assert not one.same_place(replace_place(one, api_url="http://127.0.0.1:2"))


def replace_place(one: Any, **changes: Any) -> Any:
    return one._replace(**changes)


def test_a_follower_reads_the_history_once() -> None:
    made = follower()
    made.step()
    with made.reading() as picture:
        version, kept = picture.version, len(picture.timeline)
    made.step()
    with made.reading() as picture:
        assert len(picture.timeline) == kept
        assert picture.status == replace(picture.status)
        assert picture.version >= version

"""The API's own OpenAPI description is true: schemathesis asks by it, and holds each answer to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import strategies as st
from schemathesis import engine
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events

from cutwater.adapters.sketches import ThetaSketches
from cutwater.core.access.roles import Tokens
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import LONG, THETA
from cutwater.rehydrator.app import create_app
from cutwater.rehydrator.cluster.peers import Peers
from cutwater.rehydrator.cluster.regions import Regions
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.models import (
    Health,
    KeyAnswer,
    KeysAnswer,
    Milestone,
    NotReached,
    ScanAnswer,
    TopAnswer,
)
from cutwater.rehydrator.http_api.region_models import (
    GlobalKeyAnswer,
    GlobalKeysAnswer,
    GlobalScanAnswer,
    GlobalTopAnswer,
    StoredKeysAnswer,
    StoredScanAnswer,
)
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.rehydrator.routes import changes
from cutwater.views.query.view import State, Status, View
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, Sold, make_job, with_measures
from unit.rehydrator.test_app import NOW_MS
from unit.views.store.test_store import entry, rows

TOKEN = "a-token-of-enough-letters"
SECRET = {"Authorization": f"Bearer {TOKEN}"}
EXAMPLES = 40
CONFIG: dict[str, Any] = {
    "seed": 7,
    "headers": SECRET,
    "generation": {"deterministic": True, "max-examples": EXAMPLES, "database": "none"},
    "phases": {"stateful": {"enabled": False}},
    # It has no end: what it says in that time is looked at.
    "operations": [{"include-path": "/v1/changes", "request-timeout": 0.5}],
    "checks": {
        # A status that the description names is no surprise. 409: no snapshots are taken here.
        "not_a_server_error": {"expected-statuses": ["2xx", "4xx", "503"]},
        "positive_data_acceptance": {"expected-statuses": ["2xx", "400", "409", "410", "422", "503"]},
    },
}
# Nothing unreached: whoever asks for that waits.
TOKENS = [f"{GENERATION}:0", f"{GENERATION}:1", "g1-eu-00000000:1", "g1-local"]
TIMES = ["0", "3600000", "-1", "1970-01-01T05:00:00Z", "1970-01-01T05:00:00+02:00", "9" * 30, "yesterday"]
RIDERS = build("riders", "distinct", "pieces", LONG, ThetaSketches(), sketch=THETA)
EVERYWHERE = (
    "GET /v1/global/state",
    "GET /v1/global/state/{key}",
    "POST /v1/global/keys",
    "POST /v1/global/distinct",
    "GET /v1/global/top",
)
CURSORS = [parsing.cursor_text(Peers.none(Metrics()).agreed, *place) for place in ((0, b"\x01"), (9, b""))]

schemathesis.openapi.format("token", st.sampled_from(TOKENS))
schemathesis.openapi.format("iso8601-or-ms", st.sampled_from(TIMES))
# Half a surrogate pair is nothing that a client could encode.
text = st.text(st.characters(exclude_categories=["Cs"]))
schemathesis.openapi.format("group-key", st.sampled_from(["0", "b/c", "ü", "nobody"]) | text)
schemathesis.openapi.format("key64", st.sampled_from(["MA", "Yi9j", "w7w=", "", "_w", "!"]))
schemathesis.openapi.format("cursor", st.sampled_from([*CURSORS, "%"]))


class Served(NamedTuple):
    app: FastAPI
    view: View


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(changes, "HEARTBEAT_S", 0.05)  # with it a stream notices that nobody reads
    job = with_measures(make_job(tmp_path)[0], RIDERS)
    store = Store(tmp_path / "v", job, GENERATION)
    view = View(store, job)
    shown = entry(job, 1)
    sold = [Sold(shop, hour, hour) for shop in ("0", "b/c", "", "ü") for hour in range(30)]
    store.commit(shown, rows(job, store, sold))
    view.show(shown)
    view.status = Status(State.FOLLOWING)
    yield Served(app_of(view), view)
    view.close()


def app_of(view: View) -> FastAPI:
    """With a global view of its own region alone."""
    metrics = Metrics()
    regions = Regions(GENERATION.region, {}, TOKEN, metrics)
    return create_app(view, GENERATION, metrics, lambda: NOW_MS, Tokens(plain=TOKEN), regions=regions)


def asked(app: FastAPI, **config: Any) -> tuple[list[str], dict[str, set[int]]]:
    """What contradicts the description, with a command that shows it; and the statuses of each route."""
    options = SchemathesisConfig.from_dict(CONFIG | config)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=options, headers=SECRET)
    wrong: list[str] = []
    statuses: dict[str, set[int]] = defaultdict(set)
    for event in engine.from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            wrong.append(repr(event))
        if isinstance(event, events.ScenarioFinished):
            for check in (one for some in event.recorder.checks.values() for one in some):
                if check.failure_info:
                    wrong.append(f"{event.label}: {check.failure_info.failure}\n{check.failure_info.code_sample}")
            statuses[str(event.label)] |= {
                one.response.status_code for one in event.recorder.interactions.values() if one.response
            }
    return wrong, statuses


@pytest.mark.slow
def test_answers_are_as_described(served: Served) -> None:
    """No question makes the service fail, and no status and no body comes that the description does not have."""
    wrong, statuses = asked(served.app)
    assert not wrong, "\n".join(wrong)
    several = ("POST /v1/keys", "POST /v1/distinct", "GET /v1/top")
    for route in ("GET /v1/state", "GET /v1/state/{key}", *several, *EVERYWHERE):
        # The generator got behind the checks of parameters, and in front of them.
        assert statuses[route] >= {200, 400, 401, 405, 422}, (route, statuses[route])
    assert 410 in set().union(*statuses.values())


@pytest.mark.slow
def test_answers_are_as_described_before_the_first_milestone(tmp_path: Path) -> None:
    """With nothing to show every answer is still a described one."""
    job = with_measures(make_job(tmp_path)[0], RIDERS)
    view = View(Store(tmp_path / "v", job, GENERATION), job)
    few = CONFIG["generation"] | {"max-examples": 5}
    app = app_of(view)
    wrong, statuses = asked(app, generation=few, parameters={"query.wait_ms": 0})
    view.close()
    assert not wrong, "\n".join(wrong)
    shown = {route: found for route, found in statuses.items() if "/v1/" in route}
    del shown["POST /v1/snapshots"], shown["GET /v1/reads"]  # these need no milestone
    assert all(503 in found for found in shown.values()), shown


def test_answers_with_everything_in_them(served: Served) -> None:
    """No field is missing or comes besides, where pages go on: chance does not meet those often enough."""
    client = TestClient(served.app, headers=SECRET)
    body = {"keys": ["0", "ü"], "limit": 2, "rows": 2}
    for answer, model in (
        (client.get("/v1/state/0", params={"limit": 1}), KeyAnswer),
        (client.get("/v1/state", params={"limit": 1}), ScanAnswer),
        (client.get("/v1/state", params={"key": "0", "limit": 1}), KeyAnswer),
        (client.post("/v1/keys", json=body), KeysAnswer),
        (client.get("/v1/top", params={"measure": "mean"}), TopAnswer),
        (client.get("/v1/global/state/0", params={"limit": 1}), GlobalKeyAnswer),
        (client.get("/v1/global/state", params={"limit": 1}), GlobalScanAnswer),
        (client.get("/v1/global/state", params={"key64": "w7w", "limit": 1}), GlobalKeyAnswer),
        (client.post("/v1/global/keys", json=body), GlobalKeysAnswer),
        (client.get("/v1/global/top", params={"measure": "mean"}), GlobalTopAnswer),
        (client.get("/v1/stored", params={"limit": 1}), StoredScanAnswer),
        (client.post("/v1/stored-keys", json=body), StoredKeysAnswer),
        (client.get("/v1/milestone"), Milestone),
        (client.get("/healthz"), Health),
    ):
        found = answer.json()
        assert model.model_validate(found, strict=True).model_dump(exclude_unset=True) == found
        assert all(found[name] for name in found if name.startswith("next")), "the page goes on"


def test_a_token_out_of_reach_is_answered_as_described(served: Served) -> None:
    """What schemathesis is not let ask for, since it would wait: the body of 412."""
    client = TestClient(served.app, headers=SECRET)
    query = {"at_least": f"{GENERATION}:2", "wait_ms": 1}
    body = {"keys": ["a"]}
    answers = [
        client.get("/v1/milestone", params=query),
        client.get("/v1/top", params=query | {"measure": "pieces"}),
        client.post("/v1/keys", params=query, json=body),
    ]
    for answer in answers:
        assert answer.status_code == 412
        NotReached.model_validate(answer.json(), strict=True, extra="forbid")


def test_columns_are_the_jobs_measures(served: Served) -> None:
    """A client that is generated from the description knows them, and their types."""
    described = TestClient(served.app, headers=SECRET).get("/openapi.json").json()
    columns = described["components"]["schemas"]["Row"]["properties"]
    assert columns["sales"]["type"] == ["integer", "null"]
    assert columns["takings"]["type"] == ["integer", "string", "null"]
    assert columns["mean"]["type"] == ["number", "string", "null"]
    for path in ("/v1/top", "/v1/global/top"):
        (measure,) = [one for one in described["paths"][path]["get"]["parameters"] if one["name"] == "measure"]
        assert measure["schema"]["enum"] == ["sales", "pieces", "takings", "mean", "riders"]
    assert described["components"]["schemas"]["Sets"]["properties"]["measure"]["enum"] == ["riders"]

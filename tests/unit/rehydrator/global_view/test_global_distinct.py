"""Set operations over the events of two regions, against sets of Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutwater.adapters.config.rehydrator_urls import Api
from cutwater.rehydrator.cluster.regions import Regions
from cutwater.rehydrator.http_api.region_models import GlobalDistinctAnswer, StoredSetsAnswer
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.views.query.view import State, Status
from support.views.apiserving import Own, app_of, serving
from support.views.changelogs import GENERATION, HOUR_MS
from unit.rehydrator.global_view.test_global_bounds import US
from unit.rehydrator.routes.test_distinct_sets import FEW, KEYS, Values, job_of, shown, some, stored, true_values

PATH = "/v1/global/distinct"
MANY: Values = {
    (key, hour): range(number * 30, number * 30 + 70) for number, key in enumerate(KEYS) for hour in range(1, 4)
}
"""Of the other region: some values, keys and windows are those of FEW."""


def region_us(own: Own) -> FastAPI:
    """A region's API, whose milestones are of region us."""
    inner, outer = TestClient(app_of(own.view)), FastAPI()

    @outer.post("/v1/stored-sets")
    async def sets(request: Request) -> JSONResponse:
        answer = inner.post("/v1/stored-sets", content=await request.body(), headers=dict(request.headers))
        told = answer.json()
        StoredSetsAnswer.model_validate(told, strict=True, extra="forbid")
        told["milestones"][0] |= {"token": f"{US}:1", "generation": US}
        return JSONResponse(told | {"lineage": US}, answer.status_code)

    return outer


@contextmanager
def two_regions(
    folder: Path, ours: Values, theirs: Values, horizon_ms: int = 0, other: FastAPI | None = None
) -> Iterator[TestClient]:
    """A client of a global view of two regions. `horizon_ms`: of the other one."""
    with ExitStack() as running:
        own = shown(folder / "own", job_of(folder), ours)
        us = Own(folder / "us", own.job)
        us.show(1, stored(us, theirs), horizon_ms)
        us.view.status = Status(State.FOLLOWING)
        for one in (own, us):
            running.callback(one.close)
        url = running.enter_context(serving(other or region_us(us)))
        regions = Regions(GENERATION.region, {"us": (Api(url),)}, "", Metrics())
        yield running.enter_context(TestClient(app_of(own.view, regions=regions)))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with two_regions(tmp_path_factory.mktemp("regions"), FEW, MANY) as made:
        yield made


def of_both(sets: list[dict[str, Any]]) -> list[set[int]]:
    return [one | other for one, other in zip(true_values(FEW, sets), true_values(MANY, sets), strict=True)]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.lists(some, min_size=1, max_size=3), st.lists(some, max_size=2), st.lists(some, max_size=2))
def test_values_of_both_regions_count_once(
    client: TestClient, of: list[Any], common: list[Any], without: list[Any]
) -> None:
    """In any, in every, in none; a window that both regions have is one row."""
    answer = client.post(PATH, json={"measure": "riders", "of": of, "and": common, "not": without})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (
        GlobalDistinctAnswer.model_validate(found, strict=True).model_dump(by_alias=True, exclude_unset=True)
        == found
    )
    true = set[int]().union(*of_both(of)).intersection(*of_both(common)).difference(*of_both(without))
    assert [found[name] for name in ("estimate", "least", "most", "exact")] == [*[len(true)] * 3, True]
    every = [*of, *common, *without]
    assert [one["estimate"] for one in found["sets"]] == list(map(len, of_both(every)))
    windows = [
        {at for values in (FEW, MANY) for at in values if true_values({at: range(1)}, [one])[0]} for one in every
    ]
    assert [one["rows"] for one in found["sets"]] == list(map(len, windows))
    assert [one["region"] for one in found["milestones"]] == [GENERATION.region, "us"]


def test_windows_below_the_highest_horizon_are_in_no_set(tmp_path: Path) -> None:
    """The other region has dropped its rows for them: our values alone would look complete."""
    with two_regions(tmp_path, FEW, MANY, horizon_ms=2 * HOUR_MS) as client:
        found = client.post(PATH, json={"measure": "riders", "of": [{"key": "s1"}]}).json()
    kept = {at for at in [*FEW, *MANY] if at[0] == "s1" and at[1] >= 2}
    true = {value for values in (FEW, MANY) for at in kept & set(values) for value in values[at]}
    assert (found["estimate"], found["sets"][0]["rows"]) == (len(true), len(kept))
    assert found["complete_above"] == "1970-01-01T02:00:00Z"


def test_a_thousand_rows_of_all_regions_and_no_more(tmp_path: Path) -> None:
    """A row that both regions have counts once."""
    ours: Values = {("a", hour): range(3) for hour in range(600)}
    theirs: Values = {("a", hour): range(2, 5) for hour in range(400, 1_001)}
    with two_regions(tmp_path, ours, theirs) as client:
        fits = client.post(PATH, json={"measure": "riders", "of": [{"key": "a", "to": 1_000 * HOUR_MS}]})
        assert (fits.json()["sets"][0]["rows"], fits.json()["estimate"]) == (1_000, 5)
        answer = client.post(PATH, json={"measure": "riders", "of": [{"key": "a"}]})
    assert (answer.status_code, "more than 1,000 rows" in answer.json()["detail"]) == (422, True)


def test_a_set_of_which_a_region_has_too_many_rows_is_refused_and_never_counted_in_part(tmp_path: Path) -> None:
    """The other region's horizon leaves few enough of the merged rows, but ours cannot send all of its own."""
    ours: Values = {("a", hour): range(hour, hour + 1) for hour in range(1_200)}
    with two_regions(tmp_path, ours, {}, horizon_ms=400 * HOUR_MS) as client:
        answer = client.post(PATH, json={"measure": "riders", "of": [{"key": "a"}]})
        assert (answer.status_code, "more than 1,000 rows" in answer.text) == (422, True), answer.text
        fits = client.post(PATH, json={"measure": "riders", "of": [{"key": "a", "from": 400 * HOUR_MS}]}).json()
    assert (fits["estimate"], fits["sets"][0]["rows"]) == (800, 800)


def test_a_region_of_an_earlier_version_is_missing(tmp_path: Path) -> None:
    """It is named, and left out only if the request allows that."""
    body = {"measure": "riders", "of": [{"key": "s1"}]}
    with two_regions(tmp_path, FEW, MANY, other=FastAPI()) as client:
        refused = client.post(PATH, json=body)
        assert (refused.status_code, "us (" in refused.json()["detail"]) == (503, True)
        found = client.post(PATH, json=body, params={"partial": True}).json()
    assert found["estimate"] == len(true_values(FEW, [{"key": "s1"}])[0])
    assert [one["region"] for one in found["missing"]] == ["us"]


def test_a_measure_without_sets_is_refused(client: TestClient) -> None:
    answer = client.post(PATH, json={"measure": "seats", "of": [{"key": "s1"}]})
    assert (answer.status_code, answer.json()["detail"]) == (422, "measure='seats' has no theta sketch: riders")

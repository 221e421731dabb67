"""Set operations over the API, against sets of Python: of one rehydrator, and of two that share the keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from datasketches import update_theta_sketch
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.hashing import key_hash
from cutwater.adapters.sketches import HllSketches, ThetaSketches
from cutwater.core.events.key_columns import KeyColumn
from cutwater.core.job.job import Job
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import LONG, THETA, THETA_LG_K
from cutwater.local.machine.ports import free_ports
from cutwater.rehydrator.cluster.peers import PASSED_ON, Peers
from cutwater.rehydrator.http_api.models import DistinctAnswer
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.views.query.view import State, Status
from cutwater.views.store.key_layout import Window, storage_key
from support.views.apiserving import Own, app_of, serving
from support.views.changelogs import HOUR_MS, make_job

Values = dict[tuple[str, int], range]
"""The riders of each key and hour."""
KEYS = [f"s{number}" for number in range(8)]
FEW: Values = {(key, hour): range(number * 20, number * 20 + 40 + hour * 100) for number, key in enumerate(KEYS)
               for hour in range(3)}  # fmt: skip


def job_of(folder: Path) -> Job:
    riders = build("riders", "distinct", "pieces", LONG, ThetaSketches(), sketch=THETA)
    seats = build("seats", "distinct", "pieces", LONG, HllSketches())
    return replace(make_job(folder)[0], measures=(build("n", "count", None, None, HllSketches()), riders, seats))


def stored(own: Own, values: Values) -> dict[bytes, bytes]:
    codec, found = Codec(own.job.state_schema), {}
    for (key, hour), riders in values.items():
        sketch = update_theta_sketch(THETA_LG_K)
        for one in riders:
            sketch.update(one)
        sketch.trim()
        row = {
            "n": len(riders),
            "riders": bytes(sketch.compact().serialize(True)) if riders else None,
            "seats": None,
        }
        window = Window(key, hour * HOUR_MS, (hour + 1) * HOUR_MS)
        found[storage_key(window, own.store.segment_ms)] = codec.encode(row)
    return found


def shown(folder: Path, job: Job, values: Values, partitions: frozenset[int] | None = None) -> Own:
    own = Own(folder, job, partitions)
    own.show(1, stored(own, values))
    own.view.status = Status(State.FOLLOWING)
    return own


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("few")
    own = shown(folder / "v", job_of(folder), FEW)
    yield TestClient(app_of(own.view))
    own.close()


def true_values(values: Values, sets: list[dict[str, Any]]) -> list[set[int]]:
    return [
        {
            value
            for (key, hour), riders in values.items()
            if key == one["key"] and one.get("from", 0) <= hour * HOUR_MS < one.get("to", 1 << 60)
            for value in riders
        }
        for one in sets
    ]


hours = st.integers(0, 3).map(lambda hour: hour * HOUR_MS)
some = st.fixed_dictionaries({"key": st.sampled_from([*KEYS, "nobody"])}, optional={"from": hours, "to": hours})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(some, min_size=1, max_size=4), st.lists(some, max_size=3), st.lists(some, max_size=3))
def test_few_values_are_exact(client: TestClient, of: list[Any], common: list[Any], without: list[Any]) -> None:
    """In any, in every, in none: as Python's sets have it, with the rows and the number of each set."""
    answer = client.post("/v1/distinct", json={"measure": "riders", "of": of, "and": common, "not": without})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert DistinctAnswer.model_validate(found, strict=True).model_dump(exclude_unset=True, by_alias=True) == found
    united = set[int]().union(*true_values(FEW, of))
    true = united.intersection(*true_values(FEW, common)).difference(*true_values(FEW, without))
    assert [found[name] for name in ("estimate", "least", "most", "exact")] == [*[len(true)] * 3, True]
    every = [*of, *common, *without]
    assert [one["estimate"] for one in found["sets"]] == list(map(len, true_values(FEW, every)))
    roles = ["of"] * len(of) + ["and"] * len(common) + ["not"] * len(without)
    assert [(one["in"], one["key"], one["from"], one["to"]) for one in found["sets"]] == [
        (role, one["key"], one.get("from"), one.get("to")) for role, one in zip(roles, every, strict=True)
    ]


def partition(job: Job, key: str) -> int:
    return job.shards.partition(job.shards.shard(key_hash(key)))


@contextmanager
def two_peers(folder: Path, job: Job, values: Values) -> Iterator[list[str]]:
    """The addresses of two rehydrators that share the partitions."""
    ports = free_ports(2)
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    with ExitStack() as running:
        for url, port in zip(urls, ports, strict=True):
            peers = partial(Peers, job.shards, dict.fromkeys(urls, ()), url, "")
            mine = peers(Metrics()).partitions
            assert mine
            part = {place: riders for place, riders in values.items() if partition(job, place[0]) in mine}
            assert 0 < len(part) < len(values)
            own = shown(folder / str(port), job, part, mine)
            running.callback(own.close)
            running.enter_context(serving(app_of(own.view, peers=peers), port))
        yield urls


def test_peers_answer_as_one(tmp_path: Path) -> None:
    """Each holds some of the keys; of many values both answer the same estimate, within its bounds."""
    job, later = job_of(tmp_path), 100 * HOUR_MS
    many: Values = {(key, 1): range(number * 1_000, number * 1_000 + 20_000) for number, key in enumerate(KEYS)}
    many |= {(key, 100 + hour): range(0) for key in KEYS for hour in range(130)}
    sets = [{"key": key, "to": later} for key in KEYS]
    asked = {
        "measure": "riders",
        "of": sets[:5],
        "and": [sets[3], sets[6]],
        "not": [sets[7], {"key": "s0", "to": 0}],
    }
    true = len(set(range(6_000, 7_000)))
    with two_peers(tmp_path, job, many) as urls:
        answers = [httpx.post(f"{url}/v1/distinct", json=asked, timeout=20) for url in urls]
        assert [answer.status_code for answer in answers] == [200, 200], answers[0].text
        [one, other] = [answer.json() for answer in answers]
        numbers = ("estimate", "least", "most", "exact")
        assert [one[name] for name in numbers] == [other[name] for name in numbers]
        assert one["least"] <= true <= one["most"]
        assert not one["exact"]
        assert [each["rows"] for each in one["sets"]] == [1] * 8 + [0]
        assert sorted(number for each in one["milestones"] for number in each["partitions"]) == [0, 1, 2]
        for each in one["sets"]:
            assert partition(job, each["key"]) in one["milestones"][each["milestone"]]["partitions"]
        whole = {"measure": "riders", "of": [{"key": key, "from": later} for key in KEYS]}
        refused = httpx.post(f"{urls[0]}/v1/distinct", json=whole, timeout=20)
        assert (refused.status_code, "1,000 rows" in refused.json()["detail"]) == (422, True), "of all owners"
        strange = httpx.post(f"{urls[0]}/v1/distinct", json=asked, headers={PASSED_ON: "00"})
        assert strange.status_code == 421, "of another division"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"measure": "profit"}, "measure='profit' is not a measure of the job: riders"),
        ({"measure": "seats"}, "measure='seats' has no theta sketch: riders"),
        ({"of": []}, "of: List should have at least 1 item"),
        (
            {"of": [{"key": "a"}] * 20, "not": [{"key": "a"}] * 13},
            "33 sets in of, and, not; at most 32 are allowed",
        ),
        ({"and": [{"key": "a", "from": "noon"}]}, "from='noon' is not a time"),
        ({"and": [{"name": "a"}]}, "and.0.key: Field required"),
        ({"or": []}, "or: Extra inputs are not permitted"),
        ({"not": [{"key": "\ud800"}]}, "not.0.key"),
    ],
)
def test_what_cannot_be_answered_is_refused(client: TestClient, change: dict[str, Any], said: str) -> None:
    """With what would be right."""
    body = json.dumps({"measure": "riders", "of": [{"key": "s1"}], **change})
    answer = client.post("/v1/distinct", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, said in answer.json()["detail"]) == (422, True), answer.text


def test_a_job_without_theta_says_what_to_declare(tmp_path: Path) -> None:
    own = Own(tmp_path / "v", make_job(tmp_path)[0])
    own.show(1, {})
    answer = TestClient(app_of(own.view)).post("/v1/distinct", json={"measure": "n", "of": [{"key": "a"}]})
    assert "the job has none: declare a distinct with sketch: theta" in answer.json()["detail"]
    own.close()


def test_a_thousand_rows_and_no_more(tmp_path: Path) -> None:
    """A part of the rows would be another set; a set in two lists is read once."""
    job = job_of(tmp_path)
    own = shown(tmp_path / "v", job, {("a", hour): range(hour, hour + 2) for hour in range(1_001)})
    client = TestClient(app_of(own.view), raise_server_exceptions=False)
    most = {"key": "a", "to": 1_000 * HOUR_MS}
    body = {"measure": "riders", "of": [most], "and": [most, {"key": "nobody"}]}
    assert client.post("/v1/distinct", json=body).json()["sets"][0]["rows"] == 1_000
    assert client.post("/v1/distinct", json={**body, "and": [most]}).json()["estimate"] == 1_001
    stored_sets = {"measure": "riders", "of": [most, {"key": "nobody"}]}
    assert len(client.post("/v1/stored-sets", json=stored_sets).json()["sets"][0]["rows"]) == 1_000
    for path, more in (
        ("/v1/distinct", {"of": [{"key": "a"}]}),
        ("/v1/distinct", {"not": [{"key": "a", "from": 1_000 * HOUR_MS}]}),
        ("/v1/stored-sets", {"of": [{"key": "a"}]}),
        ("/v1/stored-sets", {"of": [{"key": "a"}, {"key": "nobody"}]}),
    ):
        answer = client.post(path, json=body | more)
        assert (answer.status_code, "more than 1,000 rows" in answer.text) == (422, True), more
    own.close()


def test_the_milestone_is_waited_for_and_evicted_windows_are_named(tmp_path: Path) -> None:
    """As every answer of rows does."""
    own = shown(tmp_path / "v", job_of(tmp_path), FEW)
    client = TestClient(app_of(own.view))
    body = {"measure": "riders", "of": [{"key": "s1"}], "and": [{"key": "s1", "from": 2 * HOUR_MS}]}
    late = client.post("/v1/distinct", json=body, params={"at_least": "g1-local-00000000:2", "wait_ms": 1})
    assert late.status_code == 412
    assert own.store.applied is not None
    own.store.commit(own.store.applied, {}, lower_ms=2 * HOUR_MS)
    own.view.show(own.store.applied)
    [whole, above] = client.post("/v1/distinct", json=body).json()["sets"]
    assert ("evicted" in whole["hint"], "hint" in above) == (True, False)
    own.close()


def test_keys_of_columns_are_taken_as_they_are_stored(tmp_path: Path) -> None:
    """However the JSON array is written."""
    job = replace(
        job_of(tmp_path), key_field="", key_columns=(KeyColumn("airport", "string"), KeyColumn("n", "long"))
    )
    own = shown(tmp_path / "v", job, {('["JFK","7"]', 1): range(5)})
    client = TestClient(app_of(own.view))
    body = {"measure": "riders", "of": [{"key": '[ "JFK", "7" ]'}]}
    assert client.post("/v1/distinct", json=body).json()["estimate"] == 5
    answer = client.post("/v1/distinct", json={"measure": "riders", "of": [{"key": "JFK"}]})
    assert (answer.status_code, answer.json()["detail"][:4]) == (422, "key:")
    own.close()

"""The console's actions on real topics: each does what its command does, and leaves its records."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cutwater.adapters.kafka.admin import delete_topics
from cutwater.adapters.topics.audit_log import read_audit
from cutwater.adapters.topics.candidates import candidates
from cutwater.adapters.topics.mirror_topics import positions
from cutwater.console.follower import JobFollower
from cutwater.console.kafka_reader import KafkaReader
from cutwater.console.ports import JobPlace, RunningJob
from cutwater.console.service import Console
from cutwater.core.monitoring.alert_rules import Limits
from cutwater.core.protocol import topics
from support.console.sample_job import TOKENS, ConstructedView, with_roles
from support.harness import wait_until
from support.regions.mirroring import Events, mirroring, wait_arrived
from support.views.candidate_player import Candidate
from support.views.changelogs import Sold, Writing, make_job, now_ms


class Here:
    def __init__(self, url: str, job: str) -> None:
        self._url, self._job = url, job

    def act(
        self, action: str, object_: str = "", typed: str = "", role: str = "owner", duration: str = ""
    ) -> httpx.Response:
        body = {"action": action, "object": object_, "confirmation": typed or object_, "reason": "a test"}
        body["duration"] = duration
        headers = {"authorization": f"Bearer {TOKENS[role]}"}
        return httpx.post(f"{self._url}api/jobs/{self._job}/actions", json=body, headers=headers, timeout=60)

    def get(self, page: str) -> Any:
        headers = {"authorization": f"Bearer {TOKENS['viewer']}"}
        return httpx.get(f"{self._url}api/jobs/{self._job}/{page}", headers=headers, timeout=60).json()


@contextmanager
def console(cluster: Any, job: str, file: Path, folder: Path, region: str = "local") -> Iterator[Here]:
    settings = with_roles(data_dir=folder, bootstrap_servers=cluster.bootstrap, region=region)
    place = JobPlace(job, file, "g1-local-00000000", cluster, settings, "http://127.0.0.1:1", "", True, "")

    def follow(_place: JobPlace) -> JobFollower:
        return JobFollower(KafkaReader(place), ConstructedView(empty=True), Limits(publishes=False), now_ms)

    made = Console(settings, "127.0.0.1", 0, lambda: [RunningJob(place)], follow)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    try:
        yield Here(made.url, job)
    finally:
        made.stop()
        thread.join(20)


def told(cluster: Any, job: str) -> list[tuple[str, str, str, str]]:
    found = read_audit(cluster, job, 100).readable
    assert all((one.actor, one.role, one.via) == ("my-owner", "owner", "console") for one in found)
    return [(one.action, one.object, one.outcome, one.detail) for one in found]


@pytest.fixture
def own(broker: Any, tmp_path: Path) -> Iterator[tuple[Writing, Path]]:
    job, file = make_job(tmp_path)
    made = Writing(broker.cluster, job)
    made.epoch([Sold("a", 1, 5)])
    yield made, file
    made.close()


def test_a_candidate_is_promoted_and_another_given_up(own: tuple[Writing, Path], tmp_path: Path) -> None:
    """As `cutwater generation promote` and `abort` do, with the roles of the tokens."""
    writing, file = own
    job, cluster = writing.job.name, writing.cluster
    candidate = Candidate(writing)
    name = str(candidate.generation)
    with console(cluster, job, file, tmp_path) as here:
        for role in ("viewer", "operator"):
            assert here.act("generation promote", name, role=role).status_code == 403
        assert told(cluster, job) == []
        done = here.act("generation promote", name)
        assert done.status_code == 200, done.text
        assert candidates(cluster, job).require(candidate.generation).promoting
        assert here.act("generation abort", name).status_code == 200
        given_up = candidates(cluster, job).require(candidate.generation)
        assert given_up.withdrawn == "a test"
        again = here.act("generation promote", name)
        assert again.status_code == 400
        page = here.get("audit")["actions"]
    assert told(cluster, job) == [
        ("generation promote", name, "begun", ""),
        ("generation promote", name, "done", f"the promotion of {name} is requested"),
        ("generation abort", name, "begun", ""),
        ("generation abort", name, "done", f"{name} is given up"),
        ("generation promote", name, "begun", ""),
        ("generation promote", name, "failed", again.json()["detail"]),
    ]
    assert [one["outcome"] for one in page] == ["failed", "done", "done"]


@pytest.mark.slow
def test_a_promotion_is_held_shown_and_released(own: tuple[Writing, Path], tmp_path: Path) -> None:
    """As `cutwater generation hold` and `release` do. A follower that runs learns of it from the topic."""
    writing, file = own
    job, cluster = writing.job.name, writing.cluster
    candidate = Candidate(writing)
    name = str(candidate.generation)
    with console(cluster, job, file, tmp_path) as here:
        wait_until(lambda: here.get("overview").get("holds") == [], "the console follows")
        done = here.act("generation hold", name, role="operator", duration="2h")
        assert done.status_code == 200, done.text
        hold = candidates(cluster, job).require(candidate.generation).hold
        assert hold is not None
        assert (hold.by, hold.reason, hold.until_ms - hold.at_ms) == ("my-operator", "a test", 7_200_000)
        shown = {"by": "my-operator", "reason": "a test", "since_ms": hold.at_ms, "until_ms": hold.until_ms}
        wait_until(lambda: here.get("overview")["holds"], "the hold on the overview")
        for page in ("overview", "milestones"):
            assert here.get(page)["holds"] == [{"generation": name, "requested": False, **shown}]
        (node,) = [one for one in here.get("generations")["generations"] if one["id"] == name]
        assert node["claim"]["hold"] == shown
        refused = here.act("generation promote", name)
        assert (refused.status_code, "by my-operator: a test" in refused.json()["detail"]) == (400, True)
        assert here.act("generation release", name, role="operator").status_code == 403
        assert here.act("generation release", name).status_code == 200
        wait_until(lambda: here.get("overview")["holds"] == [], "the end of the hold on the overview")
        assert here.act("generation promote", name).status_code == 200
    done_by = [(one.actor, one.action, one.outcome) for one in read_audit(cluster, job, 100).readable]
    assert done_by[:2] == [("my-operator", "generation hold", one) for one in ("begun", "done")]
    assert done_by[4:6] == [("my-owner", "generation release", one) for one in ("begun", "done")]


def test_a_mirror_is_paused_and_continues(broker: Any, writing: Writing, tmp_path: Path) -> None:
    """The mirror's own process is not asked: it reads the same record as after `cutwater mirror pause`."""
    cluster, job, file = broker.cluster, writing.job, tmp_path / f"{writing.job.name}.yaml"
    events = Events(writing)
    events.produce(5)
    writing.epoch([Sold("a", 1, 1)], source_cut=events.cut())
    with mirroring(cluster, writing.cluster, job) as mirror:
        wait_arrived(mirror, cluster, job, 1)
        with console(cluster, job.name, file, tmp_path, "there") as here:
            for action, paused in (("mirror pause", True), ("mirror resume", False)):
                done = here.act(action, "local", job.name)
                assert done.status_code == 200, done.text
                assert positions(cluster, job.name).steering["local"].paused == paused
                mirror.until(lambda paused=paused: mirror.mirror.arriving.paused == paused, action)
            nobody = here.act("mirror pause", "mars", job.name)
            assert nobody.status_code == 400
            assert "nothing of" in nobody.json()["detail"]
    outcomes = [(action, object_, outcome) for action, object_, outcome, _ in told(cluster, job.name)]
    assert outcomes == [
        *(("mirror pause", "local", one) for one in ("begun", "done")),
        *(("mirror resume", "local", one) for one in ("begun", "done")),
        *(("mirror pause", "mars", one) for one in ("begun", "failed")),
    ]


def test_the_log_is_made_for_a_job_of_an_earlier_version(own: tuple[Writing, Path], tmp_path: Path) -> None:
    writing, file = own
    delete_topics(writing.cluster, [topics.audit(writing.job.name)])
    candidate = Candidate(writing)
    with console(writing.cluster, writing.job.name, file, tmp_path) as here:
        assert here.act("generation abort", str(candidate.generation)).status_code == 200
    assert len(read_audit(writing.cluster, writing.job.name, 10).readable) == 2

"""The recovery trail on a real broker: services that are killed and start again tell what they found and did."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.recovery_log import history
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.recovery_log import RUNNING, STOPPED, Recovery
from support.views.changelogs import GENERATION, Sold, Writing, make_job, until
from support.views.publishing import create, wait_published

MODULES = {
    "commit-signal": "cutwater.commit_signal",
    "publisher": "cutwater.publisher",
    "rehydrator": "cutwater.rehydrator",
}


@contextmanager
def process(module: str, cluster: Cluster, job_file: Path, folder: Path, **env: str) -> Iterator[Any]:
    """A service as a process; killed with -9 when the block is left, if it still lives."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "CUTWATER_BOOTSTRAP_SERVERS": cluster.bootstrap,
        "CUTWATER_DATA_DIR": str(folder),
        "CUTWATER_PORT": "0",
    }
    with (folder / "log").open("ab") as log:
        made = subprocess.Popen(
            [sys.executable, "-m", module, str(job_file)],
            env={**os.environ, **settings, **env},
            stdout=log,
            stderr=log,
        )
    try:
        yield made
    finally:
        made.kill()
        made.wait(20)


def write_one(cluster: Cluster, job: Job) -> None:
    """A milestone of one row."""
    writing = Writing(cluster, job)
    writing.epoch([Sold("a", 1, 5)])
    writing.close()


def starts(cluster: Cluster, job: Job, service: str) -> list[Recovery]:
    return [one for one in history(cluster, job.name, 100) if one.service == service]


@pytest.mark.variations
@pytest.mark.parametrize("service", MODULES)
def test_a_restart_after_kill_9_tells_the_position_that_it_found(
    broker: Any, tmp_path: Path, service: str
) -> None:
    """Found position, decision and measured steps of both starts, in order; the first one had found nothing."""
    job, job_file = make_job(tmp_path / "job")
    create(broker.cluster, job)
    if service != "commit-signal":
        write_one(broker.cluster, job)
    folder = tmp_path / "data"
    with process(MODULES[service], broker.cluster, job_file, folder) as first:
        until(lambda: starts(broker.cluster, job, service), "the first start")
        if service == "publisher":
            wait_published(broker.cluster, job, 1)
        first.kill()
        assert first.wait(20) == -9
    if service == "commit-signal":
        write_one(broker.cluster, job)  # under the signaller's own id: while it lives it would be fenced
    with process(MODULES[service], broker.cluster, job_file, folder):
        until(lambda: len(starts(broker.cluster, job, service)) == 2, "the second start")
    before, after = starts(broker.cluster, job, service)
    token = f"{GENERATION}:1"
    assert dict(before.found)["milestone"] == "none"
    assert dict(after.found)["milestone"] == token
    assert token in after.decision
    assert {before.outcome, after.outcome} == {RUNNING}
    assert before.process != after.process
    assert before.begun_ms < after.begun_ms
    assert all(step.took_ms >= 0 for step in after.steps)
    assert after.took_ms > 0


def test_a_start_that_is_refused_is_on_the_trail(broker: Any, tmp_path: Path) -> None:
    """A commit-signal of a generation that is not the promoted one leaves, and the trail says why."""
    job, job_file = make_job(tmp_path / "job")
    write_one(broker.cluster, job)
    module = MODULES["commit-signal"]
    other = {"CUTWATER_REGION": "other", "CUTWATER_GENERATION": "g1-other-00000000"}
    with process(module, broker.cluster, job_file, tmp_path / "data", **other) as left:
        assert left.wait(60) == 6
    [one] = history(broker.cluster, job.name, 10)
    assert (one.outcome, str(one.generation)) == (STOPPED, "g1-other-00000000")
    assert f"the promoted generation is {GENERATION}" in one.decision
    assert [step.name for step in one.steps] == ["waiting for the brokers", "reading the commit stream"]


@pytest.mark.slow
def test_a_trail_that_cannot_be_written_stops_nobody(broker: Any, tmp_path: Path) -> None:
    """Without its topic a publisher publishes, and says that the trail is missing; the topic is not made anew."""
    job, job_file = make_job(tmp_path / "job")
    create(broker.cluster, job)
    assert admin.delete_topics(broker.cluster, [topics.history(job.name)]) == [topics.history(job.name)]
    write_one(broker.cluster, job)
    admin.delete_topics(broker.cluster, [topics.history(job.name)])  # `Writing` makes all topics of a job
    log = tmp_path / "data" / "log"
    with process(MODULES["publisher"], broker.cluster, job_file, tmp_path / "data") as publisher:
        wait_published(broker.cluster, job, 1)
        until(lambda: "the recovery trail was not written" in log.read_text(), "the warning")
        assert publisher.poll() is None
    assert admin.describe_topics(broker.cluster, [topics.history(job.name)]) == {}

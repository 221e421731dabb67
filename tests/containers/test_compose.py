"""The demonstration through docker-compose.yml, with its containers killed, restarted and cut off meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from compose import ROOT, STOP_S, Compose, docker, gone_afterwards
from compose_demo import Demo, demonstration
from prometheus_targets import require_measured

from cutwater.adapters.topics import commit_stream
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Barrier
from support.harness import wait_until

FEW_DAYS, MORE_DAYS = 31, 220
CLEAN = {0, 143}
"""Exit codes of a container that ended by itself when it was told to; 137 would be by force."""
TOKEN = "a-token-of-the-tests"

pytestmark = [pytest.mark.usefixtures("images"), pytest.mark.needs("docker")]


@pytest.fixture
def compose() -> Iterator[Compose]:
    with gone_afterwards(Compose("cutwater-test")) as one:
        one("up", "-d")
        yield one


@pytest.fixture
def measured() -> Iterator[Compose]:
    """With Prometheus, and with views that ask for a token."""
    env = {"COMPOSE_PROFILES": "metrics", "CUTWATER_API_TOKEN": TOKEN}
    with gone_afterwards(Compose("cutwater-test", **env)) as one:
        one("up", "-d")
        yield one


def test_a_worker_and_the_driver_are_killed(measured: Compose, tmp_path: Path) -> None:
    """kill -9 in the middle of epochs, of a worker with its executor and of the driver: all rows are exact.

    Prometheus reads every service all the while.
    """
    compose = measured
    with demonstration(compose, tmp_path, FEW_DAYS, CUTWATER_API_TOKEN=TOKEN) as demo:
        for victim in ("spark-worker-1", "driver"):
            demo.go_on()
            compose.kill_9(victim)
            wait_until(lambda name=victim: compose.state(name)["RestartCount"], f"docker's restart of {victim}")
        demo.go_on()
        demo.require_exact()
        require_measured(compose, commit_stream.milestones(demo.cluster, "flights", limit=1)[0][0].token.sequence)
    assert stored(compose, "commits") > 0
    assert stored(compose, "state") > 0


def stored(compose: Compose, folder: str) -> int:
    """How many objects of a folder of the checkpoint the object store has, a thousand at most."""
    url = f"http://object-store:9090/checkpoints?list-type=2&prefix=flights.yaml/{folder}/"
    program = f"import urllib.request; print(urllib.request.urlopen({url!r}).read().decode().count('<Key>'))"
    return int(docker("exec", compose.container("driver"), "python3", "-c", program))


def test_everything_is_restarted_and_cut_off(compose: Compose, tmp_path: Path) -> None:
    """Each service told to end, the broker too, commit-signal without network; a view comes and goes."""
    with demonstration(compose, tmp_path, MORE_DAYS) as demo:
        demo.go_on()
        codes = {one: compose.restart(one) for one in ("commit-signal", "publisher", "rehydrator-1", "watch")}
        demo.go_on()
        codes["driver"] = compose.restart("driver")
        demo.go_on()
        with compose.cut_off("commit-signal"):
            wait_until(lambda: ahead(demo) >= 2, "epochs that nobody commits")
        with another_view(compose) as view:
            token = str(commit_stream.milestones(demo.cluster, "flights", limit=1)[0][0].token)
            wait_until(lambda: shows(view, token), "a view that has come later")
        demo.go_on()
        compose("restart", "-t", "30", "kafka")
        demo.require_exact()
    assert set(codes.values()) <= CLEAN, f"not ended by themselves within {STOP_S} s: {codes}"


def ahead(demo: Demo) -> int:
    """How many epochs are written and not committed."""
    cluster, job = demo.cluster, "flights"
    written = commit_stream.newest(
        cluster, topics.barriers(job), lambda one: one if isinstance(one, Barrier) else None
    )
    committed = commit_stream.milestones(cluster, job, limit=1)[0][0]
    return written.epoch - committed.epoch if written else 0


@contextmanager
def another_view(compose: Compose) -> Iterator[str]:
    """A third rehydrator, from nothing; removed by force."""
    env = {"CUTWATER_BOOTSTRAP_SERVERS": "kafka:9092", "CUTWATER_HOST": "0.0.0.0", "CUTWATER_PORT": "8321"}
    options = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
    container = docker(
        "run", "-d", "--network", compose.network, "-p", "127.0.0.1::8321", "-v",
        f"{ROOT}/deploy/jobs:/etc/cutwater:ro", *options, "cutwater-service", "cutwater.rehydrator",
        "/etc/cutwater/flights.yaml",
    )  # fmt: skip
    try:
        yield "http://" + docker("port", container, "8321").splitlines()[0]
    finally:
        docker("rm", "-f", "-v", container)


def shows(view: str, token: str) -> bool:
    """Is a view at a milestone, or beyond?"""
    try:
        return httpx.get(f"{view}/v1/milestone", params={"at_least": token, "wait_ms": 1_000}).is_success
    except httpx.HTTPError:
        return False

"""The demonstration through docker-compose.yml, with its containers killed, restarted and cut off meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from compose import ROOT, STOP_S, Compose, docker, running

from cutwater.adapters import streams
from cutwater.adapters.cluster import Cluster
from cutwater.core.cuts import Cut
from cutwater.core.errors import CutwaterError
from cutwater.demo import flights
from harness import wait_until

FEW_DAYS, MORE_DAYS = 31, 150
EXACT = "0 missing, 0 unexpected, 0 different"
DEMO_S = 600
KILLED = 137
"""The exit code of a container that did not end by itself."""

pytestmark = pytest.mark.usefixtures("images")


class Demo:
    """`cutwater demo --view …` on a running project."""

    def __init__(self, on: Compose, folder: Path, days: int) -> None:
        self.events = len(flights.events(days))
        self.cluster = Cluster(on.bootstrap)
        self._output = folder / "demo.txt"
        views = [word for url in on.views for word in ("--view", url)]
        command = ["demo", "--days", str(days), "--data-dir", str(folder / "demo"), *views]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cutwater.cli.main", *command, "--bootstrap-servers", on.bootstrap],
                cwd=ROOT,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "COLUMNS": "160"},
            )

    @property
    def text(self) -> str:
        return " ".join(self._output.read_text(encoding="utf-8").split())

    def committed(self) -> int:
        """The events in the newest milestone; 0 while nothing answers."""
        try:
            found = streams.milestones(self.cluster, "flights", limit=1)
        except CutwaterError:
            return 0
        return found[-1][0].source_cut.records_since(Cut()) if found else 0

    def go_on(self, events: int = 1) -> int:
        """Wait for a milestone with more events than now; returns how many it holds, which are not all."""
        before = self.committed()
        reached = wait_until(
            lambda: self.process.poll() is not None or self.committed() >= before + events, "a milestone", DEMO_S
        )
        assert self.process.poll() is None, self.text
        assert self.committed() < self.events, "what comes now must come in the middle"
        return int(reached)

    def require_exact(self) -> None:
        """All views, the output and the milestones are what DuckDB says."""
        assert self.process.wait(DEMO_S) == 0, self.text
        assert self.text.count(EXACT) == 4  # both views, the output, whole milestones


@contextmanager
def demonstration(on: Compose, folder: Path, days: int) -> Iterator[Demo]:
    demo = Demo(on, folder, days)
    try:
        yield demo
    finally:
        demo.process.kill()
        demo.process.wait(30)


@pytest.fixture
def compose() -> Iterator[Compose]:
    with running("cutwater-test") as one:
        yield one


def test_a_worker_and_the_driver_are_killed(compose: Compose, tmp_path: Path) -> None:
    """kill -9 in the middle of epochs, of a worker with its executor and of the driver: all rows are exact."""
    with demonstration(compose, tmp_path, FEW_DAYS) as demo:
        for victim in ("spark-worker-1", "driver"):
            demo.go_on()
            compose.kill_9(victim)
            wait_until(lambda name=victim: compose.state(name)["RestartCount"], f"docker's restart of {victim}")
        demo.go_on()
        demo.require_exact()


def test_everything_is_restarted_and_cut_off(compose: Compose, tmp_path: Path) -> None:
    """Each service told to end, the broker too, commit-signal without network; a view comes and goes."""
    with demonstration(compose, tmp_path, MORE_DAYS) as demo:
        demo.go_on()
        codes = {one: compose.restart(one) for one in ("commit-signal", "publisher", "rehydrator-1", "watch")}
        demo.go_on()
        codes["driver"] = compose.restart("driver")
        demo.go_on()
        with compose.cut_off("commit-signal"):
            before = demo.committed()
            cut_off_is_noticed(compose)
            assert demo.committed() == before, "nobody but commit-signal writes milestones"
        with another_view(compose) as view:
            token = str(streams.milestones(demo.cluster, "flights", limit=1)[0][0].token)
            wait_until(lambda: shows(view, token), "a view that has come later")
        compose("restart", "-t", "30", "kafka")
        demo.go_on()
        demo.require_exact()
    assert KILLED not in codes.values(), f"ended only by force after {STOP_S} s: {codes}"


def cut_off_is_noticed(compose: Compose) -> None:
    """Its own log says that it does not reach the brokers."""
    wait_until(
        lambda: "kafka:9092" in docker("logs", "--since", "5s", compose.container("commit-signal")), "a log"
    )


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

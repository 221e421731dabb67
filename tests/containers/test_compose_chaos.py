"""`cutwater chaos --compose` on containers that run: each fault happens, and no row is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from compose import ROOT, Compose, gone_afterwards

from support.cli.jsonshapes import parsed
from support.harness import wait_until

pytestmark = [pytest.mark.usefixtures("images"), pytest.mark.needs("docker")]
PLAN = """
duration: 100s
lag_bound: 20s
recovery: 180s
load: {rate: 100, keys: 50}
faults:
  5s: {kill: driver}
  40s: {stop: commit-signal, for: 4s}
  50s: {cut: publisher, for: 5s}
  65s: {restart: rehydrator}
  80s: {cut: broker, for: 4s}
"""


@pytest.fixture
def compose() -> Iterator[Compose]:
    with gone_afterwards(Compose("cutwater-chaos-test")) as made:
        made("up", "-d")
        yield made


def test_every_fault_of_containers_happens_and_no_row_is_wrong(compose: Compose, tmp_path: Path) -> None:
    """The containers have their names and networks again in the end, and none is paused."""
    wait_until(lambda: compose.state("driver")["State"]["Health"]["Status"] == "healthy", "the driver", 180)
    before = {one: compose.state(one) for one in ("driver", "publisher", "kafka")}
    (tmp_path / "plan.yaml").write_text(PLAN)
    words = ["chaos", str(tmp_path / "plan.yaml"), "--compose", compose.project, "--json"]
    words += ["--job-file", str(ROOT / "deploy/jobs/flights.yaml"), "--data-dir", str(tmp_path / "data")]
    done = subprocess.run(
        [sys.executable, "-m", "cutwater.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "COLUMNS": "200"},
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    told = parsed(["chaos"], done.stdout)
    assert [(one["fault"], one["processes"]) for one in told["faults"]] == [
        ("kill", 1),
        ("stop", 1),
        ("cut", 1),
        ("restart", 2),
        ("cut", 1),
    ]
    assert told["caught_up"], done.stderr
    assert (told["rows"]["missing"], told["rows"]["unexpected"]) == (0, 0)
    assert told["rows"]["rows"] > 50
    after = {one: compose.state(one) for one in before}
    assert after["driver"]["State"]["StartedAt"] != before["driver"]["State"]["StartedAt"], (
        "docker started it again"
    )
    for one in ("publisher", "kafka"):
        networks = after[one]["NetworkSettings"]["Networks"]
        assert networks.keys() == before[one]["NetworkSettings"]["Networks"].keys()
        assert all(one in network["Aliases"] for network in networks.values())
    assert not compose.state("commit-signal")["State"]["Paused"]

"""A function of the user's and its table, mounted into the containers beside the job file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from compose import ROOT, Compose, gone_afterwards
from compose_demo import demonstration

from cutwater.demo import flights

DAYS = 31
FUNCTION = '''\
"""Events of airlines that a table has."""


def keep_known(events, airlines):
    return events.join(airlines, events.carrier == airlines.code)
'''

pytestmark = [pytest.mark.usefixtures("images"), pytest.mark.needs("docker")]


def put_jobs(folder: Path) -> Path:
    """The demonstration's job, and a function that leaves out every event whose airline a table does not have."""
    job = yaml.safe_load((ROOT / "deploy/jobs/flights.yaml").read_text(encoding="utf-8"))
    job["source"]["transform"] = {
        "function": "airlines:keep_known",
        "tables": {"airlines": "airlines.csv"},
    }
    codes = sorted(set(flights.events(DAYS)["carrier"]))
    folder.mkdir()
    for name, text in (
        ("flights.yaml", yaml.safe_dump(job, sort_keys=False)),
        ("airlines.py", FUNCTION),
        ("airlines.csv", "\n".join(["code", *codes]) + "\n"),
    ):
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o644)  # the containers' user reads them
    folder.chmod(0o755)
    return folder


def test_a_function_counts_in_containers(tmp_path: Path) -> None:
    """An airline that the table lacked would leave rows out: all have come. The driver is killed meanwhile."""
    jobs = put_jobs(tmp_path / "jobs")
    services = ("topics", "driver", "commit-signal", "publisher", "rehydrator-1", "rehydrator-2", "watch")
    mounted = {"volumes": [f"{jobs}:/etc/cutwater:ro"]}
    on_top = tmp_path / "on_top.json"  # JSON is YAML
    on_top.write_text(json.dumps({"services": dict.fromkeys(services, mounted)}), encoding="utf-8")
    with gone_afterwards(Compose("cutwater-test", str(on_top))) as compose:
        compose("up", "-d")
        with demonstration(compose, tmp_path, DAYS) as demo:
            demo.go_on()
            compose.kill_9("driver")
            demo.require_exact()
        assert compose.state("driver")["RestartCount"]

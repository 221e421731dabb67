"""docs/TUTORIAL.md as somebody follows it: its commands, in order, on a stack that they start themselves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.harness import wait_until
from support.pages import ROOT, blocks

pytestmark = pytest.mark.slow

OWN = {"make demo", ". .venv/bin/activate"}
"""The demonstration has its own test; the environment is the one that this test runs in."""
LINES = [line for block in blocks("docs/TUTORIAL.md") if block.language == "sh" for line in block.lines]
SHOWN = {
    "cutwater up": "generation g1-local-00000000",
    "cutwater produce examples/tutorial/flights.jsonl": "3 events delivered to flights.events",
    "cutwater tail --limit 1": "g1-local-00000000:1",
    "cutwater get EWR": "2013-01-02T11:00:00Z",
    "cutwater status": "g1-local-00000000:",
    "cutwater milestones --check": "contiguous, chained",
    "curl": '"window_start":"2013-01-02T11:00:00Z"',
    "cutwater produce examples/tutorial/more.jsonl": "1 events delivered to flights.events",
    "cutwater tail --idle": "47",
    "python examples/tutorial/watch.py": "EWR 3 movements, worst delay 47",
    "cutwater down --delete": "stopped",
}
"""What each command of the page must show, by its beginning; the longest that fits."""


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A user's shell with `cutwater` and `python` on its path; the stack is down afterwards."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "cutwater").write_text(f'#!/bin/sh\nexec {sys.executable} -m cutwater.cli.main "$@"\n')
    (tools / "cutwater").chmod(0o755)
    path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    made = {**os.environ, "PATH": path, "COLUMNS": "250", "CUTWATER_PORT": "0"}
    made["CUTWATER_DATA_DIR"] = str(tmp_path / "stack")
    made.pop("CUTWATER_BOOTSTRAP_SERVERS", None)
    yield made
    subprocess.run(["cutwater", "down"], env=made, check=False, timeout=120, capture_output=True)


def shell(line: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line], cwd=ROOT, env=env, capture_output=True, text=True, timeout=400, check=False
    )


def wanted(line: str) -> str:
    """Fails for a command that nothing is said of."""
    fitting = [begin for begin in SHOWN if line.startswith(begin)]
    assert fitting, f"what must '{line}' show?"
    return SHOWN[max(fitting, key=len)]


def test_the_tutorial_runs_as_it_is_written(env: dict[str, str], tmp_path: Path) -> None:
    """Each command ends well and shows what the page says; addresses are those that `up` printed."""
    addresses: dict[str, str] = {}
    for line in LINES:
        if line in OWN:
            continue
        for old, new in addresses.items():
            line = line.replace(old, new)  # noqa: PLW2901
        shown = ""

        def shows(line: str = line) -> bool:
            """People type more slowly than views follow: what only asks is asked again."""
            nonlocal shown
            done = shell(line, env)
            shown = f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            return done.returncode == 0 and wanted(line) in re.sub(r"\s+", " ", done.stdout)

        if line.startswith(("cutwater get", "cutwater tail", "curl")):
            wait_until(shows, f"{line} to show {wanted(line)}", 60)
        else:
            assert shows(), shown
        if line.startswith("cutwater up"):
            stack = json.loads(shell("cutwater status --json", env).stdout)["stack"]
            addresses = {"127.0.0.1:9092": stack["bootstrap_servers"], "http://127.0.0.1:8321": stack["api_url"]}
    assert not (tmp_path / "stack").exists()

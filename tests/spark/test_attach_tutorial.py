"""The commands of docs/ATTACH.md, as they stand there: a stack without driver, and the user's program.

Its section on generations is shown by tests/spark/attach/test_attach_generations.py.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.harness import kill_session, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ATTACH.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A user's shell: `cutwater`, `python` and `spark-submit` are on its path; the stack is down afterwards."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "cutwater").write_text(f'#!/bin/sh\nexec {sys.executable} -m cutwater.cli.main "$@"\n')
    (tools / "cutwater").chmod(0o755)
    path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    made = {**os.environ, "PATH": path, "CUTWATER_DATA_DIR": str(tmp_path / "stack")}
    made.pop("CUTWATER_BOOTSTRAP_SERVERS", None)
    yield made
    subprocess.run(["cutwater", "down"], env=made, check=False, timeout=120)


def shell(command: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        shlex.split(command), cwd=ROOT, env=env, capture_output=True, text=True, timeout=400, check=False
    )


def test_the_tutorial_runs_as_it_is_written(env: dict[str, str], tmp_path: Path) -> None:
    """`up` starts everything but a driver and says how to run the program; then the view answers."""
    up, programs, asking = (block.strip().splitlines() for block in BLOCKS[:3])
    started = shell(f"{up[0]} --detach --json", env)
    assert started.returncode == 0, started.stderr
    stack = json.loads(started.stdout)
    assert set(stack["logs"]) == {"broker", "commit-signal", "console", "rehydrator", "publisher", "watch"}
    exported = {**env, **stack["program"]}
    produced = shell(programs[0], exported)
    assert "1000 orders produced" in produced.stdout, produced.stderr
    submit = programs[1].replace('"$CUTWATER_SPARK_JARS"', exported["CUTWATER_SPARK_JARS"])
    with (tmp_path / "program.log").open("wb") as log:
        program = subprocess.Popen(
            shlex.split(submit), cwd=ROOT, env=exported, stdout=log, stderr=log, start_new_session=True
        )
    try:

        def counted() -> bool:
            assert program.poll() is None, (tmp_path / "program.log").read_text()[-3000:]
            return sum(rows(one, env) for one in ("north", "south", "east", "west")) == 1_000

        assert asking[0] == "cutwater get north"
        wait_until(counted, "every order once in the view")
        checked = shell(asking[1], env)
        assert checked.returncode == 0, checked.stdout
    finally:
        kill_session(program.pid)
        program.wait(30)


def rows(region: str, env: dict[str, str]) -> int:
    """The orders of a region, as `cutwater get` tells them."""
    told = shell(f"cutwater get {region} --json", env)
    found: dict[str, Any] = json.loads(told.stdout) if told.returncode == 0 else {}
    return sum(one["orders"] for one in found.get("rows", ()))

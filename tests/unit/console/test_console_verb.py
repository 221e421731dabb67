"""`cutwater console` as a process: it starts without a stack, finds one later, and ends on SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.cli.stack.console import running_jobs
from cutwater.local.processes.restart_policy import Failure
from cutwater.local.running_file import RunningStack, describe_self
from support.cli.verb_records import JOB_FILE
from support.harness import wait_until
from support.protocol_samples import GENERATION


def stack(folder: Path, **changes: object) -> RunningStack:
    """A stack whose process is this test."""
    pid, started = describe_self()
    told: dict[str, object] = {
        **{"pid": pid, "started": started, "ready": True, "job_file": str(JOB_FILE), "job": "flights"},
        **{"generation": str(GENERATION), "bootstrap_servers": "127.0.0.1:1", "api_url": "http://127.0.0.1:1"},
        **{"spark_ui_url": "", "data_dir": str(folder), "logs": {}},
    }
    return RunningStack(**told | changes)  # type: ignore[arg-type]


def test_the_verb_serves_until_it_is_stopped(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("CUTWATER_")}
    command = [sys.executable, "-m", "cutwater.cli.main", "console", "--port", "0", "--json"]
    with subprocess.Popen(
        [*command, "--data-dir", str(tmp_path)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            assert "<title>Cutwater console</title>" in httpx.get(url).text
            assert "No stack runs" in httpx.get(f"{url}api/jobs").json()["problem"]
            stack(tmp_path, ready=False).write()
            wait_until(lambda: httpx.get(f"{url}api/jobs").json()["jobs"] != [], "the console found the stack")
        finally:
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=20)[1]
    assert (process.returncode, said) == (0, "")


def test_the_jobs_are_those_of_the_running_files(tmp_path: Path) -> None:
    """With their own folders, and the failures that are on no topic."""
    failing = Failure(exit_code=70, said="a bug", times=3, since_ms=1, last_ms=2)
    folder = tmp_path / "jobs" / "flights"
    folder.mkdir(parents=True)
    stack(folder, snapshots="s3://kept", failures={"driver": failing}).write()
    (found,) = running_jobs(Settings(data_dir=tmp_path))
    assert (found.place.job, found.place.settings.data_dir, found.place.snapshots) == (
        "flights",
        folder,
        "s3://kept",
    )
    assert found.place.cluster.bootstrap == "127.0.0.1:1"
    assert all(one.part == "driver" for one in found.alerts)
    assert psutil.pid_exists(describe_self()[0])
    assert running_jobs(Settings(data_dir=tmp_path / "nothing")) == []


def test_a_port_in_use_ends_the_verb(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = str(taken.getsockname()[1])
        command = [
            sys.executable,
            "-m",
            "cutwater.cli.main",
            "console",
            "--data-dir",
            str(tmp_path),
            "--port",
            port,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "is in use" in done.stderr


@pytest.mark.parametrize("job", ["flights"])
def test_a_stack_that_has_ended_runs_no_job(tmp_path: Path, job: str) -> None:
    stack(tmp_path, pid=1, started=0.0, job=job).write()
    assert running_jobs(Settings(data_dir=tmp_path)) == []

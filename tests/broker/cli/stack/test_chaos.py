"""`cutwater chaos` on a real broker, and a process that looks like the stack's."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from cutwater.adapters.kafka import admin
from cutwater.cli.main import app
from cutwater.core.protocol import topics
from support.cli.jsonshapes import parsed
from support.cli.stack_file import write_stack
from support.harness import wait_until
from support.views.changelogs import make_job

PLAN = "duration: 1s\nfaults:\n  0s: {stop: watch, for: 1s}\n"


@pytest.fixture
def folder(broker: Any, tmp_path: Path) -> Iterator[Path]:
    """A stack whose only process is a watch that does nothing, and whose source topic is empty."""
    made, job_file = make_job(tmp_path / "job")
    admin.create_topics(broker.cluster, [topics.events(made.topic, 3)])
    for one in (topics.milestones(made.name), topics.alerts(made.name)):
        admin.create_topics(broker.cluster, [topics.events(one, 1)])
    write_stack(tmp_path, "", job_file=str(job_file), bootstrap=broker.cluster.bootstrap)
    program = [sys.executable, "-c", "import time; time.sleep(600)", "cutwater.watch", str(job_file)]
    with subprocess.Popen(program) as child:
        yield tmp_path
        child.kill()


def chaos(folder: Path, plan: str, *options: str) -> Any:
    (folder / "plan.yaml").write_text(plan)
    place = ("--data-dir", str(folder), "--no-replay")
    return CliRunner().invoke(app, ["chaos", str(folder / "plan.yaml"), *place, *options])


def test_a_fault_is_made_and_reported(folder: Path) -> None:
    done = chaos(folder, PLAN, "--json", "--report", str(folder / "page.html"))
    assert done.exit_code == 0, done.output
    told = parsed(["chaos"], done.stdout)
    (fault,) = told["faults"]
    assert (fault["fault"], fault["process"], fault["processes"], fault["in_time"]) == ("stop", "watch", 1, True)
    assert (told["caught_up"], told["rows"]) == (True, None)
    assert "<svg" in (folder / "page.html").read_text()


def test_a_fault_that_cannot_be_made_is_no_result(folder: Path) -> None:
    done = chaos(folder, PLAN.replace("watch", "publisher"))
    assert done.exit_code == 4
    assert "publisher does not run" in done.output


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_command_that_is_ended_leaves_no_fault(folder: Path, number: int) -> None:
    """By Ctrl-C, by its end from outside, and with its terminal: the stopped process goes on."""
    (folder / "plan.yaml").write_text("duration: 10m\nfaults:\n  0s: {stop: watch, for: 9m}\n")
    (watch,) = [one for one in psutil.Process().children() if "cutwater.watch" in one.cmdline()]
    words = [sys.executable, "-m", "cutwater.cli.main", "chaos", str(folder / "plan.yaml"), "--no-replay"]
    with subprocess.Popen([*words, "--data-dir", str(folder)], start_new_session=True) as command:
        wait_until(lambda: watch.status() == psutil.STATUS_STOPPED, "the fault", 60)
        command.send_signal(number)
        assert command.wait(60)
    assert watch.status() != psutil.STATUS_STOPPED

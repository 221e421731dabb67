"""Two jobs whose drivers share a Spark application: exact, when a driver is killed, and when their JVM is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from test_jobs_in_one_stack import EVENTS, LAST, PIECES, expected, produce, state, write_jobs

from cutwater.local import running_file
from support.cli.commandline import Cli
from support.cli.jsonshapes import parsed
from support.harness import wait_until

pytestmark = pytest.mark.slow
APPLICATION = "cutwater_spark.application"


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    files = write_jobs(tmp_path)
    made = Cli(tmp_path)
    alone = made.run("up", str(tmp_path / "up.yaml"), "--one-application", "--detach")
    assert (alone.returncode, "is for several jobs" in alone.stderr) == (2, True)
    done = made.run("up", *files, "--one-application", "--detach", "--json")
    assert done.returncode == 0, done.stderr
    uis = [one["spark_ui_url"] for one in parsed(["up"], done.stdout)["jobs"]]
    assert uis[0] == uis[1]
    try:
        yield made
    finally:
        made.run("down")


def processes(cli: Cli, *words: str) -> list[psutil.Process]:
    """The stack's processes with these words in their command lines."""
    stack = psutil.Process(running_file.stacks(cli.folder / "data")[0].pid)
    found = []
    for one in stack.children(recursive=True):
        try:
            line = one.cmdline()
        except psutil.NoSuchProcess:
            continue
        if all(any(word in part for part in line) for word in words):
            found.append(one)
    return found


def kill(process: psutil.Process) -> None:
    process.kill()
    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "it is dead", 10)


def begun(cli: Cli) -> int:
    """How many drivers have had a session in the application."""
    return (cli.folder / "data" / "logs" / "spark.log").read_text().count("a driver has begun")


def test_kills_of_a_driver_and_of_the_shared_jvm_change_no_row(cli: Cli) -> None:
    """There is one JVM of Spark; each kill is followed by new sessions; every row against DuckDB."""
    assert len(processes(cli, "java", "org.apache.spark.deploy.SparkSubmit")) == 1
    assert begun(cli) == 2
    produce(cli, EVENTS[0::PIECES])
    kill(processes(cli, "cutwater_spark.driver", "up.yaml")[0])
    produce(cli, EVENTS[1::PIECES])
    wait_until(lambda: begun(cli) == 3, "the killed driver has a session again", 120)
    (jvm,) = processes(cli, "java", "org.apache.spark.deploy.SparkSubmit")
    kill(jvm)
    produce(cli, EVENTS[2::PIECES])
    wait_until(lambda: begun(cli) == 5, "both drivers have a session of the next JVM", 240)
    for piece in range(3, PIECES):
        produce(cli, EVENTS[piece::PIECES])
    produce(cli, [LAST])
    wanted = expected()
    wait_until(lambda: state(cli) == wanted, "every row of both jobs", 240)
    assert [one.pid for one in processes(cli, "java", "org.apache.spark.deploy.SparkSubmit")] != [jvm.pid]
    assert len(processes(cli, APPLICATION)) == 1
    assert cli.run("down").returncode == 0
    assert running_file.stacks(cli.folder / "data") == []

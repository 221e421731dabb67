"""A driver that fails at each start, in a real stack: `status` says it, while it is restarted and later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.cli.commandline import Cli, running_stack
from support.cli.jsonshapes import parsed
from support.events import counting
from support.harness import descendants, wait_until

pytestmark = pytest.mark.slow
EVENTS = counting.events(600)


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    with running_stack(tmp_path, counting.job_text("counts")) as made:
        yield made


def status(cli: Cli) -> Any:
    """Its exit code may be of an alert."""
    done = cli.run("status", "--json")
    assert done.returncode in (0, 1), done.stderr
    return parsed(["status"], done.stdout)


def repeated(cli: Cli) -> Any:
    return [one for one in status(cli)["alerts"] if one["kind"] == "repeated-failure"]


@pytest.mark.timeout(1_800)  # a Spark driver that starts at least four times
def test_a_driver_that_fails_at_each_start_is_named(cli: Cli) -> None:
    """A part of its state is gone, so each epoch fails in the same way; then its checkpoint is of another job
    file."""
    cli.produce(EVENTS[:300])
    wait_until(lambda: status(cli)["milestone"], "a first milestone")
    part = next((cli.folder / "data/checkpoints").glob("**/state/0/0"))
    part.rename(part.parents[2] / "gone")
    (driver,) = [
        one for one in descendants(status(cli)["stack"]["pid"], "cutwater_spark.driver") if one.name() != "java"
    ]
    with psutil.Popen(["kill", "-9", str(driver.pid)]):
        pass
    cli.produce(EVENTS[300:])
    wait_until(lambda: repeated(cli), "the alert", 900)
    (alert,) = repeated(cli)
    assert (alert["part"], alert["told_by"], alert["value"] >= 2) == ("driver", "up", True)
    assert "exit code 4: cutwater driver: Spark ended with an error" in alert["text"]
    assert "FileNotFoundException" in alert["text"]
    assert alert["text"].endswith("driver.log")
    done = cli.run("status")
    assert done.returncode == 1
    assert "alert: repeated-failure (driver) since" in done.stdout

    cli.run("down")
    done = cli.run("status")
    assert (done.returncode, "An error has ended" in done.stderr) == (2, False)

    text = counting.job_text("counts")
    (cli.folder / "job.yaml").write_text(text.replace("shuffle_partitions: 1", "shuffle_partitions: 3"))
    assert cli.run("up", cli.job_file, "--detach").returncode == 2
    done = cli.run("status")
    assert done.returncode == 2
    assert "An error has ended the last one, at 20" in done.stderr
    assert "shuffle_partitions was 1 and is 3" in done.stderr

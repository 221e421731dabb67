"""A stack whose log loses acknowledged records: the driver ends with its advice, which an operator can follow."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_generation import EVENTS, promoted, served, shown, verified

from cutwater.core.errors import LostRecordsError, UnavailableError
from support.cli.commandline import Cli, running_stack
from support.events import counting
from support.harness import wait_until

pytestmark = pytest.mark.slow
ADVICE = re.compile(r"'cutwater rollback --to (\S+)' starts a generation from it")


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    with running_stack(tmp_path, counting.job_text("counts")) as made:
        yield made


def up(cli: Cli) -> str:
    done = cli.run("up", cli.job_file, "--detach")
    assert done.returncode == 0, done.stderr
    return done.stderr


def lose_the_end(cli: Cli, topic: str) -> None:
    """The last batch of partition 0, as a power failure takes it: the broker has stopped, and repairs its log."""
    logs = cli.folder / "data/broker/log"
    segment = max((logs / f"{topic}-0").glob("*.log"))
    os.truncate(segment, segment.stat().st_size - 1)
    (logs / ".kafka_cleanshutdown").unlink()


@pytest.mark.timeout(1_200)  # three Spark drivers, one after the other
def test_the_advice_of_a_driver_that_lost_records_leads_to_the_right_rows(cli: Cli) -> None:
    """The stack waits without a driver, and continues with the generation of the advised rollback."""
    cli.produce(EVENTS[:2_000])

    def is_read() -> bool:
        milestone = json.loads(cli.run("status", "--json").stdout)["milestone"]
        return bool(milestone) and sum(milestone["source_cut"].values()) == 2_000

    wait_until(is_read, "a milestone of the first events", 240)
    before = shown(cli)["token"]
    first = json.loads((cli.folder / "data/stack.json").read_text())["generation"]
    cli.run("down")
    lose_the_end(cli, f"counts.changelog.{first}")

    told = up(cli)
    found = ADVICE.search(told)
    assert found, told
    token = found[1]
    assert int(token.rpartition(":")[2]) < int(before.rpartition(":")[2])
    log = (cli.folder / "data/logs/up.log").read_text()
    assert f"driver ended with exit code {LostRecordsError.exit_code} and is not restarted: records are" in log
    last = [one for one in (cli.folder / "data/logs/driver.log").read_text().splitlines() if ADVICE.search(one)]
    assert last, "the driver itself names the milestone"
    assert token in last[-1]
    assert "from the last milestone" not in last[-1]
    alerts = json.loads(cli.run("status", "--json").stdout)["alerts"]
    assert ("divergence", "driver") in {(one["kind"], one["part"]) for one in alerts}
    assert len(cli.json("generation", "list")) == 1, "no claim that cannot work"

    cli.produce(EVENTS[2_000:])
    done = cli.run("rollback", "--to", token, "--wait", "0")
    assert done.returncode in (0, UnavailableError.exit_code), "claimed, and its promotion is asked for"
    second = promoted(cli, 2)
    wait_until(lambda: verified(cli) == {"changelog", "view", "state", "output"}, "all places equal", 240)
    assert served(cli) == counting.expected(EVENTS)
    assert shown(cli)["token"].startswith(second)
    assert cli.run("milestones", "--check").returncode == 0

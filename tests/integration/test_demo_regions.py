"""The demonstration of two regions as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from support.cli.jsonshapes import parsed
from support.demonstration import ROOT, alive
from support.harness import descendants, wait_until

PATIENCE_S = 1_200
COMMAND = (sys.executable, "-m", "cutwater.cli.main", "demo-regions", "--json", "--data-dir")
SHORT = ("--days", "4", "--rate", "400")


@contextmanager
def demonstration(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A running one; its output goes to out.json and err.txt. None of its processes is left afterwards."""
    with (folder / "out.json").open("wb") as out, (folder / "err.txt").open("wb") as err:
        process = subprocess.Popen(
            [*COMMAND, str(folder / "regions"), *SHORT],
            cwd=ROOT, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "160"},
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(30)


def test_two_regions_end_with_all_they_started(tmp_path: Path) -> None:
    """SIGTERM while they start: exit 130, and no process is left."""
    with demonstration(tmp_path) as process:
        children: list[psutil.Process] = []

        def both_started() -> bool:  # looked at once: a process that only asks Java's version ends meanwhile
            children[:] = descendants(process.pid)
            return len(children) >= 2 or process.poll() is not None

        wait_until(both_started, "both brokers")
        process.terminate()
        assert process.wait(PATIENCE_S) == 130, (tmp_path / "err.txt").read_text(encoding="utf-8")
    assert len(children) >= 2
    wait_until(lambda: not any(alive(one.pid) for one in children), "the end of every process", 20)


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_S + 60)
def test_two_regions_from_death_to_failback(tmp_path: Path) -> None:
    """kill -9 of us, failover, return, failback: exit 0, every check passed, none left out, no process left."""
    with demonstration(tmp_path) as process:
        children: set[psutil.Process] = set()
        while process.poll() is None:  # they come and go; the test's own timeout bounds it
            children.update(descendants(process.pid))
            time.sleep(0.5)
        assert process.wait() == 0, (tmp_path / "err.txt").read_text(encoding="utf-8")
    told = parsed(["demo-regions"], (tmp_path / "out.json").read_text(encoding="utf-8"))
    assert told["right"]
    assert not told["not_shown"]
    for what in ("the view of", "the output of"):
        checks = [one["check"] for one in told["checks"] if one["check"].startswith(what)]
        assert sum("equals DuckDB" in one for one in checks) == 3
    assert sum("has no gap" in one["check"] for one in told["checks"]) == 3
    assert [one for one in told["checks"] if "exit: eu has the job" in one["check"]]
    assert [one for one in told["checks"] if "eu is a replica of us again" in one["check"]]
    facts = told["facts"]
    assert facts["differing_rows"] == 0
    assert facts["lost_events"] > 0, "something must have been lost"
    assert facts["lost_milestones"] >= facts["lost_at_least"]["milestones"] > 0
    # A region that went on contradicts nothing; one that comes back takes back what its fork had told its readers.
    assert (facts["eu_corrections"], facts["us_corrections"] > 0) == (0, True)
    assert facts["lost_counted"] + facts["lost_late"] == facts["lost_events"]
    assert len(children) > 10, "two brokers, and what both regions ran"
    assert not [one for one in children if one.is_running() and alive(one.pid)]

"""The demonstration as a user runs it, and with one process killed in the middle of it."""

from __future__ import annotations

import os
import random
import re
import resource
import time
from pathlib import Path

import psutil
import pytest

from cutwater.local import running_file
from support.demonstration import DAYS, EVENTS, EXACT, Demo, alive
from support.harness import descendants, wait_until


@pytest.mark.slow
def test_the_demonstration_is_exact(tmp_path: Path) -> None:
    """`cutwater demo` exits 0 with every served row equal to DuckDB's, and leaves its picture and no process."""
    demo = Demo(tmp_path, 31)
    wait_until(lambda: demo.committed() > 0 or demo.process.poll() is not None, "a first milestone")
    children = descendants(demo.process.pid)
    assert demo.finish() == 0, demo.text()
    assert EXACT in demo.text()
    assert re.search(r"18,113 rows served, 18,113 expected", demo.text())
    ending = demo.text().partition(": 0 lost")[2]
    assert "took" in ending
    assert "rdkafka" not in ending, ending  # its own broker ends: nobody needs to hear that it has gone
    assert (demo.data_dir / "delays.png").stat().st_size > 10_000
    assert [one for one in children if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []


def kill(demo: Demo, *victims: str) -> None:
    """kill -9 of members of the stack, with events still to come; returns once they have ended."""
    reached = demo.committed()
    pids = {victim: demo.pids(victim) for victim in victims}
    assert all(pids.values()), f"the victims must have been alive: {pids}"
    for pid in (pid for found in pids.values() for pid in found):
        os.kill(pid, 9)
    assert 0 < reached < EVENTS, "the kill must come in the middle"
    wait_until(lambda: not any(alive(pid) for found in pids.values() for pid in found), "the end of the victims")


def restarted(demo: Demo, member: str) -> bool:
    return re.search(rf"{member} ended with exit code -?\d+; restarting", demo.text()) is not None


@pytest.mark.slow
def test_every_process_is_killed_in_the_middle_of_the_demonstration(tmp_path: Path) -> None:
    """kill -9 of all services, of Spark and of the broker at one moment: exact all the same.

    The slow tests kill each of them alone.
    """
    demo = Demo(tmp_path, DAYS)
    demo.begun()
    kill(demo, "driver-jvm", "commit-signal", "rehydrator", "publisher", "broker")
    assert demo.finish() == 0, demo.text()
    assert demo.text().count(EXACT) == 3  # served, published, in whole milestones
    members = ("driver", "commit-signal", "rehydrator", "publisher", "broker")
    assert [one for one in members if not restarted(demo, one)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "victim", ["driver-python", "driver-jvm", "driver-both", "commit-signal", "rehydrator", "broker"]
)
def test_kill_9_in_the_middle_of_the_demonstration(tmp_path: Path, victim: str) -> None:
    """After kill -9 of one process with events still to come, the demonstration ends exact all the same."""
    demo = Demo(tmp_path, DAYS)
    demo.begun()
    kill(demo, victim)
    assert demo.finish() == 0, demo.text()
    assert EXACT in demo.text()
    assert restarted(demo, victim.partition("-")[0] if victim.startswith("driver") else victim)


@pytest.mark.slow
def test_kill_9_of_the_publisher_at_random(tmp_path: Path) -> None:
    """Killed again and again while it publishes: the output is exact, and `committed()` never yields a part."""
    demo, rng, kills = Demo(tmp_path, DAYS), random.Random(5), 0
    wait_until(lambda: demo.committed() > 0 or demo.process.poll() is not None, "a first milestone")
    while kills < 5 and demo.process.poll() is None:
        time.sleep(rng.uniform(0.5, 2.5))
        pids = demo.pids("publisher")
        for pid in pids:
            os.kill(pid, 9)
        kills += bool(pids)
    assert kills == 5, "the publisher must have been alive each time"
    assert demo.finish() == 0, demo.text()
    assert demo.text().count(EXACT) == 3  # served, published, in whole milestones
    assert len(re.findall(r"publisher ended with exit code -?\d+; restarting", demo.text())) == 5


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "bytes_max"), [("broker", 100_000), ("driver-jvm", 2_000)])
def test_a_disk_that_is_full_for_a_while(tmp_path: Path, victim: str, bytes_max: int) -> None:
    """No file of the process can grow any more: it ends, says so, and once there is room all goes on, exact.

    The limit is the process's own (RLIMIT_FSIZE): the one that the supervisor starts after it has room again.
    """
    demo = Demo(tmp_path, DAYS)
    wait_until(lambda: demo.committed() > 0 or demo.process.poll() is not None, "a first milestone")
    reached, pids = demo.committed(), demo.pids(victim)
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (bytes_max, bytes_max))
    assert pids, "the victim must have been alive"
    assert 0 < reached < EVENTS, "the disk must fill up in the middle"
    wait_until(lambda: not any(alive(pid) for pid in pids), "the end of the victim")
    assert demo.finish() == 0, demo.text()
    assert EXACT in demo.text()
    member = victim.partition("-")[0]
    assert re.search(rf"{member} ended with exit code -?\d+; restarting", demo.text())
    log = (demo.data_dir / "logs" / f"{member}.log").read_text(encoding="utf-8", errors="replace")
    assert "File too large" in log, "the full disk must be what ended it"


@pytest.mark.slow
def test_sigterm_ends_every_child(tmp_path: Path) -> None:
    """SIGTERM in the middle ends the demonstration and all it started, within the bounds of its children."""
    demo = Demo(tmp_path, DAYS)

    def started() -> bool:
        stack = running_file.find(demo.data_dir)
        return demo.process.poll() is not None or (stack is not None and stack.ready)

    wait_until(started, "the stack's start")
    children = descendants(demo.process.pid)
    assert len(children) >= 4
    demo.process.terminate()
    assert demo.finish() == 130, demo.text()
    deadline = time.monotonic() + 5
    while any(alive(one.pid) for one in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [one for one in children if alive(one.pid)]

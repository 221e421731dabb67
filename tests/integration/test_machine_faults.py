"""A broker that stands still, or answers slowly, in the middle of the demonstration; and a view without a disk.

That it is killed is tested with the other processes of the demonstration.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.adapters.kafka.writers.transactional_writer import TRANSACTION_TIMEOUT_MS
from cutwater.core.protocol.records import Milestone
from cutwater.local.machine.ports import free_ports
from support.demonstration import DAYS, EXACT, Demo
from support.harness import wait_until
from support.loading import above, loaded, view_of
from support.smalldisk import small_disk

pytestmark = pytest.mark.slow

STOPPED_S = TRANSACTION_TIMEOUT_MS / 1000 + 12
"""Longer than a transaction may take and than any request waits (and the session of a broker and of Faust)."""
STANDS_S, RUNS_S, SLOW_FOR_S = 0.6, 0.15, 25.0
VIEW = "cutwater.rehydrator"


def pause(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "the broker to stand still")


def test_a_broker_that_stands_still_for_longer_than_every_time_out(tmp_path: Path) -> None:
    """Transactions time out, requests are given up; nobody takes that for the end, and the result is exact."""
    assert STOPPED_S > TIMEOUT_S
    demo = Demo(tmp_path, DAYS)
    demo.begun()
    (broker,) = demo.pids("broker")
    pause(broker)
    try:
        time.sleep(STOPPED_S)
    finally:
        os.kill(broker, signal.SIGCONT)
    assert demo.finish() == 0, demo.text()
    assert demo.text().count(EXACT) == 3  # served, published, in whole milestones
    assert "broker ended" not in demo.text(), "it was stopped, not killed"
    logs = "".join(path.read_text("utf-8", errors="replace") for path in (demo.data_dir / "logs").glob("*.log"))
    assert re.search(r"check that the brokers run|Timed out|TimeoutException", logs), "somebody must have waited"


def test_a_broker_that_is_slow(tmp_path: Path) -> None:
    """It runs for a fifth of the time, for up to half a minute: all goes on, later, and nothing ends."""
    demo = Demo(tmp_path, DAYS)
    demo.begun()
    (broker,) = demo.pids("broker")
    deadline, pauses = time.monotonic() + SLOW_FOR_S, 0
    with suppress(psutil.NoSuchProcess, ProcessLookupError):  # the demonstration may be over before
        while time.monotonic() < deadline:
            pause(broker)
            time.sleep(STANDS_S)
            os.kill(broker, signal.SIGCONT)
            time.sleep(RUNS_S)
            pauses += 1
    assert pauses > 5
    assert demo.finish() == 0, demo.text()
    assert demo.text().count(EXACT) == 3
    assert "restarting" not in demo.text()


@pytest.mark.needs("mount")
def test_the_disk_of_the_view_is_full_for_a_while(
    broker: Any, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """RocksDB cannot write: the rehydrator serves what it has, and says so; with room again it goes on, exact."""
    data_dir = tmp_path / "small"
    with small_disk(data_dir) as disk, loaded(broker.cluster, unique("full"), tmp_path) as load:
        job, port = load.job, str(free_ports(1)[0])
        here = {"CUTWATER_PORT": port, "CUTWATER_DATA_DIR": str(data_dir)}
        job.driver()
        job.signal()
        view = job.start(VIEW, **here)
        load.more()
        shown(port, job.wait_committed())
        disk.fill()
        load.more()
        milestone = job.wait_committed()
        wait_until(lambda: health(port)["status"] == "full", "the disk to be full")
        assert "No space left on device" in health(port)["reason"]
        assert str(data_dir) in health(port)["reason"]
        assert health(port)["milestone"]["sequence"] < milestone.sequence
        disk.make_room()
        shown(port, milestone)
        view.terminate()
        assert view.wait(30) == 0
        assert above(view_of(job, data_dir), milestone) == load.expected(milestone)


def health(port: str) -> Any:
    return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=20).json()


def shown(port: str, milestone: Milestone) -> None:
    """Wait until the view shows the milestone."""

    def sequence() -> int:
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}/v1/milestone", timeout=20).json()
        except httpx.HTTPError:
            return 0
        return int(answer.get("sequence", 0))

    wait_until(lambda: sequence() >= milestone.sequence, f"{milestone.token} in the view")

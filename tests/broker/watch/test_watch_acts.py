"""What a real watch foresees, and what it does by itself about a real alert."""

from __future__ import annotations

import json
import os

import pytest

from cutwater.adapters.runtime.restart_request import take_requests
from cutwater.adapters.topics.alerts import read_alerts
from cutwater.core.monitoring.alerts import on
from cutwater.local.machine.ports import free_ports
from support.harness import GENERATION, Flow, wait_until
from support.speaking_driver import QUICK, SpeakingDriver, metric

ACTING = {
    **QUICK,
    "CUTWATER_WATCH_ACTIONS": "restart",
    "CUTWATER_WATCH_ACTION_AFTER_MS": "1000",
    "CUTWATER_WATCH_ACTION_APART_MS": "60000",
}


@pytest.mark.slow
def test_a_silent_service_is_restarted_once(job: Flow) -> None:
    """An epoch is committed, and there is no commit-signal. A watch that is killed and starts again knows it."""
    port = free_ports(1)[0]
    driver = SpeakingDriver(job)
    driver.write_epoch()
    first = job.start("cutwater.watch", **ACTING, CUTWATER_WATCH_PORT=str(port))
    done = 'actions_total{kind="restart",outcome="done"}'
    wait_until(lambda: metric(port, done) == 1, "the action")
    (request,) = take_requests(job.folder)
    assert (request.process, request.generation) == ("commit-signal", str(GENERATION))
    (alert,) = on(read_alerts(job.cluster, job.job.name))
    (kept,) = json.loads((job.folder / "watch" / job.job.name / "actions.json").read_text())
    assert kept["alert"] == alert.name
    os.kill(first.pid, 9)
    first.wait(30)
    job.start("cutwater.watch", **ACTING, CUTWATER_WATCH_PORT=str(port))
    wait_until(lambda: metric(port, 'alert{kind="silent",part="commit-signal"}') == 1, "it knows the alert")
    driver.write_epoch()
    wait_until(lambda: (metric(port, "drift_epochs") or 0) == 2, "it goes on")
    assert metric(port, done) is None
    assert take_requests(job.folder) == []
    driver.end()


def test_disks_are_watched(job: Flow) -> None:
    """That of the data folder, and the broker's."""
    port = free_ports(1)[0]
    driver = SpeakingDriver(job)
    driver.write_epoch()
    job.start("cutwater.watch", **QUICK, CUTWATER_WATCH_PORT=str(port))
    log = job.log("cutwater.watch")
    wait_until(lambda: metric(port, 'disk_full_in_seconds{disk="data-folder"}') is not None, "the data folder's")
    assert "no forecast of a disk" not in log.read_text()
    driver.end()

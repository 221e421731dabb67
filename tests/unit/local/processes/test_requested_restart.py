"""A child that watch wants restarted: by a file, with the settings that a request may give, and no failure."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest

from cutwater.adapters.runtime.restart_request import FOLDER, RestartRequest, take_requests, write_request
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.processes.supervisor import Supervised, Supervisor
from support.waits import wait_until

REQUEST = RestartRequest("driver", "g1-local-00000000", "alert stuck", 1, {"CUTWATER_TRIGGER_MS": "2000"})
PROGRAM = "import os, time; print(os.environ.get('CUTWATER_TRIGGER_MS'), flush=True); time.sleep(600)"


def child(folder: Path, name: str, program: str = PROGRAM) -> Child:
    policy = RestartPolicy(delay_seconds=0.01)
    return Child(
        name, [sys.executable, "-c", program], {"CUTWATER_TRIGGER_MS": "500"}, folder / f"{name}.log", policy
    )


def printed(one: Child) -> list[str]:
    return one.log_path.read_text().split() if one.log_path.exists() else []


def test_a_request_is_read_once(tmp_path: Path) -> None:
    write_request(tmp_path, replace_why("older"))
    write_request(tmp_path, REQUEST)
    assert take_requests(tmp_path) == [REQUEST]
    assert take_requests(tmp_path) == []
    assert list((tmp_path / FOLDER).iterdir()) == []


def replace_why(why: str) -> RestartRequest:
    return RestartRequest(REQUEST.process, REQUEST.generation, why, 0)


def test_a_request_gives_no_other_settings(tmp_path: Path) -> None:
    """Who may write the file may restart a process, and not run a program of his own in it."""
    write_request(tmp_path, REQUEST)
    file = tmp_path / FOLDER / "driver.json"
    given = json.loads(file.read_text())
    file.write_text(json.dumps({**given, "env": {"PYTHONPATH": "/elsewhere", **given["env"]}}))
    (found,) = take_requests(tmp_path)
    assert found.env == {"CUTWATER_TRIGGER_MS": "2000"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"process": 1, "env": {}}', '{"env": 3}', "\xff"])
def test_what_is_no_request_is_removed(text: str, tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "driver.json").write_text(text)
    assert take_requests(tmp_path) == []
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_a_child_starts_again_with_the_settings(tmp_path: Path) -> None:
    """The generation's own process before the first one's; others go on, and no failure is counted."""
    first, own, other = (child(tmp_path, name) for name in ("driver", "driver-g2", "publisher"))
    lines, failures = list[str](), list[str]()
    members = [Supervised(one) for one in (first, own, other)]
    with Supervisor(
        members, report=lines.append, failed=lambda name, _code, _said: failures.append(name)
    ) as supervisor:
        supervisor.start(threading.Event())
        wait_until(lambda: all(printed(one) == ["500"] for one in (first, own, other)), "all have started")
        before = own.pid
        assert supervisor.restart(["driver-g2", "driver"], "alert stuck", {"CUTWATER_TRIGGER_MS": "2000"})
        supervisor.check()
        wait_until(lambda: printed(own) == ["500", "2000"], "it has started again")
        assert own.pid != before
        assert (printed(first), printed(other)) == (["500"], ["500"])
        assert supervisor.restart(["driver-g3", "driver"], "alert stuck", {})
        assert not supervisor.restart(["none"], "alert stuck", {})
    assert failures == []
    assert lines[:1] == ["restarting driver-g2: alert stuck"]
    assert len(members[1].restarts) == 1


def test_a_child_that_has_finished_stays_so(tmp_path: Path) -> None:
    done = child(tmp_path, "driver", "pass")
    with Supervisor([Supervised(done)]) as supervisor:
        supervisor.run(threading.Event()) if supervisor.start(threading.Event()) else None
        assert not supervisor.restart(["driver"], "alert stuck", {})


def test_requests_are_looked_for_at_each_check(tmp_path: Path) -> None:
    """And a restart that one of them asks for is done at once."""
    one, asked = child(tmp_path, "driver"), list[bool]()

    def requested(supervisor: Supervisor) -> None:
        asked.append(bool(asked) or supervisor.restart(["driver"], "why", {}))

    with Supervisor([Supervised(one)], requested=requested) as supervisor:
        supervisor.start(threading.Event())
        wait_until(lambda: printed(one) == ["500"], "it has started")
        supervisor.check()
        wait_until(lambda: printed(one) == ["500", "500"], "it has started again")
    assert asked == [True]

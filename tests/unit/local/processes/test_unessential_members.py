"""Members without which the others continue: not even their start may end a stack."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from cutwater.core.errors import MachineError
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.processes.supervisor import Supervised, Supervisor
from support.waits import wait_until

ENDS, STAYS = "import sys; sys.exit(4)", "import time; time.sleep(600)"


class Starts:
    """Lets the first start pass, and no other."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        if self.count > 1:
            raise OSError(28, "No space left on device")


def member(folder: Path, name: str, program: str, essential: bool) -> Supervised:
    before = None if program == STAYS else Starts()
    child = Child(
        name,
        [sys.executable, "-c", program],
        {},
        folder / f"{name}.log",
        RestartPolicy(delay_seconds=0.01),
        before_start=before,
    )
    return Supervised(child, essential=essential)


def test_a_restart_that_fails_ends_no_other(tmp_path: Path) -> None:
    said: list[str] = []
    stays, console = member(tmp_path, "stays", STAYS, True), member(tmp_path, "console", ENDS, False)
    with Supervisor([stays, console], report=said.append) as supervisor:
        supervisor.start(threading.Event())

        def is_over() -> bool:
            supervisor.check()
            return console.finished

        wait_until(is_over, "the end of the console", 30)
        supervisor.check()
        assert stays.child.poll() is None
    assert "No space left on device" in said[-1]
    assert "the others continue without it" in said[-1]


def test_a_restart_that_fails_ends_all_if_they_need_it(tmp_path: Path) -> None:
    """With an error of Cutwater's: it is no bug of the supervisor."""
    with Supervisor([member(tmp_path, "driver", ENDS, True)]) as supervisor:
        supervisor.start(threading.Event())
        with pytest.raises(MachineError, match=r"driver cannot be started.*No space left"):
            supervisor.run(threading.Event())


def add_one_that_cannot_start(folder: Path, added: Supervised) -> None:
    """Beside a member that runs on."""
    stays, more = member(folder, "stays", STAYS, True), [[added]]
    added.child.start()  # the next one fails
    with Supervisor([stays], more=lambda: more.pop() if more else []) as supervisor:
        supervisor.start(threading.Event())
        supervisor.check()
        assert added.finished
        assert stays.child.poll() is None


def test_a_candidate_that_cannot_start_ends_no_other(tmp_path: Path) -> None:
    """Its own processes need each other; the promoted generation's do not need them."""
    candidate = member(tmp_path, "driver-g2", ENDS, True)
    candidate.reason_to_continue = lambda exit_code: "no other process needs it" if exit_code else None
    add_one_that_cannot_start(tmp_path, candidate)


def test_a_member_that_is_added_and_cannot_start_ends_no_other(tmp_path: Path) -> None:
    add_one_that_cannot_start(tmp_path, member(tmp_path, "canary", ENDS, False))

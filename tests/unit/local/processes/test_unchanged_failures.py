"""A child that fails in the same way at each start is given up, however far apart its failures are."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cutwater.adapters.runtime.ready_file import is_ready_since, mark_ready, ready_file
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.generation import Generation
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import (
    APART_MS_MAX,
    UNCHANGED_MAX,
    Repetition,
    RestartPolicy,
    repeated,
)
from cutwater.local.processes.supervisor import Supervised, Supervisor

FAR_MS = 60_000
"""So far apart that no number of restarts within a time is reached."""


def fail(
    reached: object, said: str = "no topic t at 17", before: Repetition | None = None, number: int = 0
) -> Repetition:
    return repeated(before, reached, 4, said, number * FAR_MS)


def after(
    times: int, reached: Callable[[int], object] = lambda _: "m", said: str = "no topic t at {}"
) -> Repetition:
    one: Repetition | None = None
    for number in range(times):
        one = fail(reached(number), said.format(number), one, number)
    assert one is not None
    return one


def test_equal_failures_without_progress_are_given_up() -> None:
    """At the tenth, though numbers in the message differ."""
    assert after(UNCHANGED_MAX - 1).give_up() is None
    decision = after(UNCHANGED_MAX).give_up()
    assert decision is not None
    assert f"failed {UNCHANGED_MAX} times in a row in the same way, without a new milestone" in decision.reason


def test_progress_another_failure_and_a_long_time_begin_anew() -> None:
    """Each of them says that the next start may do better."""
    stuck = after(UNCHANGED_MAX - 1)
    assert fail("n", before=stuck, number=UNCHANGED_MAX).failure.times == 1
    assert fail("m", "no topic s", stuck, UNCHANGED_MAX).failure.times == 1
    late = repeated(stuck, "m", 4, "no topic t at 1", stuck.failure.last_ms + APART_MS_MAX + 1)
    assert late.failure.times == 1
    assert after(3 * UNCHANGED_MAX, lambda number: number // 2).give_up() is None


def failing(folder: Path, progress: Callable[[], object]) -> Supervised:
    code = "print('run', flush=True); raise SystemExit(4)"
    policy = RestartPolicy(restarts_max=1_000, delay_seconds=0.0)
    child = Child("failing", [sys.executable, "-c", code], dict(os.environ), folder / "failing.log", policy)
    member = Supervised(child)
    member.progress = progress
    return member


def test_a_supervisor_gives_up_a_child_that_gets_nowhere(tmp_path: Path) -> None:
    """Its policy would restart it a thousand times."""
    member = failing(tmp_path, lambda: "m")
    supervisor = Supervisor([member])
    supervisor.start(threading.Event())
    with pytest.raises(UnavailableError, match="without a new milestone"):
        supervisor.run(threading.Event())
    assert member.child.log_path.read_text().split() == ["run"] * UNCHANGED_MAX


def test_failures_while_no_broker_answers_do_not_count(tmp_path: Path) -> None:
    """The stack waits for its brokers, as long as that takes."""
    stop = threading.Event()
    asked: list[None] = []

    def unknown() -> object:
        asked.append(None)
        if len(asked) > UNCHANGED_MAX + 2:
            stop.set()
        raise UnavailableError("no broker answers")

    member = failing(tmp_path, unknown)
    supervisor = Supervisor([member])
    supervisor.start(threading.Event())
    supervisor.run(stop)
    assert member.repetition is None
    assert len(asked) > UNCHANGED_MAX


def test_a_driver_is_ready_once_it_has_said_so_since_the_start(tmp_path: Path) -> None:
    """The file of an earlier start does not count."""
    path = ready_file(tmp_path, "job", Generation(1, "local"))
    assert not is_ready_since(path, 0)
    mark_ready(path)
    written_ms = path.stat().st_mtime_ns // 1_000_000
    assert is_ready_since(path, written_ms)
    assert not is_ready_since(path, written_ms + 1)
    os.utime(path, (0, 0))
    mark_ready(path)
    assert is_ready_since(path, written_ms)

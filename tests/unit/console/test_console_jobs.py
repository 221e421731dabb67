"""The jobs of a stack as they come and go, and answers that are made once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from cutwater.console.follower import JobFollower
from cutwater.console.jobs import Jobs, UnknownJobError
from cutwater.console.on_demand import OnDemand
from cutwater.console.ports import RunningJob
from cutwater.core.errors import UnavailableError, UsageError
from support.console.sample_job import follower, place


class Stack:
    """What runs, as the running files would tell; and which followers were made, started and stopped."""

    def __init__(self) -> None:
        self.running: list[RunningJob] = [RunningJob(place())]
        self.said: list[str] = []
        self.problem: Exception | None = None
        self.now_s = 0.0
        self.jobs = Jobs(self._running, self._follow, lambda: self.now_s)

    def _running(self) -> list[RunningJob]:
        if self.problem:
            raise self.problem
        return self.running

    def _follow(self, where: Any) -> JobFollower:
        if str(where.job_file) == "missing.yaml":
            raise UsageError("missing.yaml does not exist")
        made = follower()
        made.start = lambda: self.said.append(f"start {where.job}")  # type: ignore[method-assign]
        made.stop = lambda: self.said.append(f"stop {where.job}")  # type: ignore[method-assign]
        return made

    def later(self, **jobs: Any) -> dict[str, Any]:
        self.now_s += 10
        return {one["job"]: one for one in self.jobs.list_json()["jobs"]}


def test_a_job_is_followed_once() -> None:
    stack = Stack()
    stack.later()
    assert stack.jobs.find("flights") is stack.jobs.find("flights")
    stack.later()
    assert stack.said == ["start flights"]


def test_a_job_that_is_gone_is_not_followed() -> None:
    stack = Stack()
    stack.later()
    stack.running = [RunningJob(place("orders"))]
    assert list(stack.later()) == ["orders"]
    assert stack.said == ["start flights", "stop flights", "start orders"]
    with pytest.raises(UnknownJobError, match="There are: orders"):
        stack.jobs.find("flights")


def test_a_job_that_started_again_elsewhere_is_followed_there() -> None:
    stack = Stack()
    stack.later()
    stack.running = [RunningJob(place(api_url="http://127.0.0.1:2"))]
    stack.later()
    assert stack.said == ["start flights", "stop flights", "start flights"]


def test_ended_and_starting_jobs_say_so() -> None:
    stack = Stack()
    stack.running = [
        RunningJob(place("a", ended="2026-01-01T00:00:00Z: a bug")),
        RunningJob(place("b", ready=False)),
        RunningJob(place("c", job_file="missing.yaml")),
    ]
    found = stack.later()
    assert [found[name]["problem"] for name in "abc"] == [
        "Job a has ended, at 2026-01-01T00:00:00Z: a bug",
        "Job b is starting.",
        "missing.yaml does not exist",
    ]
    with pytest.raises(UnavailableError, match="is starting"):
        stack.jobs.find("b")


def test_a_followed_job_that_starts_again_is_still_followed() -> None:
    """While a stack restarts its processes, the console keeps what it has read."""
    stack = Stack()
    stack.later()
    stack.running = [RunningJob(place(ready=False))]
    assert stack.later()["flights"]["state"] == "starting"
    assert stack.said == ["start flights"]


def test_settings_that_do_not_fit_are_told_and_keep_what_is_followed() -> None:
    stack = Stack()
    stack.later()
    stack.problem = UsageError("the stack's brokers use SSL")
    stack.now_s += 10
    assert stack.jobs.list_json()["problem"] == "the stack's brokers use SSL"
    assert stack.jobs.find("flights")


def test_the_running_files_are_not_read_for_each_request() -> None:
    stack = Stack()
    stack.later()
    stack.running = []
    assert stack.jobs.find("flights")
    stack.jobs.close()
    assert stack.said == ["start flights", "stop flights"]


def test_an_answer_is_made_once_for_several_requests() -> None:
    kept, made, gate = OnDemand(), [], threading.Event()

    def slow() -> int:
        made.append(1)
        gate.wait(5)
        return 7

    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(kept.get("x", 60, slow))) for _ in range(6)]
    for one in threads:
        one.start()
    gate.set()
    for one in threads:
        one.join(5)
    assert (found, made) == ([7] * 6, [1])


def test_an_answer_grows_old_and_an_error_is_not_kept() -> None:
    now = [0.0]
    kept = OnDemand(lambda: now[0])
    made = iter([1, 2, 3])
    assert kept.get("x", 5, lambda: next(made)) == 1
    now[0] = 4.0
    assert kept.get("x", 5, lambda: next(made)) == 1
    now[0] = 6.0

    def wrong() -> int:
        raise UsageError("no")

    with pytest.raises(UsageError):
        kept.get("x", 5, wrong)
    assert kept.get("x", 5, lambda: next(made)) == 2


def test_only_so_many_answers_are_remembered() -> None:
    """Names come from requests: also those whose answer was an error leave nothing behind."""
    kept = OnDemand(most=3)
    for number in range(20):
        kept.get(str(number), 60, lambda: 1)
        with pytest.raises(ZeroDivisionError):
            kept.get(f"wrong {number}", 60, lambda: 1 // 0)
    assert len(kept._kept) == len(kept._making) == 3

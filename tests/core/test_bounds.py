"""I8, as far as it can be read off the code: nothing waits without an end, and no queue grows without one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAITS = {"wait", "join", "result", "acquire", "communicate", "awaitTermination", "init_transactions"}
QUEUES = {"Queue", "SimpleQueue", "LifoQueue", "PriorityQueue"}
BOUNDED_ELSEWHERE = {
    "services/cutwater/adapters/fetching.py: ended.result()": "the task is done",
    "services/cutwater/adapters/fetching.py: self._nudge.wait()": "a task of a loop that looks ten times a second",
    "services/cutwater/core/announcing.py: self._lock.acquire(blocking=False)": "it does not wait",
    "services/cutwater/local/background.py: self._thread.join()": "its children end within their grace",
    "services/cutwater/publisher/pipeline.py: running.result()": "the job is a write, with the writer's time-outs",
    "services/cutwater/watch/service.py: wake.wait()": "inside asyncio.wait_for",
    "spark/cutwater_spark/barriers.py: self._lock.acquire()": "held for one write, with the writer's time-outs",
}
"""Calls without a bound of their own, and where it is instead."""


def unbounded(code: str) -> Iterator[str]:
    """Every call that may wait for ever, and every queue without a size."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and not _is_bounded(node):
            yield ast.unparse(node)


def _is_bounded(call: ast.Call) -> bool:
    named = {one.arg for one in call.keywords if not _is_nothing(one.value)}
    positional = [one for one in call.args if not _is_nothing(one)]
    if isinstance(call.func, ast.Name):
        return call.func.id not in QUEUES or bool(positional) or "maxsize" in named
    if not isinstance(call.func, ast.Attribute):
        return True
    owner = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
    if owner == "subprocess" and call.func.attr in {"run", "call", "check_call", "check_output"}:
        return "timeout" in named
    if call.func.attr in QUEUES:
        return bool(positional) or "maxsize" in named
    return call.func.attr not in WAITS or bool(positional) or "timeout" in named


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (None, 0)


def test_nothing_waits_or_grows_without_a_bound() -> None:
    """A new wait gets a time-out, or a line above that says where its bound is; and no line outlives its call."""
    found = [
        f"{path.relative_to(ROOT)}: {call}"
        for folder in ("services", "spark")
        for path in (ROOT / folder).rglob("*.py")
        for call in unbounded(path.read_text("utf-8"))
    ]
    assert sorted(found) == sorted(BOUNDED_ELSEWHERE)


NONE = ["x.wait()", "x.wait(None)", "thread.join()", "queue.Queue()", "Queue()", "Queue(0)", "future.result()"]


@pytest.mark.parametrize("code", [*NONE, "subprocess.run(['a'])"])
def test_what_has_no_bound_is_found(code: str) -> None:
    assert list(unbounded(code)) == [code]


@pytest.mark.parametrize(
    "code", ["x.wait(3)", "', '.join(parts)", "Queue(maxsize=3)", "subprocess.run(['a'], timeout=3)"]
)
def test_what_has_one_is_not(code: str) -> None:
    assert list(unbounded(code)) == []

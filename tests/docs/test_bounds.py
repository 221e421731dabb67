"""I8, as far as it can be read off the code: nothing waits without an end, and no queue grows without one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAITS = {"wait", "join", "result", "acquire", "communicate", "awaitTermination", "init_transactions"}
QUEUES = {"Queue", "SimpleQueue", "LifoQueue", "PriorityQueue"}
PROCESSES = {"process", "_process", "child", "self"}
"""Their poll does not wait; that of a Kafka client does."""
BOUNDED_ELSEWHERE = {
    "services/cutwater/adapters/fetch/record_batches.py: deque(sorted(aborted or (), key=lambda one: one[1]))": (
        "one answer's"
    ),
    "services/cutwater/core/canary/milestone_pairs.py: deque()": "WAITING_MAX",
    "services/cutwater/core/output/milestone_assembly.py: deque()": "a partition that is ahead is not read on",
    "services/cutwater/core/mirror/offset_map.py: deque()": "BYTES_MAX",
    "services/cutwater/core/query/change_buffer.py: deque()": "bytes_max",
    "services/cutwater/core/state/backlog.py: deque()": "pending_max",
    "services/cutwater/core/state/backlog.py: deque([entry])": "pending_max",
    "services/cutwater/demo/progress.py: tail.poll()": "a tail waits as long as it was made with",
    "services/cutwater/views/bulk/worker.py: goes_on.get()": "the process ends when nobody answers any more",
    "services/cutwater/adapters/fetch/fetcher.py: ended.result()": "the task is done",
    "services/cutwater/adapters/fetch/fetcher.py: self._nudge.wait()": (
        "a task of a loop that looks ten times a second"
    ),
    "services/cutwater/core/driver/commit_hints.py: self._lock.acquire(blocking=False)": "it does not wait",
    "services/cutwater/local/link.py: queue.get()": "a task that ends with its connection",
    "services/cutwater/local/stack/background_stack.py: self._thread.join()": "its children end in time",
    "services/cutwater/local/processes/candidate_processes.py: self._tail.poll()": "a tail waits 50 ms",
    "services/cutwater/rehydrator/generation/preload.py: self._at_work.acquire(blocking=False)": (
        "it does not wait"
    ),
    "services/cutwater/publisher/pipeline.py: running.result()": "the job is a write, with the writer's time-outs",
    "services/cutwater/watch/service.py: wake.wait()": "inside asyncio.wait_for",
    "spark/cutwater_spark/attach/__init__.py: found.get()": "an Option of Scala's",
    "spark/cutwater_spark/attach/__init__.py: metric.get()": "an Option of Scala's",
    "spark/cutwater_spark/epoch/barriers.py: self._lock.acquire()": (
        "held for one write, with the writer's time-outs"
    ),
    "spark/cutwater_spark/canary/source_alignment.py: claims.poll()": "a tail waits 50 ms",
    "spark/cutwater_spark/canary/source_alignment.py: live.poll()": "a tail waits 50 ms",
    "spark/cutwater_spark/driver.py: found.get()": "an Option of Scala's",
    "spark/cutwater_spark/application/server.py: self._slots.acquire(blocking=False)": "it does not wait",
    "spark/cutwater_spark/application/server.py: jvm.poll()": "a process, which it does not wait for",
}
"""Calls without a bound of their own, and where it is instead."""


def unbounded(code: str) -> Iterator[str]:
    """Every call that may wait for ever, and every queue without a size."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and not _is_bounded(node):
            yield ast.unparse(node)


def _is_bounded(call: ast.Call) -> bool:
    named = {one.arg for one in call.keywords}
    given = {one.arg for one in call.keywords if not _is_nothing(one.value)}
    size = any(not _is_nothing(one) for one in call.args) or "maxsize" in given
    if isinstance(call.func, ast.Name):
        name, of = call.func.id, ""
    else:
        name, of = _last_name(call.func), _last_name(getattr(call.func, "value", call.func))
    bounds = {
        "deque": "maxlen" in given,
        "consume": "timeout" in named,
        "get": bool(call.args or named),
        "poll": bool(call.args or named) or of in PROCESSES,
        **dict.fromkeys(QUEUES, size),
        **dict.fromkeys(WAITS, size or "timeout" in given),
    }
    if of == "subprocess" and name in {"run", "call", "check_call", "check_output"}:
        return "timeout" in given
    return bounds.get(name, True)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


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
NONE += ["waiting.get()", "self._consumer.poll()", "consumer.consume(10)", "deque()"]


@pytest.mark.parametrize("code", [*NONE, "subprocess.run(['a'])"])
def test_what_has_no_bound_is_found(code: str) -> None:
    assert list(unbounded(code)) == [code]


@pytest.mark.parametrize(
    "code",
    [
        "x.wait(3)",
        "', '.join(parts)",
        "Queue(maxsize=3)",
        "subprocess.run(['a'], timeout=3)",
        "waiting.get(timeout=1)",
        "process.poll()",
        "consumer.consume(10, timeout=0)",
        "deque(maxlen=3)",
    ],
)
def test_what_has_one_is_not(code: str) -> None:
    assert list(unbounded(code)) == []

"""The processes of a running stack, by the service's name."""

from __future__ import annotations

import psutil

from cutwater.core.chaos.plan import BROKER
from cutwater.core.errors import UsageError
from cutwater.local.running_file import RunningStack

_MODULES = {
    "cutwater_spark.driver": "driver",
    "cutwater.commit_signal": "commit-signal",
    "cutwater.rehydrator": "rehydrator",
    "cutwater.publisher": "publisher",
    "cutwater.watch": "watch",
}
_BROKER = "kafka.Kafka"
"""The class that Kafka's JVM is started with."""


def service_processes(stack: RunningStack) -> dict[str, list[psutil.Process]]:
    """Return the living processes of each service: its own first, then those that it has started.

    Services of later generations have a name of their own and are not among them. Raises UsageError if the stack
    has ended.
    """
    try:
        children = psutil.Process(stack.pid).children()
    except psutil.Error:
        raise UsageError(f"the stack of job {stack.job} (process {stack.pid}) has ended") from None
    found: dict[str, list[psutil.Process]] = {}
    for child in children:
        name = _service_of(child, stack.job_file)
        if name:
            found.setdefault(name, []).extend([child, *_descendants(child)])
    return found


def _service_of(process: psutil.Process, job_file: str) -> str:
    """Return the service that a child of the stack runs; empty for another job's, and for others."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return ""
    if _BROKER in words:
        return BROKER
    module = next((one for one in words if one in _MODULES), "")
    return _MODULES[module] if module and job_file in words else ""


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []

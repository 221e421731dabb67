"""The life of a stack: from the lock on its folder to the end of its last process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from cutwater.adapters.runtime.clock import now_ms
from cutwater.core.errors import CutwaterError
from cutwater.local import running_file
from cutwater.local.machine.folder_lock import folder_locked
from cutwater.local.processes.class_archives import archives_written
from cutwater.local.running_file import RunningStack
from cutwater.local.spark_runtime import spark_environment
from cutwater.local.stack.stack import Stack


@contextmanager
def start_stack(stack: Stack, stop: threading.Event) -> Iterator[RunningStack | None]:
    """Start a stack that holds its folder, with its file from the first moment; yield its description, or None
    if `stop` was set.

    If an error ends the stack, the file keeps it. Raise a CutwaterError, after ending every child, if one fails to
    start, or if another process holds the folder.
    """
    with folder_locked(stack.data_dir, *running_file.describe_self()), start_processes(stack, stop) as found:
        yield found


@contextmanager
def start_processes(stack: Stack, stop: threading.Event) -> Iterator[RunningStack | None]:
    """Do the same in a folder that the caller holds."""
    stack.describe().write()
    why: CutwaterError | None = None
    try:
        stack.prepare()
        with stack.supervisor as supervisor:
            if supervisor.start(stop):
                ready = replace(stack.describe(), ready=True)
                ready.write()
                yield ready
            else:
                yield None
    except CutwaterError as error:
        why = error
        raise
    finally:
        stack.close()
        stack.describe().mark_ended(why, now_ms())


def run_stack(stack: Stack, stop: threading.Event, report: Callable[[RunningStack], None]) -> None:
    """Run a stack until `stop` is set; `report` is called with its description once every process answers."""
    with start_stack(stack, stop) as description:
        if description:
            report(description)
            with archives_written(stack.archives, spark_environment(stack.java), stack.data_dir / "logs"):
                stack.supervisor.run(stop)

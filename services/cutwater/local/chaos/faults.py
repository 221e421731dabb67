"""Faults on processes of this machine, without any right that their owner does not have.

A disk seems full to a process whose limit of a file's size is 0: each write that makes a file longer fails, with
"file too large" in place of "no space left". What it had written stays.
"""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil

from cutwater.core.chaos.plan import FULL_DISK, KILL, ON_TIME_S, SLOW, STOP, Fault
from cutwater.core.errors import UnavailableError

Find = Callable[[], Sequence[psutil.Process]]
"""Returns the present processes of a service."""
_SLICE_S = 1.0


def make_fault(fault: Fault, find: Find, until_s: float, clock: Callable[[], float] = time.monotonic) -> int:
    """Make the fault and return when it is over, at `until_s` of the clock. Returns how many processes had it.

    Processes that are started meanwhile have it, too. Raises UnavailableError if there is none to begin with.
    """
    if not find():
        raise UnavailableError(f"'{fault}' cannot be made: {fault.process} does not run")
    return _FAULTS[fault.kind](find, until_s, clock)


def _kill(find: Find, _until_s: float, _clock: Callable[[], float]) -> int:
    return _each(find(), lambda one: one.send_signal(signal.SIGKILL))


def _stop(find: Find, until_s: float, clock: Callable[[], float]) -> int:
    stopped = find()
    count = _each(stopped, lambda one: one.suspend())
    try:
        _wait(until_s, clock)
    finally:
        _each(stopped, lambda one: one.resume())
    return count


def _slow(find: Find, until_s: float, clock: Callable[[], float]) -> int:
    """Let the processes run for a tenth of the time."""
    most = 0
    while clock() < until_s:
        stopped = find()
        most = max(most, _each(stopped, lambda one: one.suspend()))
        try:
            _wait(min(until_s, clock() + _SLICE_S - ON_TIME_S), clock)
        finally:
            _each(stopped, lambda one: one.resume())
        _wait(min(until_s, clock() + ON_TIME_S), clock)
    return most


def _full_disk(find: Find, until_s: float, clock: Callable[[], float]) -> int:
    limited: dict[int, tuple[psutil.Process, tuple[int, int]]] = {}
    try:
        while clock() < until_s:
            for one in find():
                if one.pid not in limited and (before := _limit(one, 0)) is not None:
                    limited[one.pid] = (one, before)
            _wait(min(until_s, clock() + ON_TIME_S), clock)
    finally:
        for one, (soft, _) in limited.values():
            _limit(one, soft)
    return len(limited)


def _limit(process: psutil.Process, size: int) -> tuple[int, int] | None:
    """Set the soft limit of a file's size; return the limits before, None if the process has ended."""
    try:
        before = process.rlimit(resource.RLIMIT_FSIZE)
        process.rlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    except psutil.Error:
        return None
    return before


def _each(processes: Sequence[psutil.Process], act: Callable[[psutil.Process], None]) -> int:
    """Do it to each process; return how many were there."""
    count = 0
    for one in processes:
        with suppress(psutil.Error):
            act(one)
            count += 1
    return count


def _wait(until_s: float, clock: Callable[[], float]) -> None:
    while (left_s := until_s - clock()) > 0:
        time.sleep(min(left_s, 0.05))


_FAULTS: dict[str, Callable[[Find, float, Callable[[], float]], int]] = {
    KILL: _kill,
    STOP: _stop,
    SLOW: _slow,
    FULL_DISK: _full_disk,
}

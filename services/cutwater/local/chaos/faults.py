"""Faults on processes of this machine, without any right that their owner does not have.

A disk seems full to a process whose limit of a file's size is 0: each write that makes a file longer fails, with
"file too large" in place of "no space left". What it had written stays.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil

from cutwater.core.chaos.plan import CLOCK, CUT, DELAY_S, FULL_DISK, KILL, ON_TIME_S, SLOW, SLOW_DISK, STOP, Fault
from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.local.chaos.moved_clock import move_clock
from cutwater.local.chaos.slow_disk import slow_disk
from cutwater.local.chaos.span import Find, Span
from cutwater.local.link import Link

_SLICE_S = 1.0


def make_fault(fault: Fault, find: Find, span: Span) -> int:
    """Make the fault, and undo it when its time is over. Returns how many processes had it.

    Processes that are started meanwhile have it, too, except for a stop. Raises UnavailableError if there is none
    to begin with, MachineError or UsageError if this machine or stack does not allow the fault.
    """
    if not find():
        raise UnavailableError(f"'{fault}' cannot be made: {fault.process} does not run")
    return _FAULTS[fault.kind](fault, find, span)


def _kill(_fault: Fault, find: Find, _span: Span) -> int:
    return _each(find(), lambda one: one.send_signal(signal.SIGKILL))


def _stop(_fault: Fault, find: Find, span: Span) -> int:
    stopped = find()
    try:
        count = _each(stopped, lambda one: one.suspend())
        span.rest()
    finally:
        _each(stopped, lambda one: one.resume())
    return count


def _slow(_fault: Fault, find: Find, span: Span) -> int:
    """Let the processes run for a tenth of the time."""
    most = 0
    while not span.is_over:
        stopped = find()
        most = max(most, _each(stopped, lambda one: one.suspend()))
        try:
            span.rest(_SLICE_S - ON_TIME_S)
        finally:
            _each(stopped, lambda one: one.resume())
        span.rest(ON_TIME_S)
    return most


def _full_disk(_fault: Fault, find: Find, span: Span) -> int:
    limited: dict[int, tuple[psutil.Process, tuple[int, int]]] = {}
    try:
        while not span.is_over:
            for one in find():
                if one.pid not in limited and (before := _limit(one, 0)) is not None:
                    limited[one.pid] = (one, before)
            span.rest(ON_TIME_S)
    finally:
        _lift_limits(find, [*limited.values()])
    return len(limited)


def _lift_limits(find: Find, limited: Sequence[tuple[psutil.Process, tuple[int, int]]]) -> None:
    """Set the limits back. A process that was started meanwhile has inherited 0, and gets what the others had."""
    usual = next((soft for _, (soft, _) in limited if soft), resource.RLIM_INFINITY)
    for one, (soft, _) in limited:
        _limit(one, soft or usual)
    with suppress(CutwaterError):  # the stack has ended
        for one in find():
            if (now := _limits(one)) is not None and now[0] == 0:
                _limit(one, usual)


def _limit(process: psutil.Process, size: int) -> tuple[int, int] | None:
    """Set the soft limit of a file's size; return the limits before, None if the process has ended."""
    before = _limits(process)
    try:
        if before is not None:
            process.rlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    except psutil.Error:
        return None
    return before


def _limits(process: psutil.Process) -> tuple[int, int] | None:
    with suppress(psutil.Error):
        return process.rlimit(resource.RLIMIT_FSIZE)
    return None


def _each(processes: Sequence[psutil.Process], act: Callable[[psutil.Process], None]) -> int:
    """Do it to each process; return how many were there."""
    count = 0
    for one in processes:
        with suppress(psutil.Error):
            act(one)
            count += 1
    return count


def make_link_fault(fault: Fault, link: Link, span: Span) -> int:
    """Let the link lose all connections and take none, or delay every byte, until the time is over. Returns 1."""
    try:
        if fault.kind == CUT:
            link.refuses = True
            link.cut()
        else:
            link.delay_s = DELAY_S
        span.rest()
    finally:
        link.mend()
    return 1


_FAULTS: dict[str, Callable[[Fault, Find, Span], int]] = {
    KILL: _kill,
    STOP: _stop,
    SLOW: _slow,
    FULL_DISK: _full_disk,
    SLOW_DISK: slow_disk,
    CLOCK: move_clock,
}

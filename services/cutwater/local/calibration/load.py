"""Loads for a running stack, and what its processes take for them.

What Java compiles on the way is no part of a job that has run for long. So loads come again until the driver takes
no less for them than before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from random import Random
from typing import NamedTuple

import psutil

from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import UnavailableError
from cutwater.core.load.load_draw import LoadDraw
from cutwater.core.load.rate_profile import RateProfile
from cutwater.core.protocol.records import Milestone
from cutwater.core.sizing.skew import KeySkew
from cutwater.local.stack.background_stack import Background
from cutwater.local.stack.stack import Stack
from cutwater.local.stack.stack_lifecycle import start_stack
from cutwater.operations.load_sender import LoadPlan, send_load

FAST = 1_000_000.0
"""Events per second that no machine sends: as fast as it can."""
PATIENCE_S = 300.0
ROUNDS_MAX = 4
WARM = 0.9
"""A driver is warm if loads take at least this much of the CPU time that they took before."""
SETTLE_S = 0.5
"""The rehydrator may be a little behind the milestone that the driver has reached."""
DRIVER, REHYDRATOR, SENDER = "driver", "rehydrator", "sender"
"""Members of a stack; the sender is this process, while it sends."""
_LOOK_S = 0.25


class Load(NamedTuple):
    rate: float
    """Events per second."""
    seconds: float
    keys: KeySkew
    events: int | None = None
    """None: as many as come in the time."""


class Work(NamedTuple):
    """What a load took. Times in seconds since 1970; CPU time in seconds by member of the stack."""

    load: Load
    before: int
    """Events on the topic before it."""
    began_s: float
    ended_s: float
    """Of the sending."""
    seconds: float
    """From its begin until it was in milestones."""
    milestones: Sequence[Milestone]
    cpu_s: Mapping[str, float]

    @property
    def events(self) -> int:
        return sum(one.events for one in self.milestones)

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.milestones)

    @property
    def beside_s(self) -> float:
        """CPU time of all but the driver."""
        return sum(taken for name, taken in self.cpu_s.items() if name != DRIVER)

    def waits_ms(self) -> list[float]:
        """Return the times from one epoch's end to the next one's begin."""
        return [after.epoch_started_ms - before.written_ms for before, after in pairwise(self.milestones)]

    def asked_ms(self) -> list[float]:
        """Return, of a load of one rate, how long before its begin each epoch's newest event was due."""
        last = self.milestones[-1].source_cut.records if self.milestones else 0
        return [
            one.epoch_started_ms - 1_000 * (self.began_s + (one.source_cut.records - self.before) / self.load.rate)
            for one in self.milestones
            if one.source_cut.records < last
        ]


class Loading:
    """Sends loads to one stack, each when the one before is done."""

    def __init__(self, stack: Stack, background: Background) -> None:
        self.stack, self._background = stack, background
        self._writer = EventWriter(stack.cluster, stack.job)
        self.works: list[Work] = []
        """Every load so far."""

    def first_epoch_s(self) -> float:
        """Send one event; return the time from the driver's start to the end of its first epoch, about."""
        driver = next(one.child for one in self.stack.supervisor.members if one.child.name == DRIVER)
        began_s = psutil.Process(driver.pid).create_time()
        done = self.run(Load(1_000, 1.0, KeySkew(1), 1))
        return done.milestones[-1].written_ms / 1_000 - began_s

    def run(self, load: Load, seed: int = 0) -> Work:
        """Send the load, wait until it is in milestones, and return what it took.

        Raises UnavailableError if the job does not keep up for minutes, and whatever ends the stack.
        """
        seen, before, cpu = len(self._milestones()), self._sent(), self.cpu_s()
        draw = LoadDraw(self.stack.job, load.keys, Random(f"{seed} {load.keys}"))
        plan = LoadPlan(RateProfile(load.rate), load.seconds, load.events)
        began_s, own_s = time.time(), time.process_time()
        send_load(self._writer, draw, plan, lambda _count: None)
        ended_s, own_s = time.time(), time.process_time() - own_s
        self._wait(self._sent())
        time.sleep(SETTLE_S)
        taken = {name: after - cpu.get(name, 0.0) for name, after in self.cpu_s().items()}
        new = self._milestones()[seen:]
        done = Work(load, before, began_s, ended_s, time.time() - began_s, new, {**taken, SENDER: own_s})
        self.works.append(done)
        return done

    def idle(self, seconds: float) -> Work:
        """Return what the processes take without a load."""
        began_s, cpu = time.time(), self.cpu_s()
        time.sleep(seconds)
        taken = {name: after - cpu.get(name, 0.0) for name, after in self.cpu_s().items()}
        return Work(Load(0.0, seconds, KeySkew(1)), self._sent(), began_s, began_s, seconds, [], taken)

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU time of each member so far, with all that it has started."""
        found = {}
        for member in self.stack.supervisor.members:
            total = 0.0
            for pid in member.child.pids():
                try:
                    times = psutil.Process(pid).cpu_times()
                except psutil.Error:
                    continue
                total += times.user + times.system
            found[member.child.name] = total
        return found

    def _sent(self) -> int:
        return commit_stream.source_end(self.stack.cluster, self.stack.job.topic).records

    def _wait(self, records: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            newest = commit_stream.milestones(self.stack.cluster, self.stack.job.name, 1)
            if newest and newest[0][0].source_cut.records >= records:
                return
            self._background.raise_error()
            time.sleep(_LOOK_S)
        name, logs = self.stack.job.name, self.stack.data_dir / "logs"
        raise UnavailableError(f"job {name} has not read {records:,} events in {PATIENCE_S:.0f} s; see {logs}")

    def _milestones(self) -> list[Milestone]:
        return [one for one, _ in commit_stream.milestones(self.stack.cluster, self.stack.job.name)]


@contextmanager
def loading(stack: Stack) -> Iterator[Loading]:
    """Start the stack, and end it behind the block."""
    with start_stack(stack, threading.Event()), Background(stack) as background:
        yield Loading(stack, background)


def warm_up(loads: Loading, round_of: Sequence[Load]) -> list[Work]:
    """Send the loads again and again until the driver is warm; return what the last round took."""
    taken: list[list[Work]] = []
    while len(taken) < ROUNDS_MAX:
        taken.append([loads.run(one, seed=len(taken)) for one in round_of])
        if len(taken) > 1 and _driver_s(taken[-1]) >= WARM * _driver_s(taken[-2]):
            break
    return taken[-1]


def _driver_s(works: Sequence[Work]) -> float:
    return sum(one.cpu_s[DRIVER] for one in works)

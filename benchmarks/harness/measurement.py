"""CPU and memory of a child process with everything it started, sampled while it runs."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple

import psutil

PERIOD_S = 0.2
SETTLED_S = 1.0
"""A process this young may still share all memory with the one that forked it: counting both would double it."""


class Sample(NamedTuple):
    at_s: float
    """Seconds since 1970."""
    cpu_s: float
    """User and system time of all processes so far."""
    memory_mb: float
    """Resident memory of all settled processes; pages that two share count twice."""


def cpu_at(samples: Sequence[Sample], at_s: float) -> float:
    """CPU seconds at a moment, linear between two samples; before the first or after the last, theirs."""
    if not samples:
        return 0.0
    after = bisect_left(samples, at_s, key=lambda sample: sample.at_s)
    if after in (0, len(samples)):
        return samples[min(after, len(samples) - 1)].cpu_s
    one, other = samples[after - 1], samples[after]
    share = (at_s - one.at_s) / (other.at_s - one.at_s)
    return one.cpu_s + share * (other.cpu_s - one.cpu_s)


def cpu_between(samples: Sequence[Sample], first_s: float, last_s: float) -> float:
    return cpu_at(samples, last_s) - cpu_at(samples, first_s)


class Sampler:
    """Samples a process tree from a thread of its own, inside a `with` block."""

    def __init__(self, pids: Callable[[], list[int]], waited: bool = False) -> None:
        """`waited`: what a process used that has ended is asked of the parent that waited for it: exact, however
        short it lived. Else it is what it had used when last seen.
        """
        self._pids = pids
        self._waited = waited
        self._cpu: dict[int, float] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self.samples: list[Sample] = []

    def __enter__(self) -> Sampler:
        self.sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=10)

    def sample(self) -> None:
        """Take a sample now."""
        with self._lock:
            memory, before = 0, self.samples[-1].cpu_s if self.samples else 0.0
            if self._waited:
                self._cpu = {}
            for pid in self._pids():
                try:
                    process = psutil.Process(pid)
                    times = process.cpu_times()
                    ended = times.children_user + times.children_system if self._waited else 0.0
                    self._cpu[pid] = times.user + times.system + ended
                    if time.time() - process.create_time() >= SETTLED_S:
                        memory += process.memory_info().rss
                except psutil.Error:
                    continue
            cpu = max(
                before, sum(self._cpu.values())
            )  # one that has ended is in no account until it is waited for
            self.samples.append(Sample(time.time(), cpu, memory / 1024**2))

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_S):
            self.sample()

"""A model of drivers that write, crash and start again; what they leave on the barriers topic.

The model knows Spark's rules and nothing of commit-signal: barrier N, then `commits/N`, then maybe a hint;
a new attempt begins with a start and replays the epoch that is not committed. Every history it makes is one
that real drivers can make.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from cutwater.core.protocol.records import Barrier, Committed, Signal
from support.protocol_samples import OTHER, barrier, committed, heartbeat, start

MAX_ATTEMPTS = 6
MAX_EPOCHS_PER_ATTEMPT = 6
CRASH_POINTS = ("before the barrier", "before the commit", "before the hint", "after the hint")


@dataclass
class History:
    """The topic, the truth about it, and which faults happened."""

    log: list[tuple[int, Signal]] = field(default_factory=list)
    """(offset, signal): transaction markers and other generations leave gaps."""
    commits: dict[int, Barrier] = field(default_factory=dict)
    """What `commits/N` confirmed: the newest barrier N at that time."""
    faults: Counter[str] = field(default_factory=Counter)

    def without_hints(self) -> list[tuple[int, Signal]]:
        return [(offset, signal) for offset, signal in self.log if not isinstance(signal, Committed)]


class DriverModel:
    """Writes one random history; the same seed writes the same one."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._offset = 0
        self._now_ms = 0
        self.history = History()

    def run(self) -> History:
        """Several attempts, each ended by a crash at a random point but the last, which ends in peace."""
        attempts = self._random.randint(1, MAX_ATTEMPTS)
        for attempt in range(1, attempts + 1):
            self._attempt(attempt, is_last=attempt == attempts)
        return self.history

    def _attempt(self, attempt: int, is_last: bool) -> None:
        self._write(start(attempt))
        if self._random.random() < 0.1:
            self.history.faults["crash after the start"] += 1
            if not is_last:
                return
        newest = max(self.history.commits, default=-1)
        if newest >= 0:
            self._hint(newest, attempt)  # after a restart the driver announces the last epoch in the commit log
        last = newest + self._random.randint(1, MAX_EPOCHS_PER_ATTEMPT)
        for epoch in range(newest + 1, last):
            self._epoch(epoch, attempt)
        if is_last:
            self._epoch(last, attempt)
            self._write(committed(last, attempt))  # so that the end of every history is known to the signaller
        else:
            self._epoch(last, attempt, self._random.choice(CRASH_POINTS))

    def _epoch(self, epoch: int, attempt: int, crash: str = "") -> None:
        if crash:
            self.history.faults[f"crash {crash}"] += 1
        if crash == "before the barrier":
            return
        told = barrier(epoch, attempt)
        self._write(told)
        if crash == "before the commit":
            return
        self.history.commits[epoch] = told
        if crash == "before the hint":
            return
        self._hint(epoch, attempt)
        if crash == "after the hint":
            return
        for _ in range(self._random.choice([0, 0, 0, 1, 3])):
            self._now_ms += 1
            self._write(heartbeat(epoch, self._now_ms, attempt))

    def _hint(self, epoch: int, attempt: int) -> None:
        times = self._random.choice([0, 1, 1, 2])
        self.history.faults[("hint lost", "hint sent", "hint doubled")[times]] += 1
        for _ in range(times):
            self._write(committed(epoch, attempt))

    def _write(self, signal: Signal) -> None:
        if self._random.random() < 0.1:
            self.history.faults["foreign record"] += 1
            epoch = self._random.randint(0, 9)
            signals: list[Signal] = [barrier(epoch, 9), committed(epoch, 9), heartbeat(epoch, 10**6, 9)]
            self._append(replace(self._random.choice(signals), generation=OTHER))
        self._append(signal)

    def _append(self, signal: Signal) -> None:
        self.history.log.append((self._offset, signal))
        self._offset += self._random.choice([1, 2, 2, 5])

"""One contender restores one log: from an empty folder, asked until it answers right, then looked through."""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.figures import Run
from benchmarks.harness.measurement import Sampler, cpu_at, cpu_between
from benchmarks.rehydrate.log import Log
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.local.processes.child import Child

PATIENCE_S = 60.0
RECORDS_PER_S_MIN = 5_000
POLL_S = 0.02
STOP_S = 60.0
QUIET_CORES, QUIET_OVER_S, QUIET_S_MAX = 0.15, 1.0, 60.0
"""A tree that takes less than this much of a core over so long has nothing left to do."""


@dataclass(frozen=True)
class Restore(Run):
    """A run: `events` are the log's records, `drain_s` is from the restore's begin to the first correct read."""

    workload: str = ""
    first_read_s: float = 0.0
    """From the process's start."""
    settle_s: float = 0.0
    """From the first correct read until the process tree is quiet: compactions that the restore owes."""
    settle_cpu_s: float = 0.0
    memory_mb_bound: float | None = None
    """What it says that it takes at most, where it says so."""

    @property
    def all_cpu_s(self) -> float:
        """Of the restore and of what it owes."""
        return self.cpu_s + self.settle_cpu_s


class Moments(NamedTuple):
    """Seconds since 1970."""

    begun_s: float
    """The restore's begin, as the contender tells it."""
    read_s: float
    """The first correct read."""


class Contents(NamedTuple):
    """Of a store: how many rows it holds, and the XOR of `row_hash` over the changelog's keys and their values."""

    rows: int
    digest: int

    def __str__(self) -> str:
        return f"{self.rows:,} rows with digest {self.digest:016x}"


@dataclass(frozen=True)
class Stage:
    """What all contenders share."""

    cluster: Cluster
    broker_pids: Callable[[], list[int]]
    folder: Path
    java: Path
    streams_jars: Sequence[Path]


class Contest(ABC):
    """One contender in one pair."""

    @property
    def memory_mb_bound(self) -> float | None:
        """What it says that it takes at most."""
        return None

    def __init__(self, stage: Stage, log: Log, contender: str, pair: int) -> None:
        self.stage, self.log, self.contender, self.pair = stage, log, contender, pair
        self.name = f"b1-{log.workload.name}-{contender}-{pair}"
        self.folder = stage.folder / self.name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._deadline = 0.0

    @abstractmethod
    def child(self) -> Child:
        """The contender's process, to be started."""

    @abstractmethod
    def first_read(self, child: Child) -> Moments:
        """Ask until the answer is there; raises Wrong where it is not that of the log's end."""

    @abstractmethod
    def contents(self, child: Child) -> Contents:
        """Count and digest of the whole store; it may end the process."""

    def run(self) -> Restore:
        """Raises UnavailableError with the end of the contender's log when it does not get there."""
        child, found, wrong = self.child(), None, None
        with Sampler(child.pids, waited=True) as sampler, Sampler(self.stage.broker_pids) as broker:
            started_s = time.time()
            self._deadline = time.monotonic() + PATIENCE_S + self.log.records / RECORDS_PER_S_MIN
            child.start()
            try:
                moments = self.first_read(child)
                quiet_s = settled(sampler)
                broker.sample()
                found = self.contents(child)
            except Wrong as error:
                wrong = str(error)
                moments, quiet_s = error.moments, time.time()
            finally:
                child.stop(STOP_S)
        shutil.rmtree(self.folder / "state", ignore_errors=True)
        span, samples = moments, sampler.samples
        wrong = wrong or self._fault(found)
        return Restore(
            contender=self.contender,
            pair=self.pair,
            events=self.log.records,
            start_s=span.begun_s - started_s,
            drain_s=span.read_s - span.begun_s,
            cpu_s=cpu_between(samples, *span),
            start_cpu_s=cpu_at(samples, span.begun_s),
            broker_cpu_s=cpu_between(broker.samples, *span),
            memory_mb_peak=max(one.memory_mb for one in samples if one.at_s <= quiet_s),
            memory_mb_bound=self.memory_mb_bound,
            exact=wrong is None,
            fault=wrong,
            workload=self.log.workload.name,
            first_read_s=span.read_s - started_s,
            settle_s=quiet_s - span.read_s,
            settle_cpu_s=cpu_between(samples, span.read_s, quiet_s),
        )

    def waiting(self, child: Child, what: str) -> None:
        """A pause between two looks; UnavailableError when the process has ended or the time is over."""
        if child.poll() is not None:
            raise UnavailableError(f"{self.name} ended before {what}. {child.describe_end()}")
        if time.monotonic() > self._deadline:
            raise UnavailableError(f"{self.name}: {what} did not come in time. {child.describe_end()}")
        time.sleep(POLL_S)

    def _fault(self, found: Contents | None) -> str | None:
        right = Contents(self.log.rows, self.log.digest)
        if found == right:
            return None
        return f"the store holds {found}, and the log's state is {right}"


class Wrong(Exception):
    """The first read gave something else than the log's newest rows."""

    def __init__(self, moments: Moments, text: str) -> None:
        super().__init__(text)
        self.moments = moments


def settled(sampler: Sampler) -> float:
    """Waits until a process tree is quiet, at most a minute; returns when its last work was done, about."""
    began = time.monotonic()
    while time.monotonic() - began < QUIET_S_MAX:
        time.sleep(QUIET_OVER_S / 4)
        now = time.time()
        if time.monotonic() - began < QUIET_OVER_S:
            continue
        if cpu_between(sampler.samples, now - QUIET_OVER_S, now) < QUIET_CORES * QUIET_OVER_S:
            return now - QUIET_OVER_S
    return time.time()

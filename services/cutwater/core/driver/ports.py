"""What a driver needs around it: what it finds, and the ports to checkpoint, barriers topic and changelog.

`attempt_start`, `epoch` and `commit_hints` say what a driver does with them and in which order. So a driver runs
the same over Spark and Kafka as in a simulated world; the decisions themselves are in `row_proof` and
`checkpoint_check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cutwater.core.driver.row_proof import Writer, Written
from cutwater.core.events.rejection import Seen
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.log_evidence import Evidence
from cutwater.core.protocol.records import Barrier, Signal


@dataclass(frozen=True)
class Plan:
    """What `offsets/N` of the checkpoint says of epoch N."""

    source_cut: Cut
    watermark_ms: int


@dataclass(frozen=True)
class Range:
    """The offsets of one epoch."""

    before: Cut
    """The source cut of the epoch before; of the first that of the parent milestone, or empty."""
    cut: Cut
    closed_ms: int
    """Windows that end at or below it are closed for the epoch."""


@dataclass(frozen=True)
class Past:
    """What earlier attempts of the generation left on the barriers topic."""

    attempt: int
    """The highest attempt; 0 for none."""
    barriers: dict[int, Barrier]
    """The newest epochs' barriers, of the highest attempt each."""

    @property
    def newest(self) -> Barrier | None:
        return self.barriers[max(self.barriers)] if self.barriers else None

    def before(self, epoch: int) -> Barrier | None:
        """The newest barrier of an epoch below `epoch`: the baseline of its proof."""
        earlier = [number for number in self.barriers if number < epoch]
        return self.barriers[max(earlier)] if earlier else None

    def with_(self, barrier: Barrier) -> Past:
        """The past once this barrier is written; it keeps what proofs may still need."""
        kept = dict(sorted(self.barriers.items())[-2:])
        return Past(barrier.attempt, {**kept, barrier.epoch: barrier})


def summarise(signals: Iterable[Signal], generation: Generation) -> Past:
    """The past of one generation, from signals in log order."""
    attempt, barriers = 0, dict[int, Barrier]()
    for signal in signals:
        if signal.generation != generation:
            continue
        attempt = max(attempt, signal.attempt)
        if isinstance(signal, Barrier):
            barriers[signal.epoch] = signal
    return Past(attempt, barriers)


class Checkpoint(Protocol):
    """The query's own record of its progress."""

    def newest_planned(self) -> int:
        """The newest N with `offsets/N`; -1 without any."""

    def newest_committed(self) -> int:
        """The newest N with `commits/N`; -1 without any."""

    def is_committed(self, epoch: int) -> bool: ...

    def is_planned(self, epoch: int) -> bool: ...

    def plan(self, epoch: int) -> Plan:
        """Of an epoch that is planned."""


class Barriers(Protocol):
    """The barriers topic, under the driver's fenced id."""

    def open(self) -> Past:
        """Fence older drivers, then read what they left: nothing can be added to it any more."""

    def read_past(self) -> Past:
        """What is there now; an older driver may still add to it, unless `open` was called before."""

    def write(self, signal: Signal) -> None:
        """Raises FencedError when a newer driver has taken over."""


class Proved(NamedTuple):
    """What a barrier says of its logs."""

    changelog_cut: Cut
    evidence: Evidence
    """Of the changelog, and of the sources."""


class Rows(Protocol):
    """The proof of what stands on the changelog; each raises DivergenceError naming what is foreign or lost."""

    def begin(self, before: Barrier | None, source_cut: Cut) -> None:
        """Before anything of an epoch is written: is all still there below the cuts of the barrier before?"""

    def prove(self, before: Barrier | None, me: Writer, written: Written, buried: Mapping[int, int]) -> Proved:
        """Of the epoch that was begun. `buried`: tombstones that its clearing wrote, by partition."""

    def appended(self, cut: Cut, written: Written) -> tuple[str, int] | None:
        """A partition with rows of this epoch, and when the broker appended one of them; None where none tells."""

    def check_start(
        self, before: Barrier | None, generation: Generation, next_epoch: int, attempt: int
    ) -> None: ...

    def check_idle(self, barrier: Barrier) -> None: ...

    def grown(self, before: Barrier | None) -> bool:
        """Does anything stand above the barrier?"""


class Clearing(Protocol):
    """Garbage collection between two epochs."""

    @property
    def collected(self) -> tuple[int, ...]:
        """Per partition: below this offset there is nothing more to clear."""

    def collect(self, me: Writer, before: Barrier | None) -> Mapping[int, int]:
        """Clear a bounded slice, of what a committed barrier says; returns the tombstones by partition."""


class Lists(Protocol):
    """Where an epoch lists what it could not use."""

    def write(self, me: Writer, range_: Range, seen: Seen) -> int:
        """Returns the number of late (event, window) pairs."""


Reached = Callable[[str], None]
"""Told of the steps by name: tests end a process there."""


def nowhere(_step: str) -> None:
    """Nobody asks."""


class Lock(Protocol):
    """Held while an epoch is written, so that a heartbeat never looks at half of one."""

    def acquire(self, blocking: bool = True) -> bool: ...

    def release(self) -> None: ...

"""Ports of a driver to checkpoint, barriers topic and changelog.

`attempt_start`, `epoch` and `commit_hints` use them in a fixed order, so a driver runs the same with Spark and
Kafka as in the simulation. The decisions are in `row_proof` and `checkpoint_check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cutwater.core.driver.input_stats import InputStats
from cutwater.core.driver.row_proof import Written
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.cuts import Cut, EpochPlan, Range
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.log_evidence import Evidence
from cutwater.core.protocol.records import Barrier, Signal


@dataclass(frozen=True)
class Past:
    """The records of earlier attempts of the generation on the barriers topic."""

    attempt: int
    """The highest attempt; 0 for none."""
    barriers: dict[int, Barrier]
    """The barriers of the newest epochs, each of its highest attempt."""

    @property
    def newest(self) -> Barrier | None:
        return self.barriers[max(self.barriers)] if self.barriers else None

    def newest_before(self, epoch: int) -> Barrier | None:
        """Return the newest barrier of an epoch below `epoch`: the baseline of its proof."""
        earlier = [number for number in self.barriers if number < epoch]
        return self.barriers[max(earlier)] if earlier else None

    def with_(self, barrier: Barrier) -> Past:
        """Return the past with this barrier; keeps the barriers that proofs may still need."""
        kept = dict(sorted(self.barriers.items())[-2:])
        return Past(barrier.attempt, {**kept, barrier.epoch: barrier})


def summarise(signals: Iterable[Signal], generation: Generation) -> Past:
    """Return the past of one generation from signals in log order."""
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
        """Return the newest N with `offsets/N`; -1 without any."""

    def newest_committed(self) -> int:
        """Return the newest N with `commits/N`; -1 without any."""

    def is_committed(self, epoch: int) -> bool: ...

    def is_planned(self, epoch: int) -> bool: ...

    def plan(self, epoch: int) -> EpochPlan:
        """Return the plan of a planned epoch."""


class Barriers(Protocol):
    """The barriers topic, under the driver's fenced id."""

    def open(self) -> Past:
        """Fence older drivers, then read the past: they can add nothing any more."""

    def read_past(self) -> Past:
        """Return the current past; an older driver may still add to it, unless `open` was called before."""

    def write(self, signal: Signal) -> None:
        """Write a signal. Raises FencedError if a newer driver has taken over."""


class Proved(NamedTuple):
    """Cut and evidence of a barrier's logs."""

    changelog_cut: Cut
    evidence: Evidence
    """Evidence of changelog and sources."""


class NewQueryError(Exception):
    """Another query must read the epoch: nothing of it is written, and its plan stays."""


class LeadersChangedError(NewQueryError):
    """The source has other leaders, or is another topic, than at the query's epoch before. Its executors may have
    fetched events that the log has lost since."""


class Rows(Protocol):
    """Proofs of the changelog's rows; each raises DivergenceError naming the foreign or lost records."""

    def begin_epoch(self, before: Barrier | None, source_cut: Cut) -> None:
        """Check, before an epoch writes, that all records below the cuts of the barrier before still exist.

        Raises LeadersChangedError once for each change of the source's leaders since the last call.
        """

    def prove(self, before: Barrier | None, me: Writer, written: Written, buried: Mapping[int, int]) -> Proved:
        """Prove the started epoch. `buried`: tombstones written by its clearing, by partition."""

    def read_append_time(self, cut: Cut, written: Written) -> tuple[str, int] | None:
        """Return a partition with rows of this epoch and the append time of one by the broker; None if unknown."""

    def check_start(
        self, before: Barrier | None, generation: Generation, next_epoch: int, attempt: int
    ) -> None: ...

    def check_idle(self, barrier: Barrier) -> None: ...

    def has_grown(self, before: Barrier | None) -> bool:
        """Return whether there are records above the barrier."""


class Clearing(Protocol):
    """Garbage collection between two epochs."""

    @property
    def collected(self) -> tuple[int, ...]:
        """By partition, the offset below which nothing is left to clear."""

    def collect(self, me: Writer, before: Barrier | None) -> Mapping[int, int]:
        """Clear a bounded slice by the horizon of a committed barrier; return the tombstones by partition."""


class ListCounts(NamedTuple):
    """Events of an epoch's lists that its barrier counts apart."""

    late: int = 0
    no_value: int = 0
    """Rejected events without a value."""


class Lists(Protocol):
    """The lists of events that an epoch could not use."""

    def write(self, me: Writer, range_: Range, seen: InputStats) -> ListCounts:
        """Write the entries."""


Reached = Callable[[str], None]
"""Callback with the name of each step: tests end a process there."""


def nowhere(_step: str) -> None:
    """Ignore the step."""


class Lock(Protocol):
    """Lock held while an epoch is written, so that a heartbeat never sees half an epoch."""

    def acquire(self, blocking: bool = True) -> bool: ...

    def release(self) -> None: ...

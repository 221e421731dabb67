"""Offset map of a copied partition: the runs of its positions with their write times, older runs packed.

The marker after each transaction of the mirror takes an offset here, so each transaction is a run of its own, and
a trickle of events makes dozens per second. While the origin's job lags behind its events, no run may be
forgotten: the cuts of its next milestones are among them. A run differs little from the one before, so packed it
takes about a byte, and a day or two fit.
"""

from __future__ import annotations

import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from cutwater.core.mirror.copy_progress import Run

BYTES_MAX = 8 * 1024 * 1024
"""Limit of a partition's packed runs; beyond it the oldest are forgotten."""
BLOCK_RUNS = 1_024
"""Runs per packed block. A block is unpacked if a cut lies in it: a millisecond or two at most."""
BLOCK_BYTES = 320
"""Overhead of a block beside its packed bytes."""
MINUTE_MS = 60_000
"""Times are rounded down to it: exact ones would take more space than all the rest."""


class TimedRun(NamedTuple):
    """A run with the local time when it was written here."""

    run: Run
    at_ms: int

    @property
    def after(self) -> int:
        """The source offset after it."""
        return self.run.source + self.run.length


class _Block(NamedTuple):
    first: TimedRun
    after: int
    """The source offset after the last run."""
    packed: bytes
    """The runs after the first."""

    @property
    def size(self) -> int:
        return len(self.packed) + BLOCK_BYTES


class OffsetMap:
    """The offset map of one partition from a source offset. Runs are added in the order of writing."""

    def __init__(self, known_from: int, bytes_max: int = BYTES_MAX) -> None:
        self.known_from = known_from
        """Cuts below it cannot be translated."""
        self._bytes_max = bytes_max
        self._blocks: deque[_Block] = deque()
        self.size = 0
        """Bytes of the packed blocks."""
        self._newest: list[TimedRun] = []
        """Runs that are not in a block yet."""

    def add(self, runs: Iterable[Run], at_ms: int) -> None:
        for run in runs:
            self._newest.append(TimedRun(run, at_ms - at_ms % MINUTE_MS))
            if len(self._newest) == BLOCK_RUNS:
                self._pack()

    def forget(self, cut: int) -> None:
        """Forget the runs below this cut, which will not be needed again."""
        while self._blocks and self._blocks[0].after <= cut:
            self._drop()
        below = next((number for number, one in enumerate(self._newest) if cut < one.after), len(self._newest))
        del self._newest[:below]
        self.known_from = max(self.known_from, cut)

    def above(self, cut: int) -> TimedRun | None:
        """Return the first run with a record at or above a known cut; None if there is none."""
        return next((one for one in self._around(cut) if cut < one.after), None)

    def _around(self, cut: int) -> Iterable[TimedRun]:
        for block in self._blocks:
            if cut < block.after:
                return _unpacked(block)
        return self._newest

    def _pack(self) -> None:
        block = _Block(self._newest[0], self._newest[-1].after, _packed(self._newest))
        self._blocks.append(block)
        self.size += block.size
        self._newest.clear()
        while self.size > self._bytes_max:
            self.known_from = max(self.known_from, self._blocks[0].after)
            self._drop()

    def _drop(self) -> None:
        self.size -= self._blocks.popleft().size


def _packed(runs: Sequence[TimedRun]) -> bytes:
    """Pack all runs but the first as differences to the one before: a column of gaps is mostly one number."""
    rows = [
        (
            run.source - before.source - before.length,
            run.local - before.local - before.length,
            run.length,
            at_ms - before_ms,
        )
        for (before, before_ms), (run, at_ms) in pairwise(runs)
    ]
    return zlib.compress(array("q", chain.from_iterable(zip(*rows, strict=True))).tobytes())


def _unpacked(block: _Block) -> Iterator[TimedRun]:
    columns = array("q")
    columns.frombytes(zlib.decompress(block.packed))
    many = len(columns) // 4
    (source, local, length), at_ms = block.first.run, block.first.at_ms
    yield block.first
    for number in range(many):
        source += length + columns[number]
        local += length + columns[many + number]
        length = columns[2 * many + number]
        at_ms += columns[3 * many + number]
        yield TimedRun(Run(source, local, length), at_ms)

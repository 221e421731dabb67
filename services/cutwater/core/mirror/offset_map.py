"""Where the copied records of a partition lie here, and since when: its positions' runs, the older ones packed.

The marker behind each transaction of the mirror moves the offsets here on, so each transaction is a run by itself,
and a trickle makes dozens in a second. While the origin's job lags behind its events none may be forgotten: its
next milestones have their cuts down there. A run says little that the one before it does not, so packed it takes
about a byte, and a day or two have room.
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
"""Of the packed runs of a partition; beyond it the oldest are forgotten."""
BLOCK_RUNS = 1_024
"""So many are packed as one, and unpacked where a cut lies among them: a millisecond or two at most."""
BLOCK_BYTES = 320
"""What a block takes beside its packed bytes."""
MINUTE_MS = 60_000
"""Times are rounded down to it: exact ones would take more room than all the rest."""


class Placed(NamedTuple):
    """A run, and when it was written here, by our clock."""

    run: Run
    at_ms: int

    @property
    def after(self) -> int:
        """The source offset behind it."""
        return self.run.source + self.run.length


class _Block(NamedTuple):
    first: Placed
    after: int
    """The source offset behind the last."""
    packed: bytes
    """Those behind the first."""

    @property
    def size(self) -> int:
        return len(self.packed) + BLOCK_BYTES


class Places:
    """Of one partition, from a source offset on. Runs are added in the order in which they were written."""

    def __init__(self, known_from: int, bytes_max: int = BYTES_MAX) -> None:
        self.known_from = known_from
        """Of cuts below it nothing is known."""
        self._bytes_max = bytes_max
        self._blocks: deque[_Block] = deque()
        self.size = 0
        """Bytes of what is packed."""
        self._newest: list[Placed] = []
        """Those that are no block yet."""

    def add(self, runs: Iterable[Run], at_ms: int) -> None:
        for run in runs:
            self._newest.append(Placed(run, at_ms - at_ms % MINUTE_MS))
            if len(self._newest) == BLOCK_RUNS:
                self._pack()

    def forget(self, cut: int) -> None:
        """Nobody asks below this cut any more."""
        while self._blocks and self._blocks[0].after <= cut:
            self._drop()
        below = next((number for number, one in enumerate(self._newest) if cut < one.after), len(self._newest))
        del self._newest[:below]
        self.known_from = max(self.known_from, cut)

    def above(self, cut: int) -> Placed | None:
        """The first run with a record at or above a cut that is known; None where nothing stands there."""
        return next((one for one in self._around(cut) if cut < one.after), None)

    def _around(self, cut: int) -> Iterable[Placed]:
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


def _packed(runs: Sequence[Placed]) -> bytes:
    """All but the first, each by what the one before does not say: a column of gaps is mostly one number."""
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


def _unpacked(block: _Block) -> Iterator[Placed]:
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
        yield Placed(Run(source, local, length), at_ms)

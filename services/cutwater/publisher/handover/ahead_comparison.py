"""The comparison of two preloaded states before their hand-over, so that its pause does not grow with them.

All rows are compared once. From then on only rows that are written to one of the stores may differ. A load of new
rows adds their names to the suspects; those that are equal again by then are removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cutwater.core.output.state_diff import Rows, Same, unequal_rows
from cutwater.core.output.suspects import Suspects
from cutwater.core.protocol.generation import Generation
from cutwater.publisher.sources.stored_rows import closed_pieces, named_pieces
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.store.store import Store

SUSPECTS_MAX = 200_000
"""About 30 MB."""
FEW = 1_000
ROWS_A_SUSPECT = 20
"""Two lookups of a row take as long as a scan of this many rows of both stores."""
REST_S = 0.0003
"""After each piece, so that the thread that publishes need not wait for the interpreter."""
APART = 10
"""A comparison that gave up is tried again after this many times as long as it took."""
_EVER_MS = (1 << 62) - 1


class AheadComparison:
    """What may differ between the stores of two generations of one job, above a window end."""

    def __init__(self, old: Generation, new: Generation, floor_ms: int, same: Same, log: Any) -> None:
        self.of = old, new
        self._floor_ms, self._same, self._log = floor_ms, same, log
        self.suspects = Suspects(SUSPECTS_MAX)
        self.suspects.give_up()
        self._compared = 0
        self._again_s = -1.0

    def refresh(self, old: Store, new: Store, stopping: Callable[[], bool]) -> None:
        """Compare what may differ. No other thread may write to the stores. Raises Stopped, MachineError."""
        if not self.suspects.given_up:
            names = self.suspects.in_order()
            was, now = (self._rest(named_pieces(one, names, *self._within), stopping) for one in (old, new))
            self.suspects.keep_only([name for name, _, _ in unequal_rows(was, now, self._same)])
        elif time.monotonic() >= self._again_s:
            self._compare_all(old, new, stopping)

    def suspects_of(self, old: Generation, new: Generation, floor_ms: int) -> Sequence[bytes] | None:
        """Return the names of the rows above a window end that may differ, in order; None if they are not known,
        or so many that it is faster to compare all."""
        if self.of != (old, new) or floor_ms < self._floor_ms or self.suspects.given_up:
            return None
        few = len(self.suspects) <= max(FEW, self._compared // ROWS_A_SUSPECT)
        return self.suspects.in_order() if few else None

    @property
    def _within(self) -> tuple[int, int]:
        return self._floor_ms, _EVER_MS

    def _compare_all(self, old: Store, new: Store, stopping: Callable[[], bool]) -> None:
        began_s, self._compared = time.monotonic(), 0
        found = Suspects(SUSPECTS_MAX)
        every = (self._count(closed_pieces(one, one.job, *self._within)) for one in (old, new))
        was, now = (self._rest(pieces, stopping) for pieces in every)
        for name, _, _ in unequal_rows(was, now, self._same):
            found.add((name,))
            if found.given_up:
                break
        took_s = time.monotonic() - began_s
        self._again_s = time.monotonic() + APART * took_s
        if not found.given_up:
            self.suspects = old.touched = new.touched = found
        self._log.info(
            "states compared ahead",
            old=str(self.of[0]),
            new=str(self.of[1]),
            rows=self._compared // 2,
            differ="too many" if found.given_up else len(found),
            seconds=round(took_s, 3),
        )

    def _count(self, pieces: Iterator[Rows]) -> Iterator[Rows]:
        for piece in pieces:
            self._compared += len(piece)
            yield piece

    def _rest(self, pieces: Iterator[Rows], stopping: Callable[[], bool]) -> Iterator[Rows]:
        for piece in pieces:
            yield piece
            if stopping():
                raise Stopped
            time.sleep(REST_S)

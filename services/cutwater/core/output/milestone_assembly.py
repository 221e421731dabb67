"""Assembly of milestones from the output's rows and end markers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from cutwater.core.errors import DivergenceError
from cutwater.core.output.position import End


class Group(NamedTuple):
    """The rows of one partition up to an end marker."""

    end: End
    rows: list[bytes]


class Grouping:
    """Collects the partitions' rows; a milestone is complete when every partition has ended it.

    `cut_off`: the partitions whose reading may start inside a milestone, because older records are gone. Rows
    before their first complete milestone are skipped. `after`: the sequence after which to continue; 0 for the
    first milestone, or for any if partitions are cut off.
    """

    def __init__(self, partitions: int, cut_off: Sequence[int] = (), after: int = 0) -> None:
        self._open: list[list[bytes]] = [[] for _ in range(partitions)]
        self._ended: list[deque[Group]] = [deque() for _ in range(partitions)]
        self._cut_off = set(cut_off)
        self._after = after
        self._any = after == 0 and bool(cut_off)
        self.held = 0
        """Rows of incomplete milestones."""

    def row(self, partition: int, value: bytes) -> None:
        self._open[partition].append(value)
        self.held += 1

    @property
    def next_rows(self) -> int:
        """Rows of the next milestone so far. Those of later ones come from partitions that are read ahead."""
        return sum(
            len(ended[0].rows) if ended else len(rows) for ended, rows in zip(self._ended, self._open, strict=True)
        )

    def ahead(self, partition: int) -> bool:
        """Return whether this partition has ended a milestone that others have not."""
        return bool(self._ended[partition])

    def end(self, partition: int, end: End) -> None:
        """Add an end marker. Raises DivergenceError if rows before it are missing or too many."""
        if not end.last:
            return
        rows, self._open[partition] = self._open[partition], []
        if len(rows) == end.rows:
            self._ended[partition].append(Group(end, rows))
        elif partition not in self._cut_off:
            raise DivergenceError(
                f"partition {partition} of the output holds {len(rows)} rows of sequence {end.sequence}, but its "
                f"end marker says {end.rows}: records were lost or added. Read the changelog; find the process "
                "that writes to the output."
            )
        else:
            self.held -= len(rows)
        self._cut_off.discard(partition)

    def next_complete(self) -> tuple[End, list[bytes]] | None:
        """Return the next milestone that every partition has ended, with its rows; None if there is none yet.
        Raises DivergenceError if a milestone is missing."""
        while all(self._ended):
            newest = max(ended[0].end.sequence for ended in self._ended)
            behind = [ended for ended in self._ended if ended[0].end.sequence < newest]
            if not behind:
                return self._take()
            if not self._any:
                raise DivergenceError(f"a partition of the output has no end of the milestone before {newest}")
            for ended in behind:  # retention has deleted its rows in another partition
                self.held -= len(ended.popleft().rows)
        return None

    def _take(self) -> tuple[End, list[bytes]]:
        groups = [ended.popleft() for ended in self._ended]
        end, rows = groups[0].end, [row for group in groups for row in group.rows]
        if not self._any and end.first_sequence != self._after + 1:
            raise DivergenceError(f"the output goes from sequence {self._after} to {end.first_sequence}: a gap")
        self._any, self._after = False, end.sequence
        self.held -= len(rows)
        return end, rows

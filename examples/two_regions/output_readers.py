"""Reads a region's output, one complete milestone after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cutwater.client import Change, CommittedMilestone, committed
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import CORRECTION, TOMBSTONE, Job
from cutwater.core.protocol.generation import Token
from cutwater.demo.output_topic import Fold
from cutwater.local.region import Region

WAIT_S = 60.0
EXAMPLES = 3


class Emitted(NamedTuple):
    rows: Fold
    """The newest value of each row, without deleted rows."""
    corrections: int
    """The number of rows that changed an earlier row, including tombstones."""
    faults: tuple[str, ...]
    """The first few violations of what readers may rely on."""


def emitted(region: Region, job: Job, up_to: Token) -> Emitted:
    """Read from the start, as a new reader does. Raise UnavailableError if the output ends before `up_to`."""
    reader = _Reader()
    for milestone in committed(job, region.cluster, idle_s=WAIT_S):
        reader.take(milestone)
        if milestone.token.generation == up_to.generation and milestone.token.sequence >= up_to.sequence:
            return Emitted(reader.rows, reader.corrections, tuple(reader.faults[:EXAMPLES]))
    raise UnavailableError(f"the output of {region.name} ends at sequence {reader.sequence}, below {up_to}")


class _Reader:
    def __init__(self) -> None:
        self.rows: Fold = {}
        self.sequence = 0
        self.corrections = 0
        self.faults: list[str] = []

    def take(self, milestone: CommittedMilestone) -> None:
        if self.sequence and milestone.first_sequence != self.sequence + 1:
            self.faults.append(f"sequence {milestone.first_sequence} follows {self.sequence}")
        self.sequence = milestone.token.sequence
        contradicts = self._take_all(milestone.changes, str(milestone.token))
        self.corrections += contradicts
        if contradicts and not milestone.rewinds_to:
            self.faults.append(f"{milestone.token} corrects {contradicts} rows without a rewind")

    def _take_all(self, changes: Iterable[Change], token: str) -> int:
        """Return the number of corrections and tombstones."""
        contradicts = 0
        for one in changes:
            at = one.key, one.window_start_ms
            marked = one.kind in (CORRECTION, TOMBSTONE)
            contradicts += marked
            if not marked and at in self.rows and self.rows[at].values == one.values:
                self.faults.append(f"{token} repeats {at} without a change")
            if one.kind == TOMBSTONE:
                self.rows.pop(at, None)
            else:
                self.rows[at] = one
        return contradicts

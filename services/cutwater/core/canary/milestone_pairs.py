"""Pairs of milestones of two generations that have read exactly the same events: those of equal source cuts.

Only such states can be equal. At any other moment one of them has read events that the other has not, and every
row of these events differs. Along a generation, source cuts only grow; so what can pair no more is known as
soon as the other one has a milestone beyond it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import NamedTuple

from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry

STEPS_MAX = 1_000
"""The most milestones of one side between two pairs that are kept; with more, the pair says so."""
WAITING_MAX = 50_000
"""The most milestones of one side that wait for one of the other; of more, the oldest are given up."""


class Steps(NamedTuple):
    """The milestones of one generation since the last pair, in order; the last one is of the pair."""

    entries: tuple[Entry, ...]
    late: int
    """The late events that they list."""
    complete: bool
    """Whether `entries` has all of them."""

    @property
    def last(self) -> Entry:
        return self.entries[-1]

    @property
    def milestone(self) -> Milestone:
        return self.last.milestone


class Pair(NamedTuple):
    live: Steps
    candidate: Steps


class _Line:
    """The milestones of one generation that are not compared yet."""

    def __init__(self) -> None:
        self.waiting: deque[Entry] = deque()
        self.skipped = 0
        """Those with whose source cut the other generation has none."""
        self._behind: deque[Entry] = deque(maxlen=STEPS_MAX - 1)
        self._behind_count = self._late = 0
        self._paired_cut: Cut | None = None
        self._newest: Milestone | None = None

    def add(self, entry: Entry) -> None:
        """Take the next milestone. If too many wait, the oldest one is given up."""
        one = entry.milestone
        if self._newest is not None and (one.generation, one.epoch) <= (
            self._newest.generation,
            self._newest.epoch,
        ):
            return  # commit-signal writes the last one again after a restart
        self._newest = one
        self.waiting.append(entry)
        if len(self.waiting) > WAITING_MAX:
            self.skip()

    def skip(self) -> None:
        """Leave the first one behind: it is applied with the next pair, and not compared."""
        entry = self.waiting.popleft()
        self.skipped += 1
        self._leave(entry)

    def _leave(self, entry: Entry) -> None:
        self._behind.append(entry)
        self._behind_count += 1
        self._late += entry.milestone.late

    def head(self) -> Milestone | None:
        """Return the first one that may pair. One without an event since the last pair is the same state again."""
        while self.waiting and self.waiting[0].milestone.source_cut == self._paired_cut:
            self._leave(self.waiting.popleft())
        return self.waiting[0].milestone if self.waiting else None

    def take(self) -> Steps:
        """Take the first one as that of a pair."""
        entry = self.waiting.popleft()
        late = self._late + entry.milestone.late
        made = Steps((*self._behind, entry), late, self._behind_count == len(self._behind))
        self._behind.clear()
        self._behind_count = self._late = 0
        self._paired_cut = entry.milestone.source_cut
        return made


@dataclass(frozen=True)
class PairCounts:
    """What was not compared, and why."""

    unpaired: int
    """Milestones of the candidate with whose source cut the promoted generation has none."""
    passed: int
    """Milestones of the promoted generation with whose source cut the candidate has none."""


class Pairing:
    """Takes the milestones of both generations, each in order, and returns the pairs: always the same ones,
    whenever the milestones come."""

    def __init__(self) -> None:
        self._live, self._candidate = _Line(), _Line()

    @property
    def counts(self) -> PairCounts:
        return PairCounts(self._candidate.skipped, self._live.skipped)

    def add_parent(self, entry: Entry) -> None:
        """Take the milestone that the candidate starts from; its late events came before."""
        self._live.add(entry._replace(milestone=replace(entry.milestone, late=0)))

    def add_live(self, entry: Entry) -> None:
        self._live.add(entry)

    def add_candidate(self, entry: Entry) -> None:
        self._candidate.add(entry)

    def next(self) -> Pair | None:
        """Return the next pair; None until there are more milestones."""
        live, candidate = self._live, self._candidate
        while (one := live.head()) is not None and (two := candidate.head()) is not None:
            if one.source_cut == two.source_cut:
                return Pair(live.take(), candidate.take())
            # Cuts grow: the one with fewer events cannot be met by the other any more. With as many, neither can.
            read = one.source_cut.records, two.source_cut.records
            if read[0] <= read[1]:
                live.skip()
            if read[1] <= read[0]:
                candidate.skip()
        return None

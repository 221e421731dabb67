"""Rejected events by lineage: a generation's epochs, those of its parent up to the parent milestone, and so on.

A generation reads every event after its parent milestone itself: first as a candidate, with milestones on the
candidates topic, then promoted, on the commit stream. Entries that its parent listed after that milestone belong
to another line, where the same event may be listed for another reason or counted. So a list always belongs to one
line, whatever generations wrote to the topic. Another region's entries are on the lists of that region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cutwater.core.driver.rejected_events import Epoch, EpochAccount
from cutwater.core.errors import UsageError
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone


class LineagePart(NamedTuple):
    """A generation's part of a line."""

    generation: Generation
    last: int | None
    """Its last epoch in the line; None: the newest one."""

    def holds(self, epoch: int) -> bool:
        return self.last is None or epoch <= self.last


class Accounts(NamedTuple):
    """The expected entries of a list by the milestones of one line, and the gaps in them."""

    told: dict[Epoch, EpochAccount]
    """Only epochs that listed entries."""
    problems: list[str]
    elsewhere: list[str]
    """Entries that are on the lists of other regions, where the line of this state started, or are pruned."""


class Ancestry:
    """A compact index of a job's generations. The commit stream is read first: the candidates topic then has all
    milestones that a promoted generation wrote as a candidate."""

    def __init__(self, count: Callable[[Milestone], int]) -> None:
        """`count`: returns the number of listed entries from a milestone."""
        self._count = count
        self._told: dict[Epoch, EpochAccount] = {}
        self._epochs: dict[Generation, _Runs] = {}
        self._parents: dict[Generation, Epoch] = {}
        self._spans: list[tuple[int, Epoch]] = []
        """First sequence and epoch of each generation's part of the commit stream."""
        self.promoted: Generation | None = None

    def follow(self, milestone: Milestone) -> None:
        """Add the next milestone of the commit stream."""
        if milestone.generation != self.promoted:
            self._spans.append((milestone.sequence, (milestone.generation, milestone.epoch)))
        self.promoted = milestone.generation
        self.take(milestone)

    def claim(self, generation: Generation, parent: Milestone, home: int = 0) -> None:
        """Add a claim; a repeated claim is identical. `home`: if the parent is of another region, the sequence
        here from which its line continues; 0 for none."""
        self._parents.setdefault(generation, (parent.generation, parent.epoch))
        self._epochs.setdefault(generation, _Runs())
        if (left := self._epoch_of(home)) is not None:
            self._parents.setdefault(parent.generation, left)

    def _epoch_of(self, sequence: int) -> Epoch | None:
        for first, (generation, epoch) in reversed(self._spans):
            if first <= sequence:
                return generation, epoch + sequence - first
        return None

    def take(self, milestone: Milestone) -> None:
        """Add a candidate's milestone. The newest one is repeated as the first on the commit stream."""
        self._epochs.setdefault(milestone.generation, _Runs()).add(milestone.epoch)
        if entries := self._count(milestone):
            told = EpochAccount(milestone.attempt, entries)
            self._told.setdefault((milestone.generation, milestone.epoch), told)

    def line(self, generation: Generation) -> list[LineagePart]:
        """Return the parts of a generation's line, its own first."""
        parts = [LineagePart(generation, None)]
        for _ in self._parents:  # an id contains its parent's hash, so a line has no cycle
            parent = self._parents.get(parts[-1].generation)
            if parent is None:
                break
            parts.append(LineagePart(*parent))
        return parts

    def accounts(self, generation: Generation | None = None) -> Accounts:
        """Return the accounts of a generation, by default the promoted one. Raises UsageError if unknown."""
        generation = generation or self.promoted
        if generation is None:
            return Accounts({}, [], [])
        if generation not in self._epochs:
            known = ", ".join(map(str, sorted(self._epochs))) or "none"
            raise UsageError(f"{generation} is not a generation of this job; known are: {known}")
        line = {part.generation: part for part in self.line(generation)}
        told = {
            (by, epoch): one for (by, epoch), one in self._told.items() if by in line and line[by].holds(epoch)
        }
        parts = list(line.values())
        return Accounts(told, [*self._unknown(parts)], [*self._other_regions(parts), *self._pruned(parts)])

    def _pruned(self, line: list[LineagePart]) -> Iterator[str]:
        """Yield a note if `prune` has removed the start of the stream, and so epochs of this region."""
        if not self._spans:
            return
        sequence, (root, first) = self._spans[0]
        before = any(one.region == root.region and one.number < root.number for one, _ in line)
        if before or self._epochs[root].missing(0, first - 1) is not None:
            yield f"entries listed before milestone {sequence} are left out: the commit stream now begins there"

    def _other_regions(self, line: list[LineagePart]) -> Iterator[str]:
        here = line[0].generation.region
        for generation, last in line:
            if (region := generation.region) != here:
                yield f"entries of region {region} up to epoch {last} of {generation} are listed there, not here"

    def _unknown(self, line: list[LineagePart]) -> Iterator[str]:
        """Yield the missing milestones and claims. The start of the stream may have been pruned."""
        root, first = self._spans[0][1] if self._spans else (line[-1].generation, 0)
        for generation, last in line:
            if generation.region == root.region and generation.number >= root.number:
                begin = first if generation == root else 0
                missing = self._epochs.get(generation, _Runs()).missing(begin, last)
                if missing is not None:
                    yield f"epoch {missing} of {generation}: its milestone was not found; run the command again"
        oldest = line[-1].generation
        if is_claimed(oldest) and oldest.region == root.region and oldest.number > root.number:
            yield f"the claim of {oldest} was not found: entries of earlier generations are unknown"


class _Runs:
    """Epochs that arrive nearly in order, as a few runs."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []
        """First epoch and end of each run."""

    def add(self, epoch: int) -> None:
        if self._runs and self._runs[-1][0] <= epoch <= self._runs[-1][1]:
            first, end = self._runs[-1]
            self._runs[-1] = (first, max(end, epoch + 1))
        else:
            self._runs.append((epoch, epoch + 1))

    def missing(self, first: int, last: int | None) -> int | None:
        """Return the first missing epoch from `first` to `last` (by default the newest)."""
        runs, at = sorted(self._runs), first
        for begin, end in runs:
            if begin > at:
                break
            at = max(at, end)
        newest = max((end for _, end in runs), default=first) - 1
        return at if at <= (newest if last is None else last) else None

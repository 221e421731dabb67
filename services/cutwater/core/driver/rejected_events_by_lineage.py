"""Whose epochs made a generation's state: its own, those of its parent up to the parent milestone, and so on.

A generation reads every event behind its parent milestone itself: first as a candidate, whose milestones stand on
the candidates topic, then promoted, on the commit stream. What its parent listed behind that milestone is of
another line: the same event may be listed there for another reason, or counted. So a list is always that of one
line, however many generations have written to the topic. What another region listed stands on the lists there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cutwater.core.driver.rejected_events import Epoch, Told
from cutwater.core.errors import UsageError
from cutwater.core.generations.start_state import claimed
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone


class Part(NamedTuple):
    """A generation's part of a line."""

    generation: Generation
    last: int | None
    """Its last epoch that counts; None: its newest one."""

    def holds(self, epoch: int) -> bool:
        return self.last is None or epoch <= self.last


class Accounts(NamedTuple):
    """What the milestones of one line say of a list, and what of them is not known."""

    told: dict[Epoch, Told]
    """Only epochs that have listed something."""
    problems: list[str]
    elsewhere: list[str]
    """What other regions have listed, by which state here began: it stands on the lists there."""


class Ancestry:
    """What both topics say of a job's generations, made small as it is read: the commit stream first.

    Read in this order nothing is missed: whoever is promoted by then has told all that it was as a candidate.
    """

    def __init__(self, count: Callable[[Milestone], int]) -> None:
        """`count`: how many entries an epoch has listed, as its milestone says."""
        self._count = count
        self._told: dict[Epoch, Told] = {}
        self._epochs: dict[Generation, _Runs] = {}
        self._parents: dict[Generation, Epoch] = {}
        self._spans: list[tuple[int, Epoch]] = []
        """Of each part of the commit stream that is one generation's, its first sequence and epoch."""
        self.promoted: Generation | None = None

    def follow(self, milestone: Milestone) -> None:
        """Take the next milestone of the commit stream."""
        if milestone.generation != self.promoted:
            self._spans.append((milestone.sequence, (milestone.generation, milestone.epoch)))
        self.promoted = milestone.generation
        self.take(milestone)

    def claim(self, generation: Generation, parent: Milestone, home: int = 0) -> None:
        """Take a claim. One that is repeated says the same.

        `home`: where the parent is of another region, the sequence here that its line goes on from; 0 for none.
        """
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
        """Take a candidate's milestone. The newest of them is the first on the commit stream, told again."""
        self._epochs.setdefault(milestone.generation, _Runs()).add(milestone.epoch)
        if entries := self._count(milestone):
            told = Told(milestone.attempt, entries)
            self._told.setdefault((milestone.generation, milestone.epoch), told)

    def line(self, generation: Generation) -> list[Part]:
        """The parts that make the state of a generation, its own first."""
        parts = [Part(generation, None)]
        for _ in self._parents:  # an id holds its parent's hash, so no line comes back to itself
            parent = self._parents.get(parts[-1].generation)
            if parent is None:
                break
            parts.append(Part(*parent))
        return parts

    def accounts(self, generation: Generation | None = None) -> Accounts:
        """Of a generation's line, by default the promoted one's. Raises UsageError for one that nobody knows."""
        generation = generation or self.promoted
        if generation is None:
            return Accounts({}, [], [])
        if generation not in self._epochs:
            known = ", ".join(map(str, sorted(self._epochs))) or "none"
            raise UsageError(f"{generation} is no generation of this job; known are: {known}")
        line = {part.generation: part for part in self.line(generation)}
        told = {
            (by, epoch): one for (by, epoch), one in self._told.items() if by in line and line[by].holds(epoch)
        }
        parts = list(line.values())
        return Accounts(told, [*self._unknown(parts)], [*self._elsewhere(parts), *self._pruned(parts)])

    def _pruned(self, line: list[Part]) -> Iterator[str]:
        """Epochs of this region that no milestone tells any more: the stream has lost its beginning by `prune`."""
        if not self._spans:
            return
        sequence, (root, first) = self._spans[0]
        before = any(one.region == root.region and one.number < root.number for one, _ in line)
        if before or self._epochs[root].missing(0, first - 1) is not None:
            yield f"what was listed before milestone {sequence} is not told: the commit stream begins there now"

    def _elsewhere(self, line: list[Part]) -> Iterator[str]:
        here = line[0].generation.region
        for generation, last in line:
            if (region := generation.region) != here:
                yield f"what region {region} listed up to epoch {last} of {generation} stands there, not here"

    def _unknown(self, line: list[Part]) -> Iterator[str]:
        """What milestones should tell and do not. The beginning of the stream may have been pruned."""
        root, first = self._spans[0][1] if self._spans else (line[-1].generation, 0)
        for generation, last in line:
            if generation.region == root.region and generation.number >= root.number:
                begin = first if generation == root else 0
                missing = self._epochs.get(generation, _Runs()).missing(begin, last)
                if missing is not None:
                    yield f"epoch {missing} of {generation}: its milestone is not to be found; look again"
        oldest = line[-1].generation
        if claimed(oldest) and oldest.region == root.region and oldest.number > root.number:
            yield f"the claim of {oldest} is not to be found: what generations before it listed is not known"


class _Runs:
    """Epochs that come nearly in order: as a few runs."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []
        """First epoch and end of each."""

    def add(self, epoch: int) -> None:
        if self._runs and self._runs[-1][0] <= epoch <= self._runs[-1][1]:
            first, end = self._runs[-1]
            self._runs[-1] = (first, max(end, epoch + 1))
        else:
            self._runs.append((epoch, epoch + 1))

    def missing(self, first: int, last: int | None) -> int | None:
        """The first epoch from `first` to `last` (by default the newest) that is not there."""
        runs, at = sorted(self._runs), first
        for begin, end in runs:
            if begin > at:
                break
            at = max(at, end)
        newest = max((end for _, end in runs), default=first) - 1
        return at if at <= (newest if last is None else last) else None

"""Forks: milestones of another region after the one from which this region continued.

Theory of operation. A generation that continued another region's milestone M has M's hash as its parent. In that
region's own commit stream, all milestones after M contradict it: the same sequences, other milestones. The fork
ends if that region returned: at the first milestone of a generation that was not started from any of its own
milestones (its id ends with the first digits of its parent's hash), as it continues this region's line again.

Nothing is deleted. A fork stays readable, and an operator decides which line counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import PARENT_DIGITS, Candidate
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.protocol.chain import link
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Claim, Decision, Milestone


class StreamMilestone(NamedTuple):
    """A milestone as on a commit stream."""

    milestone: Milestone
    hash: bytes
    """SHA-256 of its bytes."""


@dataclass(frozen=True)
class Line:
    """The milestones of one generation in a fork."""

    first: Token
    last: Token
    milestones: int
    events: int
    """The events that they read, by their own count."""
    first_ms: int
    """The commit time of the first milestone, by that region's clock."""
    last_ms: int
    source_cut: Cut
    """The source cut of the last milestone, in that region's offsets."""

    @staticmethod
    def of(one: Milestone) -> Line:
        return Line(one.token, one.token, 1, one.events, one.committed_ms, one.committed_ms, one.source_cut)

    def with_next(self, one: Milestone) -> Line:
        return replace(
            self,
            last=one.token,
            milestones=self.milestones + 1,
            events=self.events + one.events,
            last_ms=one.committed_ms,
            source_cut=one.source_cut,
        )


@dataclass(frozen=True)
class Fork:
    """A generation that continued another region's milestone, and the milestones there that contradict it."""

    claim: Claim
    parent: Milestone
    """The parent as written by its own region."""
    promoted: bool
    """Whether it is promoted, not only a candidate."""
    lines: list[Line] | None
    """The contradicting lines; None if the stream that was read does not hold the parent."""
    asked: bool
    """Whether the other region itself was queried; otherwise only the copy here is known."""
    behind: int | None
    """Offsets of its source after the parent's cut, markers included; None if it was not queried."""
    decision: Decision | None

    @property
    def contradicts(self) -> bool:
        return bool(self.lines)

    @property
    def milestones(self) -> int:
        return sum(one.milestones for one in self.lines or ())

    @property
    def open(self) -> bool:
        """Whether an operator must decide about it."""
        return self.contradicts and self.decision is None


def foreign_generations(line: Iterable[Generation], hashes: Iterable[bytes]) -> frozenset[Generation]:
    """Return the generations of a stream that were not started from any of its milestones. `hashes`: those of all
    its milestones. A job's first generation is not foreign."""
    unknown: dict[str, set[Generation]] = {}
    for one in line:
        if is_claimed(one):
            unknown.setdefault(one.parent, set()).add(one)
    for hash_ in hashes:
        unknown.pop(hash_.hex()[:PARENT_DIGITS], None)
    return frozenset[Generation]().union(*unknown.values())


class ForkTracker:
    """The milestones that contradict generations started from a growing stream.

    `parents`: the hashes of the generations' parent milestones. `elsewhere`: returns whether a generation of the
    stream was started from none of its milestones: if it follows a parent, the fork has ended there.
    """

    def __init__(self, parents: Iterable[bytes], elsewhere: Callable[[Generation], bool]) -> None:
        self._awaited, self._elsewhere = set(parents), elsewhere
        self._ended: set[bytes] = set()
        self._before: Generation | None = None
        self.lines: dict[bytes, list[Line]] = {}
        """By parent found in the stream: the milestones after it, one line per generation."""

    @property
    def counts(self) -> dict[bytes, int]:
        """Number of contradicting milestones by parent."""
        return {parent: sum(line.milestones for line in lines) for parent, lines in self.lines.items()}

    @property
    def milestones(self) -> int:
        return sum(self.counts.values())

    def take(self, one: StreamMilestone) -> None:
        """Add the next milestone of the stream."""
        generation = one.milestone.generation
        going = self.lines.keys() - self._ended
        if going and generation != self._before and self._elsewhere(generation):
            self._ended |= going
        else:
            for parent in going:
                self._add(self.lines[parent], one.milestone)
        if one.hash in self._awaited:
            self.lines.setdefault(one.hash, [])
        self._before = generation

    def _add(self, lines: list[Line], milestone: Milestone) -> None:
        if lines and milestone.generation == self._before:
            lines[-1] = lines[-1].with_next(milestone)
        else:
            lines.append(Line.of(milestone))


def contradicting_lines(
    stream: Iterable[StreamMilestone], parent: bytes, elsewhere: Collection[Generation]
) -> list[Line] | None:
    """Return the lines that contradict a generation started from the milestone with this hash. `elsewhere`: the
    result of `foreign`. None if the stream does not hold the parent."""
    growing = ForkTracker([parent], elsewhere.__contains__)
    for one in stream:
        growing.take(one)
    return growing.lines.get(parent)


def undecided(standing: Iterable[Candidate], origin: str) -> dict[bytes, Generation]:
    """Return, by parent hash, the generations that continued a milestone of that region and have no decision."""
    return {
        link(one.claim.parent): one.claim.generation
        for one in standing
        if one.claim.origin == origin and one.decision is None
    }


def find_fork(forks: Iterable[Fork], keeps: Generation) -> Fork:
    """Return the fork that is decided by keeping this generation. Raises UsageError if it is not part of any."""
    known = list(forks)
    for fork in known:
        theirs = {line.last.generation for line in fork.lines or ()}
        if keeps in theirs or (fork.contradicts and keeps == fork.claim.generation):
            return fork
    sides = [str(one) for fork in known if fork.contradicts for one in _sides(fork)]
    raise UsageError(
        f"{keeps} takes part in no fork; those that do: {', '.join(sides) or 'none, nothing contradicts'}. "
        "'cutwater forks list' shows them"
    )


def _sides(fork: Fork) -> list[Generation]:
    return [fork.claim.generation, *dict.fromkeys(line.last.generation for line in fork.lines or ())]

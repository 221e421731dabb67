"""Forks: what another region committed behind the milestone that this one went on from.

Theory of operation. A generation that went on from another region's milestone M has M's hash for its parent. In
that region's own commit stream, everything behind M contradicts it: the same sequences, other milestones. The fork
ends where that region came back: at the first milestone of a generation that was started from none of its own
milestones (its id ends with the first digits of its parent's hash), since that goes on from here again.

Nothing is deleted. A fork stays readable, and an operator says which line counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import PARENT_DIGITS, Candidate
from cutwater.core.generations.start_state import claimed
from cutwater.core.protocol.chain import link
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Claim, Decision, Milestone


class Told(NamedTuple):
    """A milestone as a commit stream tells it."""

    milestone: Milestone
    hash: bytes
    """SHA-256 of its bytes there."""


@dataclass(frozen=True)
class Line:
    """The milestones of one generation in a fork."""

    first: Token
    last: Token
    milestones: int
    events: int
    """That they have read, as they count them themselves."""
    first_ms: int
    """When the first of them was committed, by that region's clock."""
    last_ms: int
    source_cut: Cut
    """How far the last of them has read, in that region's offsets."""

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
    """A generation that went on from another region's milestone, and what contradicts it there."""

    claim: Claim
    parent: Milestone
    """As its own region wrote it."""
    promoted: bool
    """Is it more than a candidate?"""
    lines: list[Line] | None
    """None where the stream that was looked at does not hold the parent."""
    asked: bool
    """Was the other region itself asked? Else only what is copied here is known."""
    behind: int | None
    """Offsets of its source behind the parent's cut, markers among them; None where it was not asked."""
    decision: Decision | None

    @property
    def contradicts(self) -> bool:
        return bool(self.lines)

    @property
    def milestones(self) -> int:
        return sum(one.milestones for one in self.lines or ())

    @property
    def open(self) -> bool:
        """Does it wait for somebody to decide?"""
        return self.contradicts and self.decision is None


def foreign(line: Iterable[Generation], hashes: Iterable[bytes]) -> frozenset[Generation]:
    """Of the generations of a stream those that were started from none of its milestones.

    `hashes`: of all its milestones. A job's first generation is its own.
    """
    unknown: dict[str, set[Generation]] = {}
    for one in line:
        if claimed(one):
            unknown.setdefault(one.parent, set()).add(one)
    for hash_ in hashes:
        unknown.pop(hash_.hex()[:PARENT_DIGITS], None)
    return frozenset[Generation]().union(*unknown.values())


class Growing:
    """What contradicts generations that were started from milestones of a stream which goes on.

    `parents`: the hashes of these milestones. `elsewhere`: was a generation of the stream started from none of its
    milestones? Asked where one begins behind a parent: there the fork has ended.
    """

    def __init__(self, parents: Iterable[bytes], elsewhere: Callable[[Generation], bool]) -> None:
        self._awaited, self._elsewhere = set(parents), elsewhere
        self._ended: set[bytes] = set()
        self._before: Generation | None = None
        self.lines: dict[bytes, list[Line]] = {}
        """Of the parents that have come: what stands behind them, generation by generation."""

    @property
    def counts(self) -> dict[bytes, int]:
        """How many milestones contradict, by parent."""
        return {parent: sum(line.milestones for line in lines) for parent, lines in self.lines.items()}

    @property
    def milestones(self) -> int:
        return sum(self.counts.values())

    def take(self, one: Told) -> None:
        """The next milestone of the stream."""
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


def behind(stream: Iterable[Told], parent: bytes, elsewhere: Collection[Generation]) -> list[Line] | None:
    """What contradicts a generation that was started from the milestone with this hash, generation by generation.

    `elsewhere`: as `foreign` says. None where the stream does not hold the parent.
    """
    growing = Growing([parent], elsewhere.__contains__)
    for one in stream:
        growing.take(one)
    return growing.lines.get(parent)


def undecided(standing: Iterable[Candidate], origin: str) -> dict[bytes, Generation]:
    """The generations that went on from a milestone of that region, where nobody has said which line counts.

    By their parents' hashes.
    """
    return {
        link(one.claim.parent): one.claim.generation
        for one in standing
        if one.claim.origin == origin and one.decision is None
    }


def decided(forks: Iterable[Fork], keeps: Generation) -> Fork:
    """The fork that is decided by keeping this generation. Raises UsageError where it takes part in none."""
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

"""How far a commit stream and its barriers may be cut off at the beginning: only what nobody begins with any more.

Every reader begins with the oldest milestone that is kept, or with one that it knows. So what must stay is a
sequence: the least of all that somebody may still ask for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone, Release

LEAST = 100
"""So many of the newest milestones always stay: as many epochs as Spark's checkpoint goes back."""


class Need(NamedTuple):
    """The oldest milestone that somebody needs, and who that is."""

    sequence: int
    who: str


class Begun(NamedTuple):
    """A claim: what a generation was, or is to be, started from."""

    generation: Generation
    back: int
    """The sequence here that its line goes on from; 0 for none."""
    abroad: bool
    """Is its parent of another region?"""
    coming: bool
    """May it be promoted yet?"""


class Stream:
    """What a commit stream says, made small as it is read."""

    def __init__(self, cutoff_ms: int) -> None:
        """`cutoff_ms`: what was committed since then stays."""
        self._cutoff_ms = cutoff_ms
        self.released = False
        self.newest: Milestone | None = None
        self.before = 0
        """The newest milestone of before that time; 0 for none."""
        self.firsts: dict[Generation, Milestone] = {}
        """The oldest that is kept of each generation."""
        self.lasts: dict[Generation, int] = {}

    def take(self, one: Milestone | Release) -> None:
        """The next record of the stream."""
        self.released = isinstance(one, Release)
        if isinstance(one, Release):
            return
        self.newest = one
        self.firsts.setdefault(one.generation, one)
        self.lasts[one.generation] = one.sequence
        if one.committed_ms < self._cutoff_ms:
            self.before = one.sequence

    @property
    def rests(self) -> str:
        """Why nothing at all goes; empty where something may."""
        if self.newest is None:
            return "there is no milestone"
        if self.released:
            return "the job was released to another region, which may be compared with this stream"
        if self.before == self.newest.sequence:
            return "the newest milestone is older than CUTWATER_KEEP_STREAMS_HOURS: the job rests, or was left"
        return ""

    def needs(self, listed: Collection[Generation], begun: Collection[Begun]) -> Iterator[Need]:
        """What stays whoever reads. `listed`: generations whose changelogs are still there."""
        newest = self.newest.sequence if self.newest else 0
        yield Need(max(1, newest - LEAST + 1), f"the newest {LEAST} milestones stay")
        # One of before the time as well: by it is known who was promoted then.
        yield Need(max(1, self.before), "it was committed within CUTWATER_KEEP_STREAMS_HOURS")
        for generation in listed:
            if (last := self.lasts.get(generation)) is not None:
                yield Need(last, f"the changelog of {generation} is still there ('cutwater generation prune')")
        for one in begun:
            if one.coming and one.back:
                yield Need(one.back, f"{one.generation}, a candidate, starts from it")


def floor(stream: Stream, needs: Iterable[Need], begun: Collection[Begun]) -> Need:
    """The first milestone that stays.

    Where a generation's first one stays, that which its line goes on from stays, too: else nobody could tell the
    line from a stranger's.
    """
    least = min(needs)
    while pinned := [
        Need(one.back, f"{one.generation} was started from it")
        for one in begun
        if _begins_behind(one, stream, least) and 0 < one.back < least.sequence
    ]:
        least = min(pinned)
    return least


def barriers_floor(removed: Milestone | None, stream: Stream, first: Need, begun: Collection[Begun]) -> int:
    """The offset of the barriers topic below which nothing is needed.

    `removed`: the last milestone that goes, with `first` the next. It had read so far: the barriers of all that
    stay lie behind. A generation that goes on from another region's milestone begins with whatever there is.
    """
    abroad = any(one.abroad and (one.coming or _begins_behind(one, stream, first)) for one in begun)
    return 0 if removed is None or abroad else removed.barriers_position


def _begins_behind(one: Begun, stream: Stream, least: Need) -> bool:
    first = stream.firsts.get(one.generation)
    return first is not None and first.sequence >= least.sequence

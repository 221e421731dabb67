"""Retention of a commit stream and its barriers: how far their start may be deleted.

A reader starts from the oldest retained milestone, or from one that it knows. So the lower bound is one sequence:
the lowest that any reader may still need.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone, Release

LEAST = 100
"""Number of newest milestones that always stay: as many epochs as Spark's checkpoint keeps."""


class Need(NamedTuple):
    """The oldest milestone needed, and the reason."""

    sequence: int
    who: str


class ClaimStart(NamedTuple):
    """A claim, as the start of a generation."""

    generation: Generation
    back: int
    """The sequence here from which its line continues; 0 for none."""
    abroad: bool
    """Whether its parent is of another region."""
    coming: bool
    """Whether it may still be promoted."""


class Stream:
    """A compact index of a commit stream."""

    def __init__(self, cutoff_ms: int) -> None:
        """`cutoff_ms`: milestones committed since then stay."""
        self._cutoff_ms = cutoff_ms
        self.released = False
        self.newest: Milestone | None = None
        self.before = 0
        """The newest milestone before that time; 0 for none."""
        self.firsts: dict[Generation, Milestone] = {}
        """The oldest retained milestone of each generation."""
        self.lasts: dict[Generation, int] = {}

    def take(self, one: Milestone | Release) -> None:
        """Add the next record of the stream."""
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
        """Why nothing may be deleted; empty if something may."""
        if self.newest is None:
            return "there is no milestone"
        if self.released:
            return "the job was released to another region, which may be compared with this stream"
        if self.before == self.newest.sequence:
            return "the newest milestone is older than CUTWATER_KEEP_STREAMS_HOURS: the job is idle or abandoned"
        return ""

    def needs(self, listed: Collection[Generation], begun: Collection[ClaimStart]) -> Iterator[Need]:
        """Yield what stays for any reader. `listed`: generations whose changelogs still exist."""
        newest = self.newest.sequence if self.newest else 0
        yield Need(max(1, newest - LEAST + 1), f"the newest {LEAST} milestones stay")
        # The newest milestone before the time stays too: it shows which generation was promoted then.
        yield Need(max(1, self.before), "it was committed within CUTWATER_KEEP_STREAMS_HOURS")
        for generation in listed:
            if (last := self.lasts.get(generation)) is not None:
                yield Need(last, f"the changelog of {generation} still exists ('cutwater generation prune')")
        for one in begun:
            if one.coming and one.back:
                yield Need(one.back, f"{one.generation}, a candidate, starts from it")


def floor(stream: Stream, needs: Iterable[Need], begun: Collection[ClaimStart]) -> Need:
    """Return the first milestone that stays. If a generation's first milestone stays, the one from which its line
    continues stays too: otherwise readers could not distinguish the line from a foreign one."""
    least = min(needs)
    while pinned := [
        Need(one.back, f"{one.generation} was started from it")
        for one in begun
        if _begins_behind(one, stream, least) and 0 < one.back < least.sequence
    ]:
        least = min(pinned)
    return least


def barriers_floor(removed: Milestone | None, stream: Stream, first: Need, begun: Collection[ClaimStart]) -> int:
    """Return the offset of the barriers topic below which nothing is needed.

    `removed`: the last deleted milestone, followed by `first`. The barriers of all milestones that stay are after
    its position. A generation that continues another region's milestone reads from the start of the topic.
    """
    abroad = any(one.abroad and (one.coming or _begins_behind(one, stream, first)) for one in begun)
    return 0 if removed is None or abroad else removed.barriers_position


def _begins_behind(one: ClaimStart, stream: Stream, least: Need) -> bool:
    first = stream.firsts.get(one.generation)
    return first is not None and first.sequence >= least.sequence

"""A hand-over of generations, as the publisher sees it: with which milestone the output goes on, and what differs.

Theory of operation. On the commit stream the first milestone of a promoted generation stands behind the last one
of the generation before. Its changelog is another topic and holds the whole state. What is published is the state
of an older milestone. So the difference of two states is written, as one milestone: what is there and was not, or
is otherwise, and what is not there any more. It is that between the published milestone and *one* target, which
the publisher's position names from its first part on: whoever takes over goes on with the same one.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.core.errors import DivergenceError
from cutwater.core.job.job import CORRECTION, TOMBSTONE
from cutwater.core.protocol.chain import breaks
from cutwater.core.protocol.generation import Generation
from cutwater.core.state.backlog import Entry, Jump, fresh
from cutwater.core.state.reader_names import PUBLISHER


@dataclass(frozen=True)
class Handover(Jump):
    """Publish what makes the published state that of a milestone of another generation."""

    rewinds_to: int = 0
    """The sequence whose state a rollback on the way there went back to, the earliest of several; 0 for none."""


@dataclass(frozen=True)
class Wording:
    """What the rows of a difference are called."""

    plain: str
    """The kind of what contradicts nothing."""
    said_ms: int
    """What comes of windows that end at or below it contradicts what was said: of closed ones, or of all."""
    horizon_ms: int
    """The target's: windows that end at or below it are not part of its state, so nothing is known to be gone."""

    def kind(self, end_ms: int, gone: bool) -> str | None:
        """Of one row; None where nothing is to be said."""
        if gone:
            return TOMBSTONE if end_ms > self.horizon_ms else None
        return CORRECTION if end_ms <= self.said_ms else self.plain


class Succession:
    """What the commit stream says behind the published milestone, in its order: as much as a hand-over needs."""

    def __init__(self, generation: Generation, published: Entry | None, target: int = 0) -> None:
        """`generation`: the one that is left. `target`: of which milestone parts are published; 0 for none."""
        self.generation = generation
        self._published = published
        self._target = target
        self._floor = 0
        self._last = published
        self._first: Entry | None = None
        self._meant: Entry | None = None
        self._rewinds: dict[Generation, tuple[int, int]] = {}
        """Of each later generation the sequence of its first milestone, and where that goes back to."""

    def add(self, entry: Entry) -> None:
        """Take the next milestone. Raises DivergenceError for a broken chain."""
        last, milestone = self._last, entry.milestone
        if last is not None and entry.offset == last.offset:
            return self._check_same(entry, last)
        self._check(entry)
        self._last = entry
        before = last.milestone.generation if last else None
        if milestone.generation != before:
            self._first = entry
            self._rewinds[milestone.generation] = (milestone.sequence, milestone.rewinds_to)
        if milestone.sequence == self._target and milestone.generation != self.generation:
            self._meant = entry
        return None

    def overtaken(self, to: Entry, looked: bool) -> None:
        """Compaction may have taken values of this milestone; `looked` as `views.changelog.proof.Overtaken`
        says."""
        self._floor = to.milestone.sequence + looked

    def plan(self, now_ms: int) -> Handover | None:
        """The hand-over to make, once the stream was read to its end; None where there is none yet.

        To the milestone of which parts are published, else to the first of the promoted generation while its whole
        state is certainly there, else to the newest.
        """
        to = self._to(now_ms)
        if to is None or to.milestone.generation == self.generation:
            return None
        back = [goal for at, goal in self._rewinds.values() if goal and at <= to.milestone.sequence]
        return Handover(to, min(back, default=0))

    def _to(self, now_ms: int) -> Entry | None:
        meant, first, last = self._meant, self._first, self._last
        if meant and meant.milestone.sequence >= self._floor:
            return meant
        if first and first.milestone.sequence >= self._floor and fresh(first.milestone, now_ms):
            return first
        return last if last and last.milestone.sequence >= self._floor else None

    def _check(self, entry: Entry) -> None:
        before, sequence = self._last, entry.milestone.sequence
        if before is None or (before is self._published and sequence != before.milestone.sequence + 1):
            return  # the stream was pruned past the published one
        for found in breaks((one.milestone, one.record) for one in (before, entry)):
            if found.sequence == sequence:
                raise DivergenceError(f"the commit stream is broken at sequence {sequence}: {found.reason}")

    def _check_same(self, entry: Entry, known: Entry) -> None:
        """The published one is read again."""
        if entry.record != known.record:
            raise DivergenceError(
                f"at offset {entry.offset} of the commit stream {known.milestone.token} is not as "
                f"{PUBLISHER.name} knows it: the topic was replaced. Find out why; then {PUBLISHER.anew}."
            )

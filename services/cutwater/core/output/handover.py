"""Hand-over of generations in the publisher: the milestone with which the output continues, and the difference.

Theory of operation. On the commit stream the first milestone of a promoted generation follows the last one of the
generation before. Its changelog is another topic and holds the whole state, but the output is at an older
milestone. So the publisher writes the difference of the two states as one milestone: new and changed rows, and
deletions. The difference is between the published milestone and *one* target. The publisher's position names the
target from the first part on, so a publisher that takes over continues with the same one.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.core.errors import DivergenceError
from cutwater.core.job.job import CORRECTION, TOMBSTONE
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.generation import Generation
from cutwater.core.state.backlog import Entry, Jump, fresh
from cutwater.core.state.reader_names import PUBLISHER


@dataclass(frozen=True)
class Handover(Jump):
    """Publish the difference to the state of another generation's milestone."""

    rewinds_to: int = 0
    """The earliest sequence to which a rollback on the way there went back; 0 for none."""


@dataclass(frozen=True)
class RowKinds:
    """The kinds of a difference's rows."""

    plain: str
    """The kind of rows that contradict no published row."""
    said_ms: int
    """Rows of windows that end at or below it contradict published ones: of closed windows, or of all."""
    horizon_ms: int
    """The target's horizon: its state has no windows that end at or below it, so none is known to be gone."""

    def kind(self, end_ms: int, gone: bool) -> str | None:
        """Return the kind of one row; None if it is not written."""
        if gone:
            return TOMBSTONE if end_ms > self.horizon_ms else None
        return CORRECTION if end_ms <= self.said_ms else self.plain


class Succession:
    """The milestones after the published one, in order, as far as a hand-over needs them."""

    def __init__(self, generation: Generation, published: Entry | None, target: int = 0) -> None:
        """`generation`: the one to leave. `target`: the milestone of which parts are published; 0 for none."""
        self.generation = generation
        self._published = published
        self._target = target
        self._floor = 0
        self._last = published
        self._first: Entry | None = None
        self._meant: Entry | None = None
        self._rewinds: dict[Generation, tuple[int, int]] = {}
        """By later generation: the sequence of its first milestone and its `rewinds_to`."""

    def add(self, entry: Entry) -> None:
        """Add the next milestone. Raises DivergenceError for a broken chain."""
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

    def mark_overtaken(self, to: Entry, looked: bool) -> None:
        """Record that compaction may have removed values of this milestone; `looked`: as in
        `views.changelog.proof.Overtaken`."""
        self._floor = to.milestone.sequence + looked

    def plan(self, now_ms: int) -> Handover | None:
        """Return the hand-over to make, after the stream was read to its end; None if there is none yet.

        The target is the milestone of which parts are published; otherwise the promoted generation's first one
        while its whole state certainly exists; otherwise the newest.
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
            return  # the stream was pruned past the published milestone
        for found in find_chain_faults((one.milestone, one.record) for one in (before, entry)):
            if found.sequence == sequence:
                raise DivergenceError(f"the commit stream is broken at sequence {sequence}: {found.reason}")

    def _check_same(self, entry: Entry, known: Entry) -> None:
        """Check the published milestone, which is read again."""
        if entry.record != known.record:
            raise DivergenceError(
                f"at offset {entry.offset} of the commit stream {known.milestone.token} is not as "
                f"{PUBLISHER.name} knows it: the topic was replaced. Find the cause; then {PUBLISHER.anew}."
            )

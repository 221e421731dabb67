"""What must become of the late events that a generation was started to count, and of the floor meanwhile.

Nothing here knows how a replay is planned: what the promoted line had listed, and what its state held, decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Milestone, Reopening
from simulation.checker import FELL, REOPENED, UNCOUNTED, WRONG_LIST, Anomaly
from simulation.latelist import window_end_ms
from simulation.regional import Book
from simulation.truncations import Losses

Names = frozenset[bytes]


class Told(NamedTuple):
    """A promoted milestone, and the events that it stands for."""

    milestone: Milestone
    record: bytes
    region: str
    names: Names
    """That it has read."""
    late: Mapping[bytes, str]
    """Those of them that came too late for their window, and the region on whose list they stand."""

    @property
    def counted(self) -> Names:
        return self.names - self.late.keys()


class Floor(NamedTuple):
    """Of a generation, behind its newest barrier."""

    floor_ms: int
    covers: bool
    """Has it read what its claim holds the floor for?"""


class Replays:
    """Of one history."""

    def __init__(self, book: Book, losses: Losses) -> None:
        self._book, self._losses = book, losses
        self._floors: dict[tuple[str, Generation], Floor] = {}
        self.asked: dict[Generation, str | None] = {}
        """Of whom all late events were asked for when it was claimed, or those of a key."""
        self.counted: set[bytes] = set()
        """Events that were late, and count since."""

    def look(
        self,
        who: str,
        opened: Reopening,
        parent: Told,
        stream: Sequence[Told],
        names: Names,
        listed: set[bytes],
    ) -> None:
        """At the first promoted milestone of a generation that counts late events. `listed`: by itself."""
        last = next((one for one in reversed(stream) if one.milestone.source_cut == opened.source_cut), None)
        if last is None:
            return  # the stream has lost it
        if opened.generation in self.asked and not self._losses:  # the list may have lost some
            counted = names - listed - parent.late.keys()
            self._require_asked(who, self.asked[opened.generation], last, stream, counted)
        within = last.names - parent.names
        token, whole_ms = last.milestone.token, parent.milestone.horizon_ms
        unread = within - names
        if unread and not self._losses:  # the source may have lost some
            raise Anomaly(UNCOUNTED, f"{who} has not read {sorted(unread)[:5]}, which {token} has")
        before = {one for one in within if one in last.late}
        due = {one for one in before if self._end_ms(one) > last.milestone.horizon_ms}
        if again := due & listed:
            raise Anomaly(UNCOUNTED, f"{who} lists {sorted(again)[:5]} again, whose windows were there")
        if more := (within & listed) - before:
            raise Anomaly(WRONG_LIST, f"{who} lists {sorted(more)[:5]}, which {token} had counted")
        if gone := {one for one in within - listed if self._end_ms(one) <= whole_ms}:
            raise Anomaly(REOPENED, f"{who} counts {sorted(gone)[:5]}, whose windows its parent lacks")
        self.counted |= before - listed

    def _require_asked(
        self, who: str, key: str | None, last: Told, stream: Sequence[Told], counted: Names
    ) -> None:
        """What the generation of `last` had listed since its first milestone counts, if its window was there."""
        first = next(one for one in stream if one.milestone.generation == last.milestone.generation)
        late = last.late.keys() - first.late.keys()
        due = {one for one in late if self._end_ms(one) > last.milestone.horizon_ms}
        due = {one for one in due if key in (None, self._book.by_name[one].key)}
        if due - counted:
            raise Anomaly(UNCOUNTED, f"{who} does not count {sorted(due - counted)[:5]}, which were asked for")

    def look_at_floor(self, name: str, one: Barrier, opened: Reopening | None) -> None:
        """It never falls, and stands until the events are read that its claim holds it for."""
        at = name, one.generation
        before = self._floors.get(at, Floor(opened.floor_ms if opened else one.floor_ms, opened is None))
        who = f"epoch {one.epoch} of {one.generation} in {name}"
        if one.floor_ms < before.floor_ms:
            raise Anomaly(FELL, f"{who} has the floor {one.floor_ms} behind {before.floor_ms}")
        if one.floor_ms > before.floor_ms and not before.covers:
            raise Anomaly(FELL, f"{who} raises the floor from {before.floor_ms} to {one.floor_ms} too early")
        if one.horizon_ms > one.floor_ms:
            raise Anomaly(FELL, f"{who} has the horizon {one.horizon_ms} above its floor {one.floor_ms}")
        covers = before.covers or opened is None or one.source_cut.covers(opened.source_cut)
        self._floors[at] = Floor(one.floor_ms, covers)

    def _end_ms(self, name: bytes) -> int:
        return window_end_ms(self._book.by_name[name])

"""When a milestone has arrived: both of its cuts are contained in the copies. A fold over what is copied.

Milestones come as copied, in the order of their stream; positions as the slots commit them, in any order between
partitions. Arrivals are in order too. One milestone waits for its cuts; one that compaction overtook, or whose
translation nobody knows any more, is passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cutwater.core.chain import breaks, link
from cutwater.core.cuts import Cut, TopicPartition
from cutwater.core.errors import DivergenceError
from cutwater.core.generations import Generation
from cutwater.core.mirrored import Arrival, Mirrored
from cutwater.core.mirroring import Run, runs_of, translated
from cutwater.core.records import Milestone
from cutwater.core.restore import MARGIN_MS, Entry
from cutwater.core.topics import DELETE_RETENTION_MS

PENDING_MAX = 20_000
"""Milestones of a generation that wait; beyond it the oldest are passed over."""
RUNS_MAX = 50_000
"""Of a partition; a cut below the oldest that is kept is not translated any more."""


class _Copy:
    """One partition: its newest position, and where its newest records lie."""

    def __init__(self, position: Mirrored) -> None:
        self.position = position
        self.known_from = position.before
        """Cuts below it cannot be translated."""
        self.runs: deque[Run] = deque(runs_of(position), maxlen=RUNS_MAX)

    def precedes(self, position: Mirrored) -> bool:
        """Does this position go on where the last one ended? It does not after a new beginning."""
        return (position.before, position.topic_id) == (self.position.next, self.position.topic_id)

    def move(self, position: Mirrored) -> None:
        for run in runs_of(position):
            if len(self.runs) == RUNS_MAX:
                self.known_from = self.runs[0].source + self.runs[0].length
            self.runs.append(run)
        self.position = position

    def forget(self, cut: int) -> None:
        """Nobody asks below this cut any more."""
        while self.runs and self.runs[0].source + self.runs[0].length <= cut:
            self.runs.popleft()
        self.known_from = max(self.known_from, min(cut, self.position.next))


class Passed(NamedTuple):
    """A milestone that will have no arrival, and why."""

    milestone: Milestone
    reason: str


class _Wait(Exception):
    """Not yet."""


class _Overtaken(Exception):
    """Not this one any more; with the reason."""


class Ledger:
    """What is known of milestones and copies. `last`: the newest milestone that has arrived, if any."""

    def __init__(
        self,
        job: str,
        origin: str,
        target_of: Callable[[str], str],
        copied: Callable[[str], bool],
        last: Arrival | None = None,
        retention_ms: int = DELETE_RETENTION_MS,
    ) -> None:
        """`copied`: is this topic of the origin one that is copied? Others cannot be waited for."""
        self._job, self._origin = job, origin
        self._target_of = target_of
        self._copied = copied
        self._retention_ms = retention_ms
        self._copies: dict[TopicPartition, _Copy] = {}
        self._pending: dict[Generation, deque[Entry]] = {}
        """By generation, in the order in which the stream names them."""
        self._before: Entry | None = None
        self.arrived = last
        self.passed: list[Passed] = []
        """Passed over since somebody looked."""

    @property
    def pending(self) -> int:
        return sum(map(len, self._pending.values()))

    @property
    def newest(self) -> Milestone | None:
        """The newest milestone that is copied."""
        return self._before.milestone if self._before else None

    def position(self, place: TopicPartition) -> Mirrored | None:
        found = self._copies.get(place)
        return found.position if found else None

    def copies(self) -> list[Mirrored]:
        return [one.position for one in self._copies.values()]

    def copy_moved(self, position: Mirrored) -> None:
        """A position as its slot committed it."""
        place = TopicPartition(position.topic, position.partition)
        known = self._copies.get(place)
        if known is not None and known.precedes(position):
            known.move(position)
        else:
            self._copies[place] = _Copy(position)

    def copy_forgotten(self, place: TopicPartition) -> None:
        """Somebody has taken a position away: a new copy begins."""
        self._copies.pop(place, None)

    def milestone_copied(self, entry: Entry) -> None:
        """The next milestone of the copied stream. Raises DivergenceError where the chain is broken."""
        if self._before is not None and entry.offset <= self._before.offset:
            return
        pair = [one for one in (self._before, entry) if one is not None]
        for found in breaks((one.milestone, one.record) for one in pair):
            if found.sequence == entry.milestone.sequence:
                raise DivergenceError(
                    f"the stream copied from {self._origin} is broken at sequence {found.sequence}: "
                    f"{found.reason}. No arrival is announced. Find out what happened to the stream in the origin"
                )
        self._before = entry
        if self.arrived is not None and entry.milestone.sequence <= self.arrived.sequence:
            return
        queue = self._pending.setdefault(entry.milestone.generation, deque(maxlen=PENDING_MAX))
        if len(queue) == PENDING_MAX:
            self._pass(queue.popleft().milestone, f"more than {PENDING_MAX:,} milestones wait")
        queue.append(entry)

    def arrivals(self, now_ms: int) -> Iterator[Arrival]:
        """Those that have arrived; each counts as announced once it was handed out.

        A generation whose changelog is stopped may wait for ever: one behind it does not wait for it.
        """
        for number, queue in enumerate(list(self._pending.values())):
            while queue and (arrival := self._head(queue, now_ms)) is not None:
                for earlier in list(self._pending.values())[:number]:
                    self._pass_all(earlier, f"{arrival.token} has arrived before it")
                self.arrived = arrival
                yield arrival

    def _head(self, queue: deque[Entry], now_ms: int) -> Arrival | None:
        """The next arrival of a generation; None while its first milestone waits."""
        while queue:
            try:
                arrival = self._arrival(queue[0], now_ms)
            except _Wait:
                return None
            except _Overtaken as overtaken:
                self._pass(queue.popleft().milestone, str(overtaken))
                continue
            self._forget(queue.popleft().milestone)
            return arrival
        return None

    def _arrival(self, entry: Entry, now_ms: int) -> Arrival:
        milestone = entry.milestone
        source = self._local(milestone.source_cut, self._require_kept)
        young = now_ms - milestone.written_ms < self._retention_ms - MARGIN_MS
        changelog = self._local(
            milestone.changelog_cut, lambda copy, cut: self._require_whole(copy, cut, young, milestone)
        )
        return Arrival(
            job=self._job,
            origin=self._origin,
            generation=milestone.generation,
            sequence=milestone.sequence,
            milestone_hash=link(entry.record),
            stream_offset=entry.offset,
            source_cut=source,
            changelog_cut=changelog,
            watermark_ms=milestone.watermark_ms,
            committed_ms=milestone.committed_ms,
            arrived_ms=now_ms,
        )

    def _local(self, cut: Cut, require: Callable[[_Copy, int], None]) -> Cut:
        """A cut of the origin as one of the topics here."""
        found: dict[TopicPartition, int] = {}
        for place, offset in cut:
            if not self._copied(place.topic):
                continue
            copy = self._copies.get(place)
            if copy is None or offset > copy.position.next:
                raise _Wait
            require(copy, offset)
            if offset < copy.known_from:
                raise _Overtaken(
                    f"where offset {offset} of {place.topic}/{place.partition} lies here is not known any more"
                )
            here = TopicPartition(self._target_of(place.topic), place.partition)
            found[here] = translated(offset, copy.runs, copy.position.local)
        return Cut.of(found)

    def _require_kept(self, copy: _Copy, cut: int) -> None:
        at = copy.position
        if cut < at.first:
            raise _Overtaken(f"{at.topic}/{at.partition} is copied from offset {at.first} on; its cut is {cut}")

    def _require_whole(self, copy: _Copy, cut: int, young: bool, milestone: Milestone) -> None:
        at = copy.position
        if at.first and (cut < at.first or (cut == at.first and _own_rows(milestone, at.partition))):
            raise _Overtaken(
                f"below offset {at.first} {at.topic}/{at.partition} is the copy of a snapshot, in which nobody "
                "can tell the rows of this milestone from older ones"
            )
        if cut == at.ended:
            return
        if cut < at.whole_from or not young:
            raise _Overtaken(f"compaction may have taken values below offset {cut} of {at.topic}/{at.partition}")
        if cut > at.whole_to:
            raise _Wait

    def _forget(self, milestone: Milestone) -> None:
        for cut in (milestone.source_cut, milestone.changelog_cut):
            for place, offset in cut:
                if place in self._copies:
                    self._copies[place].forget(offset)

    def _pass_all(self, queue: deque[Entry], reason: str) -> None:
        while queue:
            self._pass(queue.popleft().milestone, reason)

    def _pass(self, milestone: Milestone, reason: str) -> None:
        self.passed.append(Passed(milestone, reason))


def _own_rows(milestone: Milestone, partition: int) -> int:
    """How many rows its own epoch wrote to a partition; of an older version's milestone those of all."""
    rows = milestone.partition_rows
    return rows[partition] if partition < len(rows) else milestone.rows

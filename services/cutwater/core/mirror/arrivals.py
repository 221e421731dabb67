"""Arrivals of milestones, as a fold: a milestone has arrived if the copies contain both its cuts.

Milestones are added in the order of their stream, positions in any order between partitions. Arrivals are in
order. A milestone waits for its cuts; it is skipped if compaction overtook it or its cuts can no longer be
translated.

Both regions compact. The position that passed a cut shows whether the origin's compaction had removed values. For
compaction here this is checked at the arrival, as rows may be here long before the events: a value is removed only
for a later record that has been here for the lag of the copies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cutwater.core.errors import DivergenceError
from cutwater.core.mirror.copy_progress import runs_of, translated
from cutwater.core.mirror.offset_map import OffsetMap
from cutwater.core.protocol.chain import find_chain_faults, link
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.leader_epochs import Leaders, Match
from cutwater.core.protocol.log_evidence import UNKNOWN, Evidence
from cutwater.core.protocol.mirror_records import Arrival, Mirrored
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.topics import DELETE_RETENTION_MS, MIN_COMPACTION_LAG_MS
from cutwater.core.state.backlog import MARGIN_MS, Entry

PENDING_MAX = 20_000
"""Waiting milestones of a generation; beyond it the oldest are skipped."""


class _Copy:
    """One partition: its newest position and the offset map of its newest records."""

    def __init__(self, position: Mirrored) -> None:
        self.position = position
        self.places = OffsetMap(position.before)
        self.places.add(runs_of(position), position.at_ms)
        self.leaders = Leaders(position.first, position.led)

    def precedes(self, position: Mirrored) -> bool:
        """Return whether this position continues the last one; false after a resync."""
        return (position.before, position.topic_id) == (self.position.next, self.position.topic_id)

    def move(self, position: Mirrored) -> None:
        self.places.add(runs_of(position), position.at_ms)
        self.leaders.add(position.led)
        self.position = position

    def forget(self, cut: int) -> None:
        """Forget everything below this cut."""
        self.places.forget(min(cut, self.position.next))

    def local(self, cut: int) -> int:
        """Return the local offset of a cut."""
        above = self.places.above(cut)
        return translated(cut, (above.run,) if above else (), self.position.local)


class Passed(NamedTuple):
    """A milestone that will have no arrival, with the reason."""

    milestone: Milestone
    reason: str


class _Held(NamedTuple):
    """A partition's copy that contains a cut."""

    place: TopicPartition
    copy: _Copy
    cut: int


class _Wait(Exception):
    """The milestone has not arrived yet."""


class _Overtaken(Exception):
    """The milestone can never arrive; with the reason."""


class ArrivalTracker:
    """The known milestones and copies. `last`: the newest arrival, if any."""

    def __init__(
        self,
        job: str,
        origin: str,
        target_of: Callable[[str], str],
        copied: Callable[[str], bool],
        last: Arrival | None = None,
        retention_ms: int = DELETE_RETENTION_MS,
        lag_ms: int = MIN_COMPACTION_LAG_MS,
    ) -> None:
        """`copied`: returns whether a topic of the origin is copied; others are not waited for. `lag_ms`: the
        compaction lag of changelogs here. No copy has less, and readers rely on the same."""
        self._job, self._origin = job, origin
        self._target_of = target_of
        self._copied = copied
        self._retention_ms, self._lag_ms = retention_ms, lag_ms
        self._copies: dict[TopicPartition, _Copy] = {}
        self._pending: dict[Generation, deque[Entry]] = {}
        """By generation, in the order of the stream."""
        self._before: Entry | None = None
        self._asked = False
        self._heard_ms = 0
        """The time up to which all records of the copies are known here."""
        self.arrived = last
        self.passed: list[Passed] = []
        """Skipped since the caller last cleared the list."""

    @property
    def pending(self) -> int:
        return sum(map(len, self._pending.values()))

    @property
    def newest(self) -> Milestone | None:
        """The newest copied milestone."""
        return self._before.milestone if self._before else None

    def position(self, place: TopicPartition) -> Mirrored | None:
        found = self._copies.get(place)
        return found.position if found else None

    def copies(self) -> list[Mirrored]:
        return [one.position for one in self._copies.values()]

    def copy_moved(self, position: Mirrored) -> None:
        """Add a committed position; positions of all slots are in the order of their log."""
        self._heard_ms = max(self._heard_ms, position.at_ms)
        place = TopicPartition(position.topic, position.partition)
        known = self._copies.get(place)
        if known is not None and known.precedes(position):
            known.move(position)
        else:
            self._copies[place] = _Copy(position)

    def copy_forgotten(self, place: TopicPartition) -> None:
        """Forget a copy whose position was deleted: a new copy starts."""
        self._copies.pop(place, None)

    def milestone_copied(self, entry: Entry) -> None:
        """Add the next milestone of the copied stream. Raises DivergenceError if the chain is broken."""
        if self._before is not None and entry.offset <= self._before.offset:
            return
        pair = [one for one in (self._before, entry) if one is not None]
        for found in find_chain_faults((one.milestone, one.record) for one in pair):
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
        """Yield new arrivals; each counts as announced once it is yielded.

        Call it only after all positions present at the start were added. A generation whose changelog copy is
        stopped may wait for ever: later generations do not wait for it.
        """
        if not self._asked:
            self._asked, self._heard_ms = True, max(self._heard_ms, now_ms)
        for number, queue in enumerate(list(self._pending.values())):
            while queue and (arrival := self._head(queue, now_ms)) is not None:
                for earlier in list(self._pending.values())[:number]:
                    self._pass_all(earlier, f"{arrival.token} has arrived before it")
                self.arrived = arrival
                yield arrival

    def _head(self, queue: deque[Entry], now_ms: int) -> Arrival | None:
        """Return the next arrival of a generation; None while its first milestone waits."""
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
        told = milestone.evidence
        events = self._copies_of(milestone.source_cut, told, self._require_kept)
        young = now_ms - milestone.written_ms < self._retention_ms - MARGIN_MS
        rows = self._copies_of(
            milestone.changelog_cut, told, lambda copy, cut: self._require_whole(copy, cut, young, milestone)
        )
        # Last, since it searches the whole offset map, and a milestone may wait for long.
        for one in rows:
            self._require_spared(one, now_ms)
        return Arrival(
            job=self._job,
            origin=self._origin,
            generation=milestone.generation,
            sequence=milestone.sequence,
            milestone_hash=link(entry.record),
            stream_offset=entry.offset,
            source_cut=self._here(events),
            changelog_cut=self._here(rows),
            watermark_ms=milestone.watermark_ms,
            committed_ms=milestone.committed_ms,
            arrived_ms=now_ms,
        )

    def _copies_of(self, cut: Cut, told: Evidence, require: Callable[[_Copy, int], None]) -> list[_Held]:
        """Return the copies of a cut's partitions. Each is past the cut, of the same log, and can translate it."""
        evidence = {one.topic: one for one in told}
        found: list[_Held] = []
        for place, offset in cut:
            if not self._copied(place.topic):
                continue
            copy = self._copies.get(place)
            about = evidence.get(place.topic)
            if copy and about and about.topic_id and about.topic_id != copy.position.topic_id:
                raise _Overtaken(f"{place.topic} was recreated in the origin: the copy is of another topic")
            if copy is None or offset > copy.position.next:
                raise _Wait
            self._require_led(copy, offset, about.leader_epoch(place.partition) if about else UNKNOWN)
            require(copy, offset)
            if offset < copy.places.known_from:
                raise _Overtaken(
                    f"offset {offset} of {place.topic}/{place.partition} can no longer be translated here"
                )
            found.append(_Held(place, copy, offset))
        return found

    def _here(self, held: list[_Held]) -> Cut:
        """Translate a cut of the origin to the topics here."""
        places = {one.place: one.copy.local(one.cut) for one in held}
        return Cut.of({TopicPartition(self._target_of(at.topic), at.partition): to for at, to in places.items()})

    def _require_led(self, copy: _Copy, cut: int, epoch: int) -> None:
        """Require that the copy below the cut is what this leader had; it differs if the origin lost records."""
        at, match = copy.position, copy.leaders.match(cut, epoch)
        if match is Match.NO:
            raise _Overtaken(
                f"the origin has lost records of {at.topic}/{at.partition} below {cut} that the milestone counted"
            )
        if match is Match.FORGOTTEN:
            raise _Overtaken(f"{at.topic}/{at.partition} below offset {cut}: {match.value}")
        if at.leader < epoch:
            raise _Wait  # a newer leader, not checked yet for the same records

    def _require_kept(self, copy: _Copy, cut: int) -> None:
        at = copy.position
        if cut < at.first:
            raise _Overtaken(f"{at.topic}/{at.partition} is copied from offset {at.first}; its cut is {cut}")

    def _require_whole(self, copy: _Copy, cut: int, young: bool, milestone: Milestone) -> None:
        at = copy.position
        if at.first and (cut < at.first or (cut == at.first and _own_rows(milestone, at.partition))):
            raise _Overtaken(
                f"below offset {at.first} {at.topic}/{at.partition} is the copy of a snapshot, in which the rows "
                "of this milestone cannot be distinguished from older ones"
            )
        if cut == at.ended:
            return
        if cut < at.whole_from or not young:
            raise _Overtaken(f"compaction may have removed values below offset {cut} of {at.topic}/{at.partition}")
        if cut > at.whole_to:
            raise _Wait

    def _require_spared(self, held: _Held, now_ms: int) -> None:
        """Require that the first record after the cut is too young for compaction here, or that there is none.
        Raises _Wait if "none" is outdated: after a long pause the copies must be read first."""
        above = held.copy.places.above(held.cut)
        since_ms = self._heard_ms if above is None else above.at_ms
        if now_ms - since_ms < self._lag_ms - MARGIN_MS:
            return
        if above is None:
            raise _Wait
        raise _Overtaken(
            f"compaction here may have removed values below offset {held.cut} of "
            f"{held.place.topic}/{held.place.partition}: the events arrived too long after the rows"
        )

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
    """Return the rows that its epoch wrote to a partition; for an older version's milestone, to all partitions."""
    rows = milestone.partition_rows
    return rows[partition] if partition < len(rows) else milestone.rows

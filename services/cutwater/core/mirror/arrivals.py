"""When a milestone has arrived: both of its cuts are contained in the copies. A fold over what is copied.

Milestones come as copied, in the order of their stream; positions as the slots commit them, in any order between
partitions. Arrivals are in order too. One milestone waits for its cuts; one that compaction overtook, or whose
translation nobody knows any more, is passed over.

Compaction goes on in both regions. What the origin's had taken is decided by the position that passed a cut. What
the one here has taken is decided at the arrival: the rows may be there long before the events. It takes a value
only for the sake of a later record that has stood here for the lag of the copies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cutwater.core.errors import DivergenceError
from cutwater.core.mirror.copy_progress import runs_of, translated
from cutwater.core.mirror.offset_map import Places
from cutwater.core.protocol.chain import breaks, link
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.leader_epochs import Leaders, Match
from cutwater.core.protocol.log_evidence import UNKNOWN, Evidence
from cutwater.core.protocol.mirror_records import Arrival, Mirrored
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.topics import DELETE_RETENTION_MS, MIN_COMPACTION_LAG_MS
from cutwater.core.state.backlog import MARGIN_MS, Entry

PENDING_MAX = 20_000
"""Milestones of a generation that wait; beyond it the oldest are passed over."""


class _Copy:
    """One partition: its newest position, and where its newest records lie."""

    def __init__(self, position: Mirrored) -> None:
        self.position = position
        self.places = Places(position.before)
        self.places.add(runs_of(position), position.at_ms)
        self.leaders = Leaders(position.first, position.led)

    def precedes(self, position: Mirrored) -> bool:
        """Does this position go on where the last one ended? It does not after a new beginning."""
        return (position.before, position.topic_id) == (self.position.next, self.position.topic_id)

    def move(self, position: Mirrored) -> None:
        self.places.add(runs_of(position), position.at_ms)
        self.leaders.add(position.led)
        self.position = position

    def forget(self, cut: int) -> None:
        """Nobody asks below this cut any more."""
        self.places.forget(min(cut, self.position.next))

    def local(self, cut: int) -> int:
        """Where a cut lies here."""
        above = self.places.above(cut)
        return translated(cut, (above.run,) if above else (), self.position.local)


class Passed(NamedTuple):
    """A milestone that will have no arrival, and why."""

    milestone: Milestone
    reason: str


class _Held(NamedTuple):
    """A partition's copy that contains a cut."""

    place: TopicPartition
    copy: _Copy
    cut: int


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
        lag_ms: int = MIN_COMPACTION_LAG_MS,
    ) -> None:
        """`copied`: is this topic of the origin one that is copied? Others cannot be waited for.

        `lag_ms`: of the compaction of changelogs here. No copy has less, and readers go by the same.
        """
        self._job, self._origin = job, origin
        self._target_of = target_of
        self._copied = copied
        self._retention_ms, self._lag_ms = retention_ms, lag_ms
        self._copies: dict[TopicPartition, _Copy] = {}
        self._pending: dict[Generation, deque[Entry]] = {}
        """By generation, in the order in which the stream names them."""
        self._before: Entry | None = None
        self._asked = False
        self._heard_ms = 0
        """What the copies have written up to then is known here."""
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
        """A position as its slot committed it. They come in the order of their log, of all slots."""
        self._heard_ms = max(self._heard_ms, position.at_ms)
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

        To be asked once all positions have come that stand there at the start. A generation whose changelog is
        stopped may wait for ever: one behind it does not wait for it.
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
        told = milestone.evidence
        events = self._held(milestone.source_cut, told, self._require_kept)
        young = now_ms - milestone.written_ms < self._retention_ms - MARGIN_MS
        rows = self._held(
            milestone.changelog_cut, told, lambda copy, cut: self._require_whole(copy, cut, young, milestone)
        )
        # Last: where a cut lies is looked for in all that is kept, and a milestone may wait for long.
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

    def _held(self, cut: Cut, told: Evidence, require: Callable[[_Copy, int], None]) -> list[_Held]:
        """The copies of what a cut names: each is past it, of the same log, and knows where it lies here."""
        evidence = {one.topic: one for one in told}
        found: list[_Held] = []
        for place, offset in cut:
            if not self._copied(place.topic):
                continue
            copy = self._copies.get(place)
            about = evidence.get(place.topic)
            if copy and about and about.topic_id and about.topic_id != copy.position.topic_id:
                raise _Overtaken(f"{place.topic} was made anew in the origin: the copy is of another topic")
            if copy is None or offset > copy.position.next:
                raise _Wait
            self._require_led(copy, offset, about.leader_epoch(place.partition) if about else UNKNOWN)
            require(copy, offset)
            if offset < copy.places.known_from:
                raise _Overtaken(
                    f"where offset {offset} of {place.topic}/{place.partition} lies here is not known any more"
                )
            found.append(_Held(place, copy, offset))
        return found

    def _here(self, held: list[_Held]) -> Cut:
        """A cut of the origin as one of the topics here."""
        places = {one.place: one.copy.local(one.cut) for one in held}
        return Cut.of({TopicPartition(self._target_of(at.topic), at.partition): to for at, to in places.items()})

    def _require_led(self, copy: _Copy, cut: int, epoch: int) -> None:
        """Is what stands below the cut what this leader had there? What the origin has lost makes them differ."""
        at, match = copy.position, copy.leaders.match(cut, epoch)
        if match is Match.NO:
            raise _Overtaken(
                f"the origin has lost what the milestone has counted of {at.topic}/{at.partition} below {cut}"
            )
        if match is Match.FORGOTTEN:
            raise _Overtaken(f"{at.topic}/{at.partition} below offset {cut}: {match.value}")
        if at.leader < epoch:
            raise _Wait  # it has another leader since, which was not asked yet whether it holds the same

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

    def _require_spared(self, held: _Held, now_ms: int) -> None:
        """Is what follows the cut too young for compaction here? Where nothing follows it, nothing was taken.

        Raises _Wait where that nothing is old news: who has stood still for a day reads on first.
        """
        above = held.copy.places.above(held.cut)
        since_ms = self._heard_ms if above is None else above.at_ms
        if now_ms - since_ms < self._lag_ms - MARGIN_MS:
            return
        if above is None:
            raise _Wait
        raise _Overtaken(
            f"compaction here may have taken values below offset {held.cut} of "
            f"{held.place.topic}/{held.place.partition}: the events came too long after the rows"
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
    """How many rows its own epoch wrote to a partition; of an older version's milestone those of all."""
    rows = milestone.partition_rows
    return rows[partition] if partition < len(rows) else milestone.rows

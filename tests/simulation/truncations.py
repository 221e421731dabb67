"""Tails that regions' logs have lost: who may stop because of one, and what can be asked of nobody any more.

Whatever is lost, nothing wrong may be shown, announced, or gone on from. That is asked of every history. Where
nothing is lost nobody may stop; here everybody may who reads what has lost its tail, and somebody must.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation
from simulation.job import JOB
from simulation.log import Place, Record, Transaction
from simulation.processes import Process
from simulation.regional import Region

KINDS = ("source", "changelog", "stream", "copies", "notes", "lists")
"""Of topics: a region's own events, the rows of its generations, its commit stream; what it copied; what its
services note for themselves; what came too late."""


class Below(NamedTuple):
    """What was lost below something that stands: who must say so."""

    slot: str
    text: str


class Losses:
    """Of one history."""

    def __init__(self, by_name: Mapping[str, Region]) -> None:
        self._by_name = by_name
        self._alive: dict[tuple[str, Place], set[Process]] = defaultdict(set)
        """Who ran when a place lost its tail: he may have looked just before."""
        self._first: dict[Process, Transaction | None] = {}
        """What each of them has written next."""
        self.below: list[Below] = []
        self._forgiven: dict[str, list[str]] = {}

    def __bool__(self) -> bool:
        return any(one.log.cut for one in self._by_name.values())

    def places(self, name: str, kind: str) -> list[Place]:
        """Where a region can lose something, of a kind."""
        log = self._by_name[name].log
        own = {
            "source": [JOB.topic],
            "changelog": [one for one in log.topics if one.startswith(topics.changelog_prefix(JOB.name))],
            "stream": [topics.milestones(JOB.name)],
            "lists": [topics.late(JOB.name)],
            "notes": [topics.barriers(JOB.name), mirror_records.positions(JOB.name), topics.candidates(JOB.name)],
        }
        if kind == "copies":
            found = [one for one in log.topics if one.endswith(tuple(f".from-{each}" for each in self._by_name))]
        else:
            found = own[kind]
        ends = [((one, number), each.end) for one in found for number, each in enumerate(log.topics.get(one, ()))]
        return [place for place, end in ends if end]

    def lose(self, name: str, place: Place, records: int, running: Iterable[Process]) -> int:
        """Take the last records of a partition; how many there were."""
        log = self._by_name[name].log
        partition = log.topics[place[0]][place[1]]
        lost = log.lose_tail(place, max(partition.first, partition.end - records))
        self._alive[name, place] |= set(running)
        return lost

    def lose_topic(self, name: str, topic: str, running: Iterable[Process]) -> None:
        """Somebody deletes a topic, and makes another one of its name."""
        log = self._by_name[name].log
        log.lose_topic(topic)
        for number in range(len(log.topics[topic])):
            self._alive[name, (topic, number)] |= set(running)

    def lost(self, name: str, topic: str) -> bool:
        """Has any partition of it lost its tail?"""
        return any(one == topic for one, _ in self._by_name[name].log.cut)

    def any_of(self, name: str, places: Iterable[TopicPartition]) -> bool:
        return any((one.topic, one.partition) in self._by_name[name].log.cut for one in places)

    def unaware(self, record: Record, name: str, places: Iterable[TopicPartition]) -> bool:
        """May who has written this have looked at these places before they lost their tail?"""
        owner = record.transaction.owner if record.transaction else None
        if not isinstance(owner, Process):
            return False
        ran = [one for one in places if owner in self._alive.get((name, (one.topic, one.partition)), ())]
        if not ran:
            return False
        cut = max(self._by_name[name].log.cut[one.topic, one.partition] for one in ran)
        if record.serial <= cut:
            return True
        first = self._first.setdefault(owner, record.transaction)
        return first is record.transaction

    def may_stop(self, error: CutwaterError) -> bool:
        """May somebody stop so, since something is lost? What a mended broker helps with is asked for again."""
        return bool(self) and (not isinstance(error, UnavailableError) or "a transaction is open" in str(error))

    def forgive(self) -> None:
        """What was said until now may have been decided before."""
        self._forgiven = {name: self._said(name) for name in self._by_name}

    def untold(self, stopped: Mapping[str, str]) -> list[Below]:
        """What somebody was told to say, and did not: he has written more since."""
        said = {name: self._said(name)[len(self._forgiven[name]) :] for name in self._forgiven}
        goes_on = {slot for slots in said.values() for slot in slots}
        return [one for one in self.below if one.slot in goes_on and one.slot not in stopped]

    def _said(self, name: str) -> list[str]:
        """Who wrote each signal of a driver."""
        records = self._by_name[name].log.kept[topics.barriers(JOB.name), 0]
        return [getattr(one.transaction.owner, "slot", "") if one.transaction else "" for one in records]

    def must_say(self, name: str, generation: Generation, place: Place, cut: int, what: str) -> None:
        end = self._by_name[name].log.topics[place[0]][place[1]].end
        if cut > end:
            text = f"{place[0]}/{place[1]} ends at {end} below the cut {cut} of {what}"
            self.below.append(Below(f"driver {name} {generation}", text))

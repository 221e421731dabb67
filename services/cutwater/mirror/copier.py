"""Copies the topics of the origin: all of them a piece at a time, each slot in a transaction of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cutwater.adapters import replicas
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.ends import Ends
from cutwater.adapters.fetching import Fetcher
from cutwater.adapters.identities import Identity
from cutwater.adapters.kafka import TIMEOUT_S
from cutwater.core import mirrored, topics
from cutwater.core.cuts import TopicPartition
from cutwater.core.errors import CutwaterError, ProtocolError, UnavailableError, UsageError
from cutwater.core.mirror_gaps import ANEW, GONE, LOST, PARTITIONS, REFUSED, Gap, in_copy, in_log, in_origin
from cutwater.core.mirrored import SLOTS, Mirrored, slot_of
from cutwater.core.mirroring import Place, Read, begun
from cutwater.core.replication import UNREPLICATED, Replication
from cutwater.mirror.followed import Followed, Taken, gathered
from cutwater.mirror.metrics import Metrics
from cutwater.mirror.origin import Origin, copy_of, ensure, is_empty, lag_ms
from cutwater.mirror.slot import Slot

RECORDS = 8_000
BYTES = 16 << 20
"""Records and their bytes that one round gathers, about: one piece of each partition may come on top."""
LOOK_S = 1.0
"""How often the identity of quiet topics is asked."""
WRITE_S = 6 * TIMEOUT_S
"""A transaction's own time-outs end before."""


class _Stop(Exception):
    """A topic cannot be copied on."""

    def __init__(self, gap: Gap) -> None:
        super().__init__(gap.text)
        self.gap = gap


class Copier:
    """Copies the partitions of the slots that this process holds."""

    def __init__(
        self,
        own: Cluster,
        origin: Origin,
        job: str,
        region: str,
        now_ms: Callable[[], int],
        log: Any,
        metrics: Metrics,
        slots: Iterable[int] = range(SLOTS),
        replication: Replication = UNREPLICATED,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`region`: the origin's name. `clock_s` never goes back."""
        self._clock_s, self._looked_s = clock_s, clock_s()
        self._own, self._origin = own, origin
        self._job, self._region = job, region
        self._now_ms, self._log, self._metrics = now_ms, log, metrics
        self._replication = replication
        self._ends = Ends(own)
        self._slots = {one: Slot(own, job, region, one, self._ends, now_ms) for one in slots}
        self._followed: dict[str, Followed] = {}
        self._known: dict[TopicPartition, Mirrored] = {}
        self._pool = ThreadPoolExecutor(len(self._slots), "slot")
        self.stopped: dict[str, Gap] = {}
        """Topics that stand still, and why."""
        self.ready = False
        """Are the slots this process's own?"""

    def open(self) -> set[str]:
        """Fence older owners of the slots, then read how far they came; the topics that they copied."""
        for slot in self._slots.values():
            slot.open()
        self._known = self._positions()
        self.ready = True
        return {place.topic for place in self._known}

    def close(self) -> None:
        for one in self._followed.values():
            one.fetcher.close()
        self._pool.shutdown(cancel_futures=True)

    def follow(self, topic: str) -> None:
        """Copy a topic of the origin too. Where it cannot be copied without a gap, it is among `stopped`.

        While brokers do not answer nothing changes: ask again.
        """
        if topic in self._followed or topic in self.stopped:
            return
        try:
            one = self._begin(topic)
        except _Stop as stop:
            self.stop(topic, stop.gap)
            return
        except UnavailableError as error:
            self._log.warning("waiting", topic=topic, reason=str(error))
            return
        if one.positions:
            one.begin()
        self._followed[topic] = one
        self._log.info("copying", topic=topic, to=one.target, partitions=sorted(one.positions))

    def round(self, wait_s: float) -> int:
        """Copy what has come, waiting up to so long for something; how many bytes that were.

        Raises FencedError where another mirror has taken a slot over, and as `Slot.write` does.
        """
        taken = self._gather(wait_s)
        try:
            self._require_same(self._due() | {one.followed.name for one in taken.values() if one.records})
        except UnavailableError as error:
            # What was read is not proved to be of the topic that is followed: read it again.
            self._log.warning("waiting", reason=str(error), brokers=self._origin.cluster.bootstrap)
            for one in self._followed.values():
                one.begin()
            return 0
        pieces = [one for one in taken.values() if one.followed.name in self._followed]
        by_slot = {slot: [one for one in pieces if self._slot(one) == slot] for slot in self._slots}
        running = [self._pool.submit(self._slots[slot].write, some) for slot, some in by_slot.items() if some]
        failures = [failure for one in running if (failure := one.exception(WRITE_S)) is not None]
        if failures:
            raise failures[0]
        for piece in pieces:
            self._metrics.copied(piece)
        return _size(_read(pieces))

    def _slot(self, one: Taken) -> int:
        return slot_of(one.followed.name, one.partition)

    def _gather(self, wait_s: float) -> dict[TopicPartition, Taken]:
        taken: dict[TopicPartition, Taken] = {}
        followed = [one for one in self._followed.values() if one.positions]
        wait_s = wait_s / max(1, len(followed))
        while True:
            before = len(_read(taken.values()))
            for one in followed:
                if one.name in self._followed:
                    self._take(one, wait_s if not taken else 0.0, taken)
            read = _read(taken.values())
            if not before < len(read) < RECORDS or _size(read) > BYTES:
                return taken

    def _take(self, one: Followed, wait_s: float, taken: dict[TopicPartition, Taken]) -> None:
        try:
            gathered(one, one.fetcher.take(wait_s), taken)
        except (ProtocolError, UsageError, UnavailableError) as error:
            if (gap := self._gap(one, error)) is None:
                self._log.warning("reading again", topic=one.name, reason=str(error))
                one.begin()
            else:
                self.stop(one.name, gap)
        for place in [at for at, part in taken.items() if part.followed.name in self.stopped]:
            del taken[place]

    def _gap(self, one: Followed, error: CutwaterError) -> Gap | None:
        """Why a topic cannot be read on; None where asking again may help."""
        if isinstance(error, UsageError):
            return Gap(REFUSED, str(error))
        try:
            found = self._origin.identities([one.name]).get(one.name)
            if found is None:
                return Gap(GONE, f"{one.name} does not exist in {self._region} any more")
            gap = in_origin(one.name, *found, one.positions.values(), one.partitions)
            kept = self._origin.kept(one.name, one.positions)
        except CutwaterError:
            return None  # its brokers are away, or it goes right now: the next look finds out
        gap = gap or in_log(one.name, one.positions, one.positions, kept, from_zero=False)
        return gap or (Gap(LOST, str(error)) if isinstance(error, ProtocolError) else None)

    def _due(self) -> set[str]:
        """Topics to be looked at though nothing came: all, once in a while. New partitions are not read."""
        if self._clock_s() - self._looked_s < LOOK_S:
            return set()
        self._looked_s = self._clock_s()
        return set(self._followed)

    def _require_same(self, names: set[str]) -> None:
        """What was read is of the topics that are followed, and of no others of their names: asked afterwards."""
        found = self._origin.identities(names)
        for name in names:
            one, now = self._followed[name], found.get(name)
            if now is None:
                self.stop(name, Gap(GONE, f"{name} does not exist in {self._region} any more"))
            elif now != Identity(one.topic_id, one.partitions):
                gap = in_origin(name, *now, one.positions.values(), one.partitions)
                self.stop(name, gap or Gap(ANEW if now.topic_id != one.topic_id else PARTITIONS, str(now)))

    def stop(self, topic: str, gap: Gap) -> None:
        """Copy nothing more of a topic; the others go on."""
        one = self._followed.pop(topic, None)
        if one is not None:
            one.fetcher.close()
        self.stopped[topic] = gap
        self._metrics.stopped(topic, gap.cause)
        self._log.error("stopped", topic=topic, cause=gap.cause, reason=gap.text)

    def _begin(self, topic: str) -> Followed:
        """Look at a topic in both clusters; raises _Stop."""
        found, identity = self._origin.described(topic), self._origin.identities([topic]).get(topic)
        if found is None or identity is None:
            raise _Stop(Gap(GONE, f"{topic} does not exist in {self._region}"))
        changelog = topic.startswith(topics.changelog_prefix(self._job))
        held = [one for one in range(identity.partitions) if slot_of(topic, one) in self._slots]
        positions = {place.partition: one for place, one in self._known.items() if place.topic == topic}
        target = mirrored.target(self._job, topic, self._region)
        try:
            here = ensure(self._own, copy_of(found, target, self._job), self._replication)
        except UsageError as error:
            raise _Stop(Gap(REFUSED, str(error))) from None
        self._require(in_origin(topic, *identity, positions.values(), here))
        kept = self._origin.kept(topic, held)
        self._require(in_log(topic, positions, held, kept, from_zero=changelog))
        bases = self._ends.of(target, here)
        for partition in held:
            known = positions.get(partition)
            empty = known is not None or is_empty(self._own, target, partition)
            self._require(in_copy(target, known, partition, bases[partition], empty))
        return Followed(
            name=topic,
            target=target,
            topic_id=identity.topic_id,
            partitions=identity.partitions,
            lag_ms=lag_ms(found),
            plain=topic == topics.milestones(self._job),
            positions={
                one: positions.get(one) or self._first(Place(topic, one, *identity), kept[one][0], bases[one])
                for one in held
            },
            bases=bases,
            fetcher=self._origin.cluster.reader(Fetcher, topic),
        )

    def _first(self, place: Place, first: int, base: int) -> Mirrored:
        return begun(self._job, self._region, place, first, base, self._now_ms())

    def _require(self, gap: Gap | None) -> None:
        if gap is not None:
            raise _Stop(gap)

    def _positions(self) -> dict[TopicPartition, Mirrored]:
        """The newest of each partition of this origin that this process holds."""
        found = replicas.positions(self._own, self._job).copies.get(self._region, {})
        return {place: one for place, one in found.items() if slot_of(*place) in self._slots}


def _read(taken: Iterable[Taken]) -> list[Read]:
    return [read for one in taken for read in one.read]


def _size(read: Iterable[Read]) -> int:
    return sum(one.size for one in read)

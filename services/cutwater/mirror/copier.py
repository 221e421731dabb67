"""Copies the topics of the origin: all of them a piece at a time, each slot in a transaction of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from cutwater.adapters.fetch.record_batches import Chunk
from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.copy_writer import NotTakenError
from cutwater.adapters.kafka.offsets import Ends
from cutwater.adapters.topics import mirror_topics
from cutwater.core.checks.replication import UNREPLICATED, Replication
from cutwater.core.errors import (
    CutwaterError,
    DivergenceError,
    FencedError,
    ProtocolError,
    UnavailableError,
    UsageError,
)
from cutwater.core.generations.retention import left_behind
from cutwater.core.mirror.gaps import GONE, REFUSED, Gap
from cutwater.core.mirror.resync_guard import require_settled
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import SLOTS, Mirrored, slot_of
from cutwater.core.util.log_throttle import Rarely
from cutwater.mirror.metrics import Metrics
from cutwater.mirror.slot import Slot
from cutwater.mirror.topics.config_sync import TakingOver
from cutwater.mirror.topics.origin import Origin
from cutwater.mirror.topics.preflight import AbsentError, Looking, Stop
from cutwater.mirror.topics.topic_copy import Followed, Taken, forget, gathered, outgrown
from cutwater.mirror.topics.topic_watch import Watch

RECORDS = 8_000
BYTES = 16 << 20
"""Records and their bytes that one round gathers, about: a piece may come on top."""
WAIT_S = 0.02
"""Between two looks at what is written, or has come: an arrival is late by so much."""
WRITE_S = 6 * TIMEOUT_S
"""A transaction's own time-outs end before."""
JUDGE_S = 1.0
"""So long one answer counts of why a topic cannot be read: meanwhile the others are copied on."""


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
        kept: Collection[str] = (),
        unreadable: Callable[[Sequence[Taken]], Mapping[str, Gap]] = lambda _: {},
    ) -> None:
        """`region`: the origin's name. `clock_s` never goes back. `kept`: topic settings of this region's own.

        `unreadable`: topics of which nothing may be written, as it would be read wrong here; asked with all that
        is to be written.
        """
        self._own, self._origin = own, origin
        self._job, self._region = job, region
        self._log, self._metrics = log, metrics
        # Each asks by itself: an `Ends` answers one question at a time, and a transaction waits for this one.
        self._slots = {one: Slot(own, job, region, one, Ends(own), now_ms) for one in slots}
        self._settings = TakingOver(own, origin, job, region, log, metrics, kept, clock_s)
        looks = (own, origin, job, region, now_ms, self._slots.keys(), self._settings)
        self._looking = Looking(*looks, replication, clock_s)
        self._watch = Watch(origin, region, self._left, log, clock_s)
        self._unreadable = unreadable
        self._rarely, self._judged, self._clock_s = Rarely(), Rarely(JUDGE_S), clock_s
        self._followed: dict[str, Followed] = {}
        self._grown: dict[str, int] = {}
        """Topics that were looked at again for a large record, and the bytes of the largest such."""
        self._pool = ThreadPoolExecutor(len(self._slots), "slot")
        self._turn = 0
        self.stopped: dict[str, Gap] = {}
        """Topics that stand still, and why."""
        self.dropped: set[str] = set()
        """Changelogs that the origin has removed, of generations that it had left: nothing of them is to come."""
        self.promoted: Generation | None = None
        """The newest generation that the copied stream names."""
        self.ready = False
        """Are the slots this process's own?"""

    def open(self) -> set[str]:
        """Fence older owners of the slots, then read how far they came; the topics that they copied.

        Raises UnavailableError while a copy of the origin is begun anew.
        """
        for slot in self._slots.values():
            slot.open()
        self._looking.known = self._positions()
        self.ready = True
        return {place.topic for place in self._looking.known}

    def require_own(self) -> None:
        """Raise FencedError where another mirror has taken one of the slots over."""
        list(self._pool.map(Slot.require_own, self._slots.values()))  # at once: each may take seconds

    def close(self) -> None:
        for one in self._followed.values():
            one.fetcher.close()
        self._pool.shutdown(cancel_futures=True)

    def follow(self, topic: str) -> None:
        """Copy a topic of the origin too. Where it cannot be copied without a gap, it is among `stopped`.

        It is looked at meanwhile, and again while brokers do not answer: say so each round.
        """
        if topic in self.stopped and self.stopped[topic].cause == GONE and self._left(topic):
            self._drop(topic)  # the stream did not say so yet
        if topic in self._followed or topic in self.stopped or topic in self.dropped:
            return
        try:
            one = self._looking.found(topic)
        except Stop as stop:
            self.stop(topic, stop.gap)
            return
        except UnavailableError as error:
            if not (isinstance(error, AbsentError) and self._left(topic)):
                self._log.warning("waiting", topic=topic, reason=str(error))
            return
        if one is None:
            return
        if one.positions:
            one.begin()
        self._followed[topic] = one
        self._log.info("copying", topic=topic, to=one.target, partitions=sorted(one.positions))

    def looked(self, timeout_s: float) -> None:
        """Wait until the looks that are under way have ended, or so long."""
        self._looking.wait(timeout_s)

    @property
    def busy(self) -> bool:
        """Is there anything to copy from? Without it a round waits for nothing."""
        return any(one.positions for one in self._followed.values())

    def look(self) -> None:
        """At the settings of what is followed, where it is time; in a pause, too. Waits for nothing."""
        self._settings.look(self._followed)

    def round(self, wait_s: float, bytes_max: int = BYTES, meanwhile: Callable[[], None] = lambda: None) -> int:
        """Copy what has come, waiting up to so long for something; how many bytes that were.

        `bytes_max`: gathered at once, about. `meanwhile`: called now and then while it is written.

        Raises FencedError where another mirror has taken a slot over, and as `Slot.write` does.
        """
        for name, gap in self._watch.gaps(self._followed).items():
            self.stop(name, gap)
        self._say_waiting()
        pieces = self._readable(self._fitting(self._not_held(list(self._gather(wait_s, bytes_max).values()))))
        written = self._write(pieces, meanwhile)
        for piece in written:
            self._metrics.copied(piece)
        return _size(written)

    def _write(self, pieces: list[Taken], meanwhile: Callable[[], None]) -> list[Taken]:
        """Those that were committed."""
        by_slot = {slot: [one for one in pieces if self._slot(one) == slot] for slot in self._slots}
        running = [(self._pool.submit(self._slots[at].write, some), some) for at, some in by_slot.items() if some]
        self._await([one for one, _ in running], meanwhile)
        failures = [(failure, some) for one, some in running if (failure := one.exception(WAIT_S)) is not None]
        # Who is fenced in one slot is fenced in all, whatever else the others have met with.
        for failure, some in sorted(failures, key=lambda one: not isinstance(one[0], FencedError)):
            if not isinstance(failure, NotTakenError):
                raise failure
            self._not_taken(failure, some)
        failed = [id(one) for _, some in failures for one in some]
        return [one for one in pieces if id(one) not in failed]

    def _await(self, writes: Collection[Future[None]], meanwhile: Callable[[], None]) -> None:
        """Until they have ended. What `meanwhile` raises says less than that a slot is fenced."""
        deadline = time.monotonic() + WRITE_S
        try:
            while wait(writes, WAIT_S).not_done and time.monotonic() < deadline:
                self.look()  # where each write takes long, no answer would ever be heard in time
                meanwhile()
        except CutwaterError:
            # Nor does a slot that is still writing answer to whoever asks whose it is.
            ended = wait(writes, WRITE_S).done
            for fenced in [one.exception(WAIT_S) for one in ended]:
                if isinstance(fenced, FencedError):
                    raise fenced from None
            raise

    def _not_taken(self, failure: NotTakenError, pieces: list[Taken]) -> None:
        """A topic here cannot be written. What was with it in the transaction is looked at and read again."""
        for one in {one.followed.name: one.followed for one in pieces}.values():
            self._look_again(one)
            if one.target == failure.topic and one.name not in self.stopped:
                self.stop(one.name, Gap(REFUSED, str(failure)))

    def _look_again(self, one: Followed) -> None:
        """At a topic that is followed, and copy on from where it stands."""
        places = {TopicPartition(one.name, number): at for number, at in one.positions.items()}
        self._looking.known = self._looking.known | places
        self._leave(one.name)

    def _not_held(self, pieces: list[Taken]) -> list[Taken]:
        """Those of topics that are not held back by now: this process may have stood still while it gathered.

        The others are read again, and wait.
        """
        followed = {one.followed.name: one.followed for one in pieces}
        held = {name: one for name, one in followed.items() if self._settings.holds(one, one.fetcher.came_s)}
        for one in held.values():
            one.begin()
        return [one for one in pieces if one.followed.name not in held]

    def _fitting(self, pieces: list[Taken]) -> list[Taken]:
        """Those of topics here that take every record of them, as far as is known.

        The others are looked at again, once: the origin may take larger records by now, and the look has the copy
        follow. Tried before that they would be refused, and a producer writes nothing more behind such a record.
        """
        grown = outgrown(pieces, self._grown)
        for one in grown.values():
            self._look_again(one)
        return [one for one in pieces if one.followed.name not in grown]

    def _readable(self, pieces: list[Taken]) -> list[Taken]:
        for topic, gap in self._unreadable(pieces).items():
            self.stop(topic, gap)
        return [one for one in pieces if one.followed.name not in self.stopped]

    def _slot(self, one: Taken) -> int:
        return slot_of(one.followed.name, one.partition)

    def _gather(self, wait_s: float, bytes_max: int) -> dict[TopicPartition, Taken]:
        taken: dict[TopicPartition, Taken] = {}
        followed = self._due()
        with self._looking.changed:
            self._looking.changed.wait_for(lambda: any(one.fetcher.told for one in followed), wait_s)
        while True:
            before = _count(taken)
            for one in followed:
                left = bytes_max - _size(taken.values())
                if one.name in self._followed and left > 0:
                    self._take(one, taken, left)
            if not before < _count(taken) < RECORDS or _size(taken.values()) >= bytes_max:
                return taken

    def _due(self) -> list[Followed]:
        """Those that are copied on now, another one first each time: it may be all that a round has room for.

        Of one that is held back only what has failed is heard.
        """
        followed = [one for one in self._followed.values() if one.positions]
        with self._looking.changed:
            failed = {one.name for one in followed if one.fetcher.failed}
            told = {one.name for one in followed if one.fetcher.told} - failed
        due = []
        for one in followed:
            if not self._settings.holds(one, one.fetcher.came_s if one.name in told else None):
                due.append(one)
            elif one.name in failed:
                self._take(one, {}, 1)  # hears of that, and is handed out nothing
        self._turn += 1
        at = self._turn % len(due) if due else 0
        return due[at:] + due[:at]

    def _take(self, one: Followed, taken: dict[TopicPartition, Taken], bytes_max: int) -> None:
        chunks: Mapping[int, Chunk] = {}
        try:
            chunks = one.fetcher.take(0.0, bytes_max)
            gathered(one, chunks, taken)
        except DivergenceError:
            raise  # the origin has no part in it, and a start reads how far the copy came
        except (ProtocolError, UsageError, UnavailableError) as error:
            if not chunks and self._judged.take(one.name, self._clock_s()) is None:
                return  # a moment ago the origin was asked what is wrong; the fetcher asks again by itself
            if (gap := self._watch.gap(one, error)) is not None:
                self.stop(one.name, gap)
                forget(one, taken)
                return
            self._say_again(one.name, error)
            # A fetcher that fails has lost nothing, and asks again itself. What it handed out, it has no more.
            if chunks:
                forget(one, taken)
                one.begin()

    def _say_waiting(self) -> None:
        """Brokers that are away fail nothing, so nobody would hear of it. One line for all that wait alike."""
        for one in self._followed.values():
            reason = one.fetcher.trouble
            if reason and self._rarely.take(f"waiting: {reason}", self._clock_s()) is not None:
                self._log.warning("waiting", topic=one.name, reason=reason)

    def _say_again(self, topic: str, error: CutwaterError) -> None:
        """A damaged batch fails ten times a second."""
        if (left_out := self._rarely.take(topic, self._clock_s())) is not None:
            self._log.warning("reading again", topic=topic, reason=str(error), left_out=left_out)

    def stop(self, topic: str, gap: Gap) -> None:
        """Copy nothing more of a topic; the others go on."""
        self._leave(topic)
        if gap.cause == GONE and self._left(topic):
            self._drop(topic)
            return
        self.stopped[topic] = gap
        self._metrics.stopped(topic, gap.cause)
        self._log.error("stopped", topic=topic, cause=gap.cause, reason=gap.text)

    def _left(self, topic: str) -> bool:
        """Is it the changelog of a generation that the origin has left for another one?"""
        return left_behind(topics.generation_of(self._job, topic), self.promoted)

    def _drop(self, topic: str) -> None:
        self.dropped.add(topic)
        if self.stopped.pop(topic, None) is not None:
            self._metrics.dropped(topic)
        reason = f"{self._region} has removed it; its generation was left for {self.promoted}"
        self._log.info("dropped", topic=topic, reason=reason)

    def _leave(self, topic: str) -> None:
        one = self._followed.pop(topic, None)
        if one is not None:
            one.fetcher.close()

    def _positions(self) -> dict[TopicPartition, Mirrored]:
        """The newest of each partition of this origin that this process holds.

        Raises UnavailableError while a copy of the origin is begun anew.
        """
        found = mirror_topics.positions(self._own, self._job)
        require_settled(self._region, found.renewed(self._region))
        copies = found.copies.get(self._region, {})
        return {place: one for place, one in copies.items() if slot_of(*place) in self._slots}


def _count(taken: Mapping[TopicPartition, Taken]) -> int:
    return sum(len(one.read) for one in taken.values())


def _size(taken: Iterable[Taken]) -> int:
    return sum(one.size for one in taken)

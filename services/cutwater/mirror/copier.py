"""Copies the topics of the origin, all of them in pieces; each slot in its own transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from cutwater.adapters.fetch.record_batches import Chunk
from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.adapters.kafka.writers.copy_writer import RejectedError
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
from cutwater.core.generations.retention import is_superseded
from cutwater.core.mirror.gaps import GONE, REFUSED, Gap
from cutwater.core.mirror.resync_guard import require_settled
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import SLOTS, Mirrored, slot_of
from cutwater.core.util.log_throttle import LogThrottle
from cutwater.mirror.slot import Slot
from cutwater.mirror.topics.config_sync import TopicConfigSync
from cutwater.mirror.topics.context import MirrorContext
from cutwater.mirror.topics.preflight import AbsentError, Preflight, Stop
from cutwater.mirror.topics.topic_copy import CopiedTopic, FetchedRecords, add_chunks, forget, outgrown
from cutwater.mirror.topics.topic_watch import Watch

RECORDS = 8_000
BYTES = 16 << 20
"""Approximate records and bytes gathered in one round: one more piece may be added."""
WAIT_S = 0.02
"""Between two checks for written or fetched records; an arrival is late by this much."""
WRITE_S = 6 * TIMEOUT_S
"""A transaction's own time-outs are shorter."""
JUDGE_S = 1.0
"""How long an answer why a topic cannot be read is valid; other topics are copied meanwhile."""


class Copier:
    """Copies the partitions of the slots that this process holds."""

    def __init__(
        self,
        context: MirrorContext,
        slots: Iterable[int] = range(SLOTS),
        replication: Replication = UNREPLICATED,
        kept: Collection[str] = (),
        unreadable: Callable[[Sequence[FetchedRecords]], Mapping[str, Gap]] = lambda _: {},
    ) -> None:
        """`kept`: topic settings that this region decides. `unreadable`: returns the topics whose pieces would be
        read wrong here; called before each write.
        """
        self._context = context
        self._slots = {one: Slot(context, one) for one in slots}
        self._settings = TopicConfigSync(context, kept)
        self._looking = Preflight(context, self._slots.keys(), self._settings, replication)
        self._watch = Watch(context, self._is_superseded)
        self._unreadable = unreadable
        self._rarely, self._judged = LogThrottle(), LogThrottle(JUDGE_S)
        self._followed: dict[str, CopiedTopic] = {}
        self._grown: dict[str, int] = {}
        """The largest record for which a topic was checked again, in bytes."""
        self._pool = ThreadPoolExecutor(len(self._slots), "slot")
        self._turn = 0
        self.stopped: dict[str, Gap] = {}
        """Topics that are not copied any more, and why."""
        self.dropped: set[str] = set()
        """Changelogs that the origin has deleted after their generation was replaced: nothing more will arrive."""
        self.promoted: Generation | None = None
        """The newest generation that the copied stream names."""
        self.ready = False
        """Whether this process owns the slots."""

    def open(self) -> set[str]:
        """Fence older owners of the slots, read the positions, and return the copied topics. Raises
        UnavailableError during a resync of the origin.
        """
        for slot in self._slots.values():
            slot.open()
        self._looking.known = self._positions()
        self.ready = True
        return {place.topic for place in self._looking.known}

    def require_own(self) -> None:
        """Raise FencedError if another mirror has taken over a slot."""
        list(self._pool.map(Slot.require_own, self._slots.values()))  # in parallel: each may take seconds

    def close(self) -> None:
        for one in self._followed.values():
            one.fetcher.close()
        self._pool.shutdown(cancel_futures=True)

    def follow(self, topic: str) -> None:
        """Copy a topic of the origin too, or add it to `stopped` if it cannot be copied without a gap. The check
        takes several rounds, and is repeated while brokers do not answer: call this each round.
        """
        if topic in self.stopped and self.stopped[topic].cause == GONE and self._is_superseded(topic):
            self._drop(topic)  # the stream did not say so yet
        if topic in self._followed or topic in self.stopped or topic in self.dropped:
            return
        try:
            one = self._looking.find(topic)
        except Stop as stop:
            self.stop(topic, stop.gap)
            return
        except UnavailableError as error:
            if not (isinstance(error, AbsentError) and self._is_superseded(topic)):
                self._context.log.warning("waiting", topic=topic, reason=str(error))
            return
        if one is None:
            return
        if one.positions:
            one.begin()
        self._followed[topic] = one
        self._context.log.info("copying", topic=topic, to=one.target, partitions=sorted(one.positions))

    def wait_for_checks(self, timeout_s: float) -> None:
        """Wait until the running checks have ended, or for `timeout_s`."""
        self._looking.wait(timeout_s)

    @property
    def busy(self) -> bool:
        """Whether there is anything to copy. If not, a round returns at once."""
        return any(one.positions for one in self._followed.values())

    def check_settings(self) -> None:
        """Check the settings of the followed topics if due, also while paused. Does not block."""
        self._settings.sync(self._followed)

    def round(self, wait_s: float, bytes_max: int = BYTES, meanwhile: Callable[[], None] = lambda: None) -> int:
        """Copy fetched records, waiting up to `wait_s` for some; return the number of bytes.

        `bytes_max`: the approximate size of a round. `meanwhile`: called repeatedly during the write.

        Raises FencedError if another mirror has taken over a slot, and the errors of `Slot.write`.
        """
        for name, gap in self._watch.gaps(self._followed).items():
            self.stop(name, gap)
        self._say_waiting()
        pieces = self._readable(self._fitting(self._not_held(list(self._gather(wait_s, bytes_max).values()))))
        written = self._write(pieces, meanwhile)
        for piece in written:
            self._context.metrics.copied(
                piece.followed.name, len(piece.records), sum(one.size for one in piece.read)
            )
        return _size(written)

    def _write(self, pieces: list[FetchedRecords], meanwhile: Callable[[], None]) -> list[FetchedRecords]:
        by_slot = {slot: [one for one in pieces if self._slot(one) == slot] for slot in self._slots}
        running = [(self._pool.submit(self._slots[at].write, some), some) for at, some in by_slot.items() if some]
        self._await([one for one, _ in running], meanwhile)
        failures = [(failure, some) for one, some in running if (failure := one.exception(WAIT_S)) is not None]
        # A fenced slot means that all are fenced, so FencedError takes precedence.
        for failure, some in sorted(failures, key=lambda one: not isinstance(one[0], FencedError)):
            if not isinstance(failure, RejectedError):
                raise failure
            self._not_taken(failure, some)
        failed = [id(one) for _, some in failures for one in some]
        return [one for one in pieces if id(one) not in failed]

    def _await(self, writes: Collection[Future[None]], meanwhile: Callable[[], None]) -> None:
        """Wait for the writes. A FencedError of a slot takes precedence over an error of `meanwhile`."""
        deadline = time.monotonic() + WRITE_S
        try:
            while wait(writes, WAIT_S).not_done and time.monotonic() < deadline:
                self.check_settings()  # with slow writes no answer would be read in time
                meanwhile()
        except CutwaterError:
            # Slots that are still writing cannot answer `require_own`.
            ended = wait(writes, WRITE_S).done
            for fenced in [one.exception(WAIT_S) for one in ended]:
                if isinstance(fenced, FencedError):
                    raise fenced from None
            raise

    def _not_taken(self, failure: RejectedError, pieces: list[FetchedRecords]) -> None:
        """Stop the topic that cannot be written here; check and read again all topics of the transaction."""
        for one in {one.followed.name: one.followed for one in pieces}.values():
            self._look_again(one)
            if one.target == failure.topic and one.name not in self.stopped:
                self.stop(one.name, Gap(REFUSED, str(failure)))

    def _look_again(self, one: CopiedTopic) -> None:
        places = {TopicPartition(one.name, number): at for number, at in one.positions.items()}
        self._looking.known = self._looking.known | places
        self._leave(one.name)

    def _not_held(self, pieces: list[FetchedRecords]) -> list[FetchedRecords]:
        """Return the pieces that are not held back by now, as this process may have been suspended. The others are
        read again.
        """
        followed = {one.followed.name: one.followed for one in pieces}
        held = {name: one for name, one in followed.items() if self._settings.holds(one, one.fetcher.came_s)}
        for one in held.values():
            one.begin()
        return [one for one in pieces if one.followed.name not in held]

    def _fitting(self, pieces: list[FetchedRecords]) -> list[FetchedRecords]:
        """Return the pieces whose records fit into the topics here, as far as known.

        The topics of the others are checked again, once: if the origin takes larger records now, that check adapts
        the copy. Without it the broker would refuse them, and the producer writes nothing after a refused record.
        """
        grown = outgrown(pieces, self._grown)
        for one in grown.values():
            self._look_again(one)
        return [one for one in pieces if one.followed.name not in grown]

    def _readable(self, pieces: list[FetchedRecords]) -> list[FetchedRecords]:
        for topic, gap in self._unreadable(pieces).items():
            self.stop(topic, gap)
        return [one for one in pieces if one.followed.name not in self.stopped]

    def _slot(self, one: FetchedRecords) -> int:
        return slot_of(one.followed.name, one.partition)

    def _gather(self, wait_s: float, bytes_max: int) -> dict[TopicPartition, FetchedRecords]:
        taken: dict[TopicPartition, FetchedRecords] = {}
        followed = self._due()
        with self._looking.changed:
            self._looking.changed.wait_for(lambda: any(one.fetcher.has_result for one in followed), wait_s)
        while True:
            before = _count(taken)
            for one in followed:
                left = bytes_max - _size(taken.values())
                if one.name in self._followed and left > 0:
                    self._take(one, taken, left)
            if not before < _count(taken) < RECORDS or _size(taken.values()) >= bytes_max:
                return taken

    def _due(self) -> list[CopiedTopic]:
        """Return the topics to copy now, starting with another one each round: one may fill the round. Topics that
        are held back are only checked for errors.
        """
        followed = [one for one in self._followed.values() if one.positions]
        with self._looking.changed:
            failed = {one.name for one in followed if one.fetcher.has_failed}
            told = {one.name for one in followed if one.fetcher.has_result} - failed
        due = []
        for one in followed:
            if not self._settings.holds(one, one.fetcher.came_s if one.name in told else None):
                due.append(one)
            elif one.name in failed:
                self._take(one, {}, 1)  # raises the error, and returns no records
        self._turn += 1
        at = self._turn % len(due) if due else 0
        return due[at:] + due[:at]

    def _take(self, one: CopiedTopic, taken: dict[TopicPartition, FetchedRecords], bytes_max: int) -> None:
        chunks: Mapping[int, Chunk] = {}
        try:
            chunks = one.fetcher.take(0.0, bytes_max)
            add_chunks(one, chunks, taken)
        except DivergenceError:
            raise  # not the origin's error; a restart reads the positions
        except (ProtocolError, UsageError, UnavailableError) as error:
            if not chunks and self._judged.admit(one.name, self._context.clock_s()) is None:
                return  # the cause was checked a moment ago; the fetcher retries by itself
            if (gap := self._watch.gap(one, error)) is not None:
                self.stop(one.name, gap)
                forget(one, taken)
                return
            self._say_again(one.name, error)
            # A failing fetcher loses nothing and retries, but does not keep what it handed out.
            if chunks:
                forget(one, taken)
                one.begin()

    def _say_waiting(self) -> None:
        """Log brokers that do not answer, which causes no error; one line for all topics with the same reason."""
        for one in self._followed.values():
            reason = one.fetcher.trouble
            if reason and self._rarely.admit(f"waiting: {reason}", self._context.clock_s()) is not None:
                self._context.log.warning("waiting", topic=one.name, reason=reason)

    def _say_again(self, topic: str, error: CutwaterError) -> None:
        """Log the retry; limited, because a damaged batch fails ten times a second."""
        if (left_out := self._rarely.admit(topic, self._context.clock_s())) is not None:
            self._context.log.warning("reading again", topic=topic, reason=str(error), left_out=left_out)

    def stop(self, topic: str, gap: Gap) -> None:
        """Stop copying a topic; the others continue."""
        self._leave(topic)
        if gap.cause == GONE and self._is_superseded(topic):
            self._drop(topic)
            return
        self.stopped[topic] = gap
        self._context.metrics.stopped(topic, gap.cause)
        self._context.log.error("stopped", topic=topic, cause=gap.cause, reason=gap.text)

    def _is_superseded(self, topic: str) -> bool:
        return is_superseded(topics.generation_of(self._context.job, topic), self.promoted)

    def _drop(self, topic: str) -> None:
        self.dropped.add(topic)
        if self.stopped.pop(topic, None) is not None:
            self._context.metrics.dropped(topic)
        reason = f"{self._context.region} has deleted it; its generation was replaced by {self.promoted}"
        self._context.log.info("dropped", topic=topic, reason=reason)

    def _leave(self, topic: str) -> None:
        one = self._followed.pop(topic, None)
        if one is not None:
            one.fetcher.close()

    def _positions(self) -> dict[TopicPartition, Mirrored]:
        """Return the newest position of each partition of this origin that this process holds. Raises
        UnavailableError during a resync of the origin.
        """
        found = mirror_topics.positions(self._context.own, self._context.job)
        require_settled(self._context.region, found.renewed(self._context.region))
        copies = found.copies.get(self._context.region, {})
        return {place: one for place, one in copies.items() if slot_of(*place) in self._slots}


def _count(taken: Mapping[TopicPartition, FetchedRecords]) -> int:
    return sum(len(one.read) for one in taken.values())


def _size(taken: Iterable[FetchedRecords]) -> int:
    return sum(one.size for one in taken)

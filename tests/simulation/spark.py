"""A driver over a model of Spark, which plans, aggregates, writes and commits; the rest is Cutwater's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cutwater.adapters.hashing import rows_hash
from cutwater.adapters.kafka.client import bounds, make_consumer
from cutwater.adapters.topics.commit_stream import newest_milestone
from cutwater.core.driver.attempt_start import TakeOver
from cutwater.core.driver.commit_hints import CommitHints
from cutwater.core.driver.epoch import Epochs
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.driver.ports import NewQueryError
from cutwater.core.driver.row_proof import Written
from cutwater.core.driver.tombstone_gc import Collector
from cutwater.core.errors import UnavailableError
from cutwater.core.generations.start_state import FIRST, StartState
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, Writer, signed
from cutwater.core.protocol.cuts import Cut, EpochPlan, TopicPartition
from cutwater.core.protocol.records import Milestone
from cutwater_spark.epoch.barriers import BarrierLog
from cutwater_spark.epoch.row_proof import ProvedRows
from simulation.clients import SimCluster
from simulation.disk import Disk, SimCheckpoint
from simulation.job import (
    GENERATION,
    HOUR_MS,
    JOB,
    PARTITION_OF,
    PARTITIONS,
    fingerprint,
    key_bytes,
    read_value,
    value_bytes,
)
from simulation.log import Headers, Log
from simulation.processes import Process, SimLock

CHANGELOG = topics.changelog(JOB.name, GENERATION)
HEARTBEAT_MS = 10_000
COLLECT_SHARE = 0.3


class Event(NamedTuple):
    key: str
    at_ms: int
    amount: int


class Again(NamedTuple):
    """Rows of a task's other try, by when it ran: before the one that is counted, or behind it."""

    before: Sequence[tuple[bytes, bytes]] = ()
    behind: Sequence[tuple[bytes, bytes]] = ()


class LateRow(NamedTuple):
    """A row that a zombie executor may still write, or a tombstone that a killed driver's client still sends."""

    partition: int
    key: bytes
    value: bytes | None
    headers: Headers


@dataclass
class Habits:
    """What Spark does in this history."""

    retries: bool = False
    """A task runs twice and writes its rows twice, once with another last bit."""
    zombies: bool = False
    """An executor that was given up writes a row later."""
    differs: bool = False
    """Another attempt of an epoch writes other bytes."""
    hints: bool = True
    job: Job | None = None
    """Another one than the driver's own."""
    late_rows: list[LateRow] = field(default_factory=list)
    began: dict[int, int] = field(default_factory=dict)
    """By attempt: how much the log held when its process began."""
    buried: int = 0
    unburied: int = 0
    """Tombstones that were acknowledged, and those of which no answer came."""


class Driver:
    """One life of the driver's process."""

    proved_rows = ProvedRows
    barrier_log = BarrierLog
    take_over = TakeOver
    collector = Collector
    job, generation, changelog = JOB, GENERATION, CHANGELOG
    partitions = PARTITIONS
    origin: StartState = FIRST
    parent: Milestone | None = None

    def __init__(
        self, process: Process, log: Log, disk: Disk, events: list[list[Event]], habits: Habits, clock: object
    ) -> None:
        self._process = process
        self._log = log
        self._events = events
        self._was_read = disk.fetched
        self._habits = habits
        self.job = habits.job or self.job
        self._sliding = self.job.overlap_ms > 0
        self._now_ms = clock
        self._cluster = SimCluster(log, process)
        self._checkpoint = SimCheckpoint(disk, process)
        self._lock = SimLock(process)
        self._began = log.version
        process.spawn(self._run)

    def _run(self) -> None:
        self._rows = self.proved_rows(self._cluster, self.changelog, self.partitions)
        self._rows.parent = self.parent
        sleep = self._process.sleep
        barriers = self.barrier_log(
            self._cluster, JOB.name, self.generation, SimLock(self._process), sleep=lambda _s: sleep()
        )
        attempt, past = self.take_over(
            JOB.name,
            self.generation,
            self._checkpoint,
            barriers,
            self._rows,
            lambda: newest_milestone(self._cluster, JOB.name, self.generation),
        ).run(self._now_ms)
        self._habits.began[attempt] = self._began
        before = past.newest_before(self._checkpoint.newest_committed() + 1)
        clearing = self.collector(self._rows, self.partitions, self._bury, COLLECT_SHARE, before)
        epochs = Epochs(
            self.job,
            self.generation,
            attempt,
            past,
            self._rows,
            barriers,
            self._checkpoint,
            self._fingerprint(),
            self._now_ms,
            clearing,
            origin=self.origin,
        )
        self._announce(epochs, attempt, barriers)
        self._query(epochs)

    def _fingerprint(self) -> str:
        return fingerprint(self._sliding)

    def _announce(self, epochs: Epochs, attempt: int, barriers: BarrierLog) -> None:
        source = make_consumer(self._cluster)
        announcing = CommitHints(
            epochs,
            self._lock,
            attempt,
            barriers,
            self._rows,
            self._checkpoint,
            lambda place: bounds(source, place.topic, place.partition)[1],
            HEARTBEAT_MS,
            self._habits.hints,
            self._now_ms,
        )
        looked: list[object] = [None]

        def changed() -> bool:
            newest = epochs.newest
            at = (newest, newest and self._checkpoint.is_committed(newest.epoch), self._now_ms() // HEARTBEAT_MS)
            return at != looked[0]

        def run() -> None:
            while True:
                newest = epochs.newest
                committed = newest and self._checkpoint.is_committed(newest.epoch)
                looked[0] = (newest, committed, self._now_ms() // HEARTBEAT_MS)
                announcing.tick()
                self._process.pause(changed)

        self._process.spawn(run)

    def _query(self, epochs: Epochs) -> None:
        """Spark's loop: `offsets/N`, the epoch, `commits/N`."""
        epoch = self._checkpoint.newest_committed() + 1
        while True:
            if self._checkpoint.newest_planned() < epoch:
                plan: list[EpochPlan | None] = [None]

                def ready(epoch: int = epoch, plan: list[EpochPlan | None] = plan) -> bool:
                    plan[0] = self._next_plan(epoch)
                    return plan[0] is not None

                self._process.pause(ready)
                assert plan[0] is not None
                self._checkpoint.put_plan(epoch, plan[0])
                self._was_read[epoch, plan[0].source_cut] = self._fetched(epoch)
            self._lock.acquire()
            try:
                epochs.write(epoch, self._action, lambda epoch=epoch: self._seen(epoch))
            except NewQueryError:  # its consumers read the epoch's events anew
                self._was_read[epoch, self._checkpoint.plan(epoch).source_cut] = self._fetched(epoch)
                continue
            finally:
                self._lock.release()
            self._checkpoint.put_commit(epoch)
            self._after_commit(epochs, epoch)
            epoch += 1

    def _after_commit(self, epochs: Epochs, epoch: int) -> None:
        """Between two epochs a query may end, and another one begin."""

    def _next_plan(self, epoch: int) -> EpochPlan | None:
        """None while there is nothing new and the watermark stands."""
        before = self._checkpoint.plan(epoch - 1) if epoch else EpochPlan(self.origin.source_cut, 0)
        known = {place.partition: offset for place, offset in before.source_cut}
        begun = {place.partition: offset for place, offset in self.origin.source_cut}
        ends = [
            min(len(events), known.get(number, 0) + JOB.max_events_per_epoch)
            for number, events in enumerate(self._events)
        ]
        read = [events[begun.get(number, 0) : known.get(number, 0)] for number, events in enumerate(self._events)]
        seen = [one.at_ms for events in read for one in events]
        watermark = max(before.watermark_ms, max(seen, default=0) - self.job.lateness_ms)
        cut = Cut.of_topic(JOB.topic, ends)
        begins = not epoch and self.origin is not FIRST
        if not begins and cut == before.source_cut and (watermark == before.watermark_ms or not epoch):
            return None
        return EpochPlan(cut, watermark) if any(ends) else None

    def _bounds(self, epoch: int) -> list[tuple[int, int]]:
        before = self._checkpoint.plan(epoch - 1).source_cut if epoch else self.origin.source_cut
        cut = self._checkpoint.plan(epoch).source_cut
        places = [TopicPartition(JOB.topic, number) for number in range(len(self._events))]
        return [(before.offset(place), cut.offset(place)) for place in places]

    def _fetched(self, epoch: int) -> list[Event]:
        """The events of an epoch, as they stand on the log now."""
        bounds = zip(self._bounds(epoch), self._events, strict=True)
        return [event for (first, end), events in bounds for event in events[first:end]]

    def _seen(self, epoch: int) -> InputStats:
        return InputStats(events=sum(end - first for first, end in self._bounds(epoch)))

    def _aggregate(self, epoch: int, writer: int) -> list[list[tuple[bytes, bytes]]]:
        """Update mode: the rows that the epoch's own events changed, with all events so far in them."""
        totals: dict[tuple[str, int], int] = {}
        changed: dict[tuple[str, int], None] = {}
        for one in range(epoch + 1):
            for key, at_ms, amount in self._was_read[one, self._checkpoint.plan(one).source_cut]:
                window = (key, at_ms - at_ms % HOUR_MS)
                totals[window] = totals.get(window, 0) + amount
                if one == epoch:
                    changed[window] = None
        rows: list[list[tuple[bytes, bytes]]] = [[] for _ in range(PARTITIONS)]
        for window in changed:
            value = value_bytes(totals[window], writer, self._sliding)
            rows[PARTITION_OF[window[0]]].append((key_bytes(*window), value))
        return rows

    def _action(self, me: Writer) -> Written:
        """Executors write the rows, each acknowledged, and count on the way."""
        rows = self._aggregate(me.epoch, me.attempt if self._habits.differs else 0)
        headers, luck = _headers(me), self._process.luck
        for partition, found in enumerate(rows):
            again = self._rows_again(found)
            self._write(partition, again.before, headers)
            if self._habits.zombies and found and luck() % 12 == 0:
                self._habits.late_rows.append(LateRow(partition, *found[luck() % len(found)], headers))
            self._write(partition, found, headers)
            self._write(partition, again.behind, headers)
        digests = [signed(rows_hash([key for key, _ in found], [value for _, value in found])) for found in rows]
        return Written({number: len(found) for number, found in enumerate(rows)}, dict(enumerate(digests)))

    def _rows_again(self, found: Sequence[tuple[bytes, bytes]]) -> Again:
        """What the other try of a task writes: some of its rows, which are counted for one of the two only.

        It adds in another order, so the last bit of a sum may be another one.
        """
        luck = self._process.luck
        if not (self._habits.retries and found and luck() % 8 == 0):
            return Again()
        rows, kind = found[: 1 + luck() % len(found)], luck() % 4
        if kind & 1:
            rows = [(key, self._other_last_bit(value)) for key, value in rows]
        return Again(behind=rows) if kind & 2 else Again(before=rows)

    def _other_last_bit(self, value: bytes) -> bytes:
        row = read_value(value, self._sliding)
        return value_bytes(row["total"] ^ 1, row["writer"], self._sliding)

    def _bury(self, partition: int, keys: Sequence[bytes], me: Writer) -> None:
        """Tombstones; where we die or an answer does not come, one may be there, or come later."""
        for key in keys:
            tombstone = LateRow(partition, key, None, _headers(me))
            try:
                self._process.pause()
            except BaseException:
                self._habits.late_rows.append(tombstone)
                raise
            luck = self._process.luck()
            answered = luck % 8 != 0
            if not answered and luck & 8:
                self._habits.late_rows.append(tombstone)
            else:
                self._append(partition, key, None, tombstone.headers)
            if not answered:
                self._habits.unburied += 1
                raise UnavailableError(f"{self.changelog}/{partition}: a tombstone was not acknowledged")
            self._habits.buried += 1

    def _write(self, partition: int, rows: Sequence[tuple[bytes, bytes]], headers: Headers) -> None:
        for number, (key, value) in enumerate(rows):
            if number % 3 == 0:
                try:
                    self._process.pause()
                except BaseException:
                    if self._habits.zombies:  # the driver dies; an executor of it does not know yet
                        self._habits.late_rows.append(LateRow(partition, key, value, headers))
                    raise
            self._append(partition, key, value, headers)

    def _append(self, partition: int, key: bytes, value: bytes | None, headers: Headers) -> None:
        if self.changelog not in self._log.topics:
            raise UnavailableError(f"{self.changelog} is not there")
        self._log.append((self.changelog, partition), key, value, headers)


def _headers(me: Writer) -> Headers:
    return [(WRITER_HEADER, me.header)]


def writer_of(headers: Headers | None) -> Writer | None:
    """Who wrote a record of the changelog."""
    return Writer.of_header(dict(headers or ()).get(WRITER_HEADER))

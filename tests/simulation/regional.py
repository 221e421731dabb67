"""A region of the simulated world: a log that remembers what compaction takes, and drivers of any generation."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.topics.candidates import candidates
from cutwater.core.driver.epoch import Epochs
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.driver.lateness import ByFloor
from cutwater.core.errors import UsageError
from cutwater.core.generations.start_state import FIRST, require_kept
from cutwater.core.job.event_decoding import Decoding
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.cuts import Cut, EpochPlan, Range, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import SOURCE_OFFSET
from cutwater.core.protocol.records import Milestone
from cutwater.operations.generations.parent_changelog import changelog_problem, kept_behind
from cutwater.operations.regions.rejoin import RejoinCheck
from cutwater_spark.epoch.barriers import BarrierLog
from cutwater_spark.epoch.cleanings import cleanings_of, first_floor
from cutwater_spark.epoch.decoding_choice import Decodings
from cutwater_spark.seed.parent import parent_milestone, start_state
from cutwater_spark.seed.prepare import floor_of
from simulation.clients import partition_of
from simulation.disk import Disk
from simulation.job import HOUR_MS, JOB, PARTITION_OF, PARTITIONS, key_bytes, value_bytes
from simulation.latelist import LateEvent, SimLists, window_end_ms
from simulation.log import Headers, Log, Outcome, Place, Record, Transaction
from simulation.processes import Process, SimEvent
from simulation.spark import Driver, Event, Habits
from simulation.world import _Silent

Window = tuple[str, int]
SUMMED = replace(JOB, measures=tuple(replace(one, kind="sum") for one in JOB.measures))
"""The same job, as one that a generation may be started of."""
AMEND_MS = 2 * HOUR_MS
AMENDED = replace(SUMMED, amend_for_ms=AMEND_MS)
"""The same, whose windows close by a floor."""
KEEPING = replace(AMENDED, retention_ms=9 * HOUR_MS)
"""The same, whose closed windows stay in the state for long: late events may still count there."""
_keys, _values = Codec(WINDOW_KEY_SCHEMA), Codec(JOB.state_schema)


class KeptLog(Log):
    """Remembers every record that was ever written, for whoever asks what should be there."""

    def __init__(self, now_ms: int, name: str) -> None:
        super().__init__(now_ms, name=name)
        self.kept: dict[Place, list[Record]] = defaultdict(list)
        self.former: dict[Place, list[Record]] = {}
        """Of sources that were made anew: what the milestones of before have read."""
        self.gone = 0
        """Grows whenever somebody deletes anything."""
        self.cut: dict[Place, int] = {}
        """What has lost its tail: at which version of the log, the last time."""

    def delete(self, topic: str) -> None:
        for number in range(len(self.topics[topic])):
            self.kept.pop((topic, number), None)
        super().delete(topic)
        self.gone += 1

    def make_anew(self, topic: str) -> None:
        """Another topic of the name, with nothing in it."""
        partitions, settings = len(self.topics[topic]), self.settings[topic]
        for place in [(topic, number) for number in range(partitions)]:
            self.former.setdefault(place, self.kept[place])
        self.delete(topic)
        self.create(topic, partitions, settings)

    def lose_topic(self, topic: str) -> None:
        """Another topic of the name, with nothing in it: every record of every partition is lost."""
        partitions, settings = len(self.topics[topic]), self.settings[topic]
        super().delete(topic)
        self.create(topic, partitions, settings)
        for number in range(partitions):
            self.kept[topic, number] = []
            self.cut[topic, number] = self.version

    def truncate(self, place: Place, before: int) -> None:
        super().truncate(place, before)
        self.gone += 1

    def lose_tail(self, place: Place, end: int) -> int:
        lost = super().lose_tail(place, end)
        self.kept[place] = [one for one in self.kept[place] if one.offset < end]
        self.cut[place] = self.version
        return lost

    def append(
        self,
        place: Place,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None = None,
        transaction: Transaction | None = None,
    ) -> int:
        offset = super().append(place, key, value, headers, transaction)
        self.kept[place].append(self.topics[place[0]][place[1]].records[-1])
        return offset

    def committed(self, place: Place, first: int = 0, end: int | None = None) -> Iterable[Record]:
        """What readers may see of what was ever written between two offsets."""
        for one in self.former.get(place, self.kept[place]):
            seen = one.transaction is None or one.transaction.outcome is Outcome.COMMITTED
            if seen and one.offset >= first and (end is None or one.offset < end):
                yield one

    def standing(self, place: Place, end: int) -> Iterable[Record]:
        """Of those below an offset what nobody has removed."""
        there = {one.offset for one in self.topics[place[0]][place[1]].records}
        return (one for one in self.committed(place, 0, end) if one.offset in there)


def window_of(key: bytes) -> Window:
    decoded = _keys.decode(key)
    return decoded["key"], protocol_records.millis(decoded["window_start"])


def total_of(value: bytes) -> int:
    return int(_values.decode(value)["total"])


def folded(records: Iterable[Record]) -> dict[bytes, int]:
    """The newest total by key."""
    found: dict[bytes, int] = {}
    for one in records:
        if one.value is None:
            found.pop(one.key or b"", None)
        else:
            found[one.key or b""] = total_of(one.value)
    return found


def added(events: Iterable[Event]) -> dict[Window, int]:
    found: dict[Window, int] = {}
    for one in events:
        window = (one.key, one.at_ms - one.at_ms % HOUR_MS)
        found[window] = found.get(window, 0) + one.amount
    return found


class Book:
    """Every event that was ever produced, wherever: its name is what the record says."""

    def __init__(self) -> None:
        self.by_name: dict[bytes, Event] = {}

    def add(self, region: str, one: Event) -> bytes:
        name = f"{region}/{len(self.by_name)}".encode()
        self.by_name[name] = one
        return name


class Seed(NamedTuple):
    """What a generation takes over."""

    rows: dict[Window, int]
    floor_ms: int


class Checkpoint(Disk):
    """Of one generation; with the seed that it began with."""

    def __init__(self) -> None:
        super().__init__()
        self.seed: Seed | None = None
        self.read_by: dict[tuple[Cut, Cut], dict[TopicPartition, list[Record]]] = {}
        """What Spark read between two source cuts."""

    def committed(self) -> set[Cut]:
        return {self.plans[epoch].source_cut for epoch in self.commits}

    def read(self, place: TopicPartition) -> int:
        """What was committed is not read again; without a commit nothing is."""
        return self.plans[max(self.commits)].source_cut.offset(place) if self.commits else 0


_PLAIN = Decoding("avro", {}, (), 0, 0)


class RegionDriver(Driver):
    """Works for any generation; one that was claimed goes on from its parent milestone."""

    def __init__(
        self,
        process: Process,
        log: KeptLog,
        disk: Checkpoint,
        book: Book,
        clock: object,
        generation: Generation,
        returning: RejoinCheck,
        job: Job = SUMMED,
    ) -> None:
        self._amends, self._closing = job.amend_for_ms is not None, _PLAIN
        self.job = job
        self._returning = returning
        self.generation, self.changelog = generation, topics.changelog(JOB.name, generation)
        self._disk, self._book = disk, book
        self._known: tuple[int, dict[Window, int]] = (-1, {})
        self._read = set[tuple[Cut, Cut]]()
        self._log: KeptLog
        super().__init__(process, log, disk, [], Habits(), clock)

    def _run(self) -> None:
        settings: Any = SimpleNamespace(
            cluster=self._cluster, generation=self.generation, beside=(), checkpoint="there"
        )
        parent_milestone(self.job, settings)
        stop: Any = SimEvent(self._process)
        self._returning.await_answer(self.generation, stop, _Silent())
        parent = parent_milestone(self.job, settings)
        self._parent = parent
        self.origin = FIRST
        own = [TopicPartition(JOB.topic, number) for number in range(PARTITIONS)]
        self._places = [place for place, _ in parent.source_cut] if parent else own
        if parent is not None:
            if self._disk.seed is None:
                seed = self._seed(parent)
                self._disk.seed = self._disk.seed or seed
            cluster: Any = self._cluster
            self.origin = start_state(cluster, self.job, self.generation, parent, self._disk.seed.floor_ms)
        super()._run()

    def _announce(self, epochs: Epochs, attempt: int, barriers: BarrierLog) -> None:
        self._attempt = attempt
        self._returning.check_again(self.generation, _Silent())  # the last thing behind the fencing
        super()._announce(epochs, attempt, barriers)

    def _query(self, epochs: Epochs) -> None:
        epochs.lists = SimLists(self._log, self._process, self._late)
        if self._amends:
            checkpoint: Any = self._checkpoint
            about = (checkpoint, self._attempt, _PLAIN, _Silent())
            self._pins = Decodings(*about, first_floor=lambda: first_floor(self.origin, epochs.newest))
            self._cleanings = cleanings_of(
                self.job, self.origin, epochs.newest, 0, lambda *_: None, lambda: self._log.now_ms / 1000
            )
            self._begin_query(epochs)
        super()._query(epochs)

    def _begin_query(self, epochs: Epochs) -> None:
        """As `cutwater_spark.attempt` chooses how the next query reads, and closes windows."""
        chosen, self._last = self._pins.choose(epochs.unfinished())
        self._closing, self._marked = chosen, False
        epochs.closing = ByFloor(self.origin, chosen.floor_ms or 0, JOB.lateness_ms)

    def _after_commit(self, epochs: Epochs, epoch: int) -> None:
        """As `cutwater_spark.attempt` ends a query for a cleaning, or behind one."""
        if not self._amends:
            return
        closing, floor_ms = self._closing, self._closing.floor_ms or 0
        self._disk.floors[epoch] = floor_ms
        seen = self._seen(epoch)
        self._marked = self._marked or bool(seen.events)
        if epoch == self._last:
            self._begin_query(epochs)
        elif closing.cleans and self._checkpoint.plan(epoch).watermark_ms >= floor_ms:
            self._cleanings.end(floor_ms)
            self._pins.end_cleaning()
            self._begin_query(epochs)
        elif not closing.cleans:
            raised = self._cleanings.due(epochs.newest, seen.oldest_ms, False)
            if raised is not None and raised > floor_ms:
                self._pins.raise_floor(raised)
                self._begin_query(epochs)

    def _seed(self, parent: Milestone) -> Seed:
        """What a Spark batch reads: the newest row of each key below the cut, above the horizon."""
        require_kept(parent, kept_behind(self._cluster, parent.source_cut))  # type: ignore[arg-type]
        found: dict[bytes, int] = {}
        for place, cut in parent.changelog_cut:
            self._process.pause()
            if (partition := partition_of(self._log, place)) is None:
                raise UsageError(f"{place.topic} is gone")
            records = partition.records
            found |= folded(one for one in records if one.offset < cut and _visible(one))
        cluster: Any = self._cluster
        now_ms: Any = self._now_ms
        # Asked last: hours may have passed. Nobody has snapshots here.
        if why := changelog_problem(cluster, JOB.name, parent, self.generation.region, now_ms):
            raise UsageError(why)
        windows = {window_of(key): total for key, total in found.items()}
        rows = {one: total for one, total in windows.items() if one[1] + HOUR_MS > parent.horizon_ms}
        claim = candidates(cluster, JOB.name).require(self.generation).claim
        return Seed(rows, floor_of(cluster, claim, parent))

    def _next_plan(self, epoch: int) -> EpochPlan | None:
        before = self._checkpoint.plan(epoch - 1) if epoch else EpochPlan(self.origin.source_cut, 0)
        ends = {place: self._end(place, before.source_cut.offset(place)) for place in self._places}
        begun = self.origin.source_cut
        if self._amends:
            return self._plan_by_floor(epoch, before, Cut.of(ends))
        read = [(place, self._records(place, begun.offset(place), before.source_cut)) for place in self._places]
        seen = [self._event(one).at_ms for _, records in read for one in records]
        watermark = max(before.watermark_ms, max(seen, default=0) - JOB.lateness_ms)
        cut = Cut.of(ends)
        begins = not epoch and self._parent is not None
        if not begins and cut == before.source_cut and (watermark == before.watermark_ms or not epoch):
            return None
        return EpochPlan(cut, watermark) if begins or any(ends.values()) else None

    def _plan_by_floor(self, epoch: int, before: EpochPlan, cut: Cut) -> EpochPlan | None:
        """Spark has a watermark in a cleaning alone: an epoch with events moves it, and the next one evicts."""
        floor_ms = self._closing.floor_ms or 0
        if self._closing.cleans and self._marked and before.watermark_ms < floor_ms:
            return EpochPlan(cut, floor_ms)
        if cut == before.source_cut and (epoch or self._parent is None):
            return None
        return EpochPlan(cut, before.watermark_ms) if cut.entries else None

    def _end(self, place: TopicPartition, known: int) -> int:
        partition = partition_of(self._log, place)
        end = partition.stable_end if partition else known
        return max(known, min(end, known + JOB.max_events_per_epoch))

    def _records(self, place: TopicPartition, first: int, cut: Cut) -> list[Record]:
        records, end = self._log.kept[place], cut.offset(place)
        inside = records[bisect_left(records, first, key=_offset) : bisect_left(records, end, key=_offset)]
        return [one for one in inside if _visible(one)]

    def _event(self, one: Record) -> Event:
        return self._book.by_name[one.value or b""]

    def _range(self, epoch: int) -> Range:
        before = self._checkpoint.plan(epoch - 1) if epoch else None
        if self._amends:
            known = self._disk.floors if epoch in self._disk.commits else {}
            floor_ms = known.get(epoch, self._closing.floor_ms or 0)
            return ByFloor(self.origin, floor_ms, JOB.lateness_ms).range(self._checkpoint.plan(epoch), before)
        return self.origin.range(self._checkpoint.plan(epoch), before)

    def _of(self, range_: Range) -> dict[TopicPartition, list[Record]]:
        """What an epoch has read, though the log may have lost it since. Another attempt reads it anew."""
        cuts = range_.before, range_.cut
        known = cuts in self._disk.read_by and range_.cut in self._disk.committed()
        if cuts not in self._read and not known:
            self._read.add(cuts)
            self._disk.read_by[cuts] = {
                place: self._records(place, range_.before.offset(place), range_.cut) for place in self._places
            }
        return self._disk.read_by[cuts]

    def _late(self, range_: Range) -> list[LateEvent]:
        """What of it comes too late."""
        read = [LateEvent(at, one, self._event(one)) for at, found in self._of(range_).items() for one in found]
        return [one for one in read if window_end_ms(one.event) <= range_.closed_ms]

    def _counted(self, epoch: int) -> list[Event]:
        """What of it Spark's state takes: what comes too late is dropped."""
        range_ = self._range(epoch)
        read = [self._event(one) for found in self._of(range_).values() for one in found]
        return [one for one in read if window_end_ms(one) > range_.closed_ms]

    def _seen(self, epoch: int) -> InputStats:
        read = self._of(self._range(epoch))
        copied = {
            place: int(dict(found[-1].headers or ())[SOURCE_OFFSET]) + 1
            for place, found in read.items()
            if found and place.topic != JOB.topic
        }
        times = [self._event(one).at_ms for found in read.values() for one in found]
        newest = {0: max(times)} if times else {}
        return InputStats(len(times), oldest_ms=min(times, default=None), newest_ms=newest, copied=copied)

    def _state(self, epoch: int) -> dict[Window, int]:
        """Spark's own, behind an epoch."""
        known, totals = self._known
        for number in range(known + 1 if known < epoch else 0, epoch + 1):
            if not number:
                totals = dict(self._disk.seed.rows if self._disk.seed else {})
            for window, total in added(self._counted(number)).items():
                totals[window] = totals.get(window, 0) + total
            evicted_ms = self._checkpoint.plan(number).watermark_ms if number < epoch else 0
            totals = {one: total for one, total in totals.items() if one[1] + HOUR_MS > evicted_ms}
        self._known = epoch, totals
        return totals

    def _aggregate(self, epoch: int, writer: int) -> list[list[tuple[bytes, bytes]]]:
        totals, changed = self._state(epoch), added(self._counted(epoch))
        rows: list[list[tuple[bytes, bytes]]] = [[] for _ in range(PARTITIONS)]
        for window in dict.fromkeys([*(() if epoch else totals), *changed]):
            rows[PARTITION_OF[window[0]]].append((key_bytes(*window), value_bytes(totals[window], writer)))
        return rows


def _offset(one: Record) -> int:
    return one.offset


def _visible(one: Record) -> bool:
    return not one.marker and (one.transaction is None or one.transaction.outcome is Outcome.COMMITTED)


class Region:
    """What survives its processes."""

    def __init__(self, name: str, now_ms: int) -> None:
        self.name = name
        self.log = KeptLog(now_ms, name)
        self.disks: dict[Generation, Checkpoint] = defaultdict(Checkpoint)

    def make(self, generation: Generation) -> None:
        """The topics of a region that begins a job by itself."""
        own = topics.generation_topics(JOB.name, generation, PARTITIONS, JOB.output)
        for one in [*own, topics.events(JOB.topic, PARTITIONS)]:
            self.log.create(one.name, one.partitions, dict(one.config))

    def has(self, topic: str) -> bool:
        return topic in self.log.topics

    def own_places(self) -> list[TopicPartition]:
        count = len(self.log.topics.get(JOB.topic, ()))
        return [TopicPartition(JOB.topic, number) for number in range(count)]

    def copy_places(self, origin: str) -> list[TopicPartition]:
        return [
            TopicPartition(mirror_records.from_origin(JOB.topic, origin), number) for number in range(PARTITIONS)
        ]

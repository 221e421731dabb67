"""A region of the simulated world: a log that remembers what compaction takes, and drivers of any generation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from cutwater.adapters import wire
from cutwater.adapters.avro import Codec
from cutwater.adapters.parents import kept_behind, unheld
from cutwater.core import mirrored, topics
from cutwater.core.cuts import Cut, TopicPartition
from cutwater.core.driving import Plan
from cutwater.core.errors import UsageError
from cutwater.core.generations import Generation
from cutwater.core.job import WINDOW_KEY_SCHEMA
from cutwater.core.mirrored import SOURCE_OFFSET
from cutwater.core.origins import FIRST, Origin, require_kept
from cutwater.core.records import Milestone
from cutwater.core.rejection import Seen
from cutwater_spark.parentage import parent_milestone
from simulation.disk import Disk
from simulation.job import HOUR_MS, JOB, PARTITION_OF, PARTITIONS, key_bytes, value_bytes
from simulation.log import Headers, Log, Outcome, Place, Record, Transaction
from simulation.processes import Process
from simulation.spark import Driver, Event, Habits

Window = tuple[str, int]
SUMMED = replace(JOB, measures=tuple(replace(one, kind="sum") for one in JOB.measures))
"""The same job, as one that a generation may be started of."""
_keys, _values = Codec(WINDOW_KEY_SCHEMA), Codec(JOB.state_schema)


class KeptLog(Log):
    """Remembers every record that was ever written, for whoever asks what should be there."""

    def __init__(self, now_ms: int, name: str) -> None:
        super().__init__(now_ms, name=name)
        self.kept: dict[Place, list[Record]] = defaultdict(list)

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
        for one in self.kept[place]:
            seen = one.transaction is None or one.transaction.outcome is Outcome.COMMITTED
            if seen and one.offset >= first and (end is None or one.offset < end):
                yield one


def window_of(key: bytes) -> Window:
    decoded = _keys.decode(key)
    return decoded["key"], wire.millis(decoded["window_start"])


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


class Checkpoint(Disk):
    """Of one generation; with the seed that it began with."""

    def __init__(self) -> None:
        super().__init__()
        self.seed: dict[Window, int] | None = None


class RegionDriver(Driver):
    """Works for any generation; one that was claimed goes on from its parent milestone."""

    def __init__(
        self, process: Process, log: Log, disk: Checkpoint, book: Book, clock: object, generation: Generation
    ) -> None:
        self.generation, self.changelog = generation, topics.changelog(JOB.name, generation)
        self._disk, self._book = disk, book
        super().__init__(process, log, disk, [], Habits(), clock)

    def _run(self) -> None:
        settings: Any = SimpleNamespace(cluster=self._cluster, generation=self.generation)
        parent = parent_milestone(SUMMED, settings)
        self._parent = parent
        self.origin = Origin.of(parent) if parent else FIRST
        own = [TopicPartition(JOB.topic, number) for number in range(PARTITIONS)]
        self._places = [place for place, _ in parent.source_cut] if parent else own
        if parent is not None and self._disk.seed is None:
            seed = self._seed(parent)
            self._disk.seed = self._disk.seed or seed
        super()._run()

    def _seed(self, parent: Milestone) -> dict[Window, int]:
        """What a Spark batch reads: the newest row of each key below the cut, above the horizon."""
        require_kept(parent, kept_behind(self._cluster, parent.source_cut))  # type: ignore[arg-type]
        found: dict[bytes, int] = {}
        for place, cut in parent.changelog_cut:
            self._process.pause()
            records = self._log.topics[place.topic][place.partition].records
            found |= folded(one for one in records if one.offset < cut and _visible(one))
        cluster, now_ms = self._cluster, self._now_ms
        # Asked last: hours may have passed. Nobody has snapshots here.
        why = unheld(cluster, JOB.name, parent, self.generation.region, now_ms)  # type: ignore[arg-type]
        if why:
            raise UsageError(why)
        windows = {window_of(key): total for key, total in found.items()}
        return {one: total for one, total in windows.items() if one[1] + HOUR_MS > parent.horizon_ms}

    def _next_plan(self, epoch: int) -> Plan | None:
        before = self._checkpoint.plan(epoch - 1) if epoch else Plan(self.origin.source_cut, 0)
        ends = {place: self._end(place, before.source_cut.offset(place)) for place in self._places}
        seen = [one.at_ms for place in self._places for one in self._read(place, 0, before.source_cut)]
        watermark = max(before.watermark_ms, max(seen, default=0) - JOB.lateness_ms)
        cut = Cut.of(ends)
        begins = not epoch and self._parent is not None
        if not begins and cut == before.source_cut and (watermark == before.watermark_ms or not epoch):
            return None
        return Plan(cut, watermark) if begins or any(ends.values()) else None

    def _end(self, place: TopicPartition, known: int) -> int:
        end = self._log.topics[place.topic][place.partition].stable_end
        return max(known, min(end, known + JOB.max_events_per_epoch))

    def _records(self, place: TopicPartition, first: int, cut: Cut) -> list[Record]:
        records, end = self._log.topics[place.topic][place.partition].records, cut.offset(place)
        return [one for one in records if first <= one.offset < end and _visible(one)]

    def _read(self, place: TopicPartition, first: int, cut: Cut) -> list[Event]:
        return [self._book.by_name[one.value or b""] for one in self._records(place, first, cut)]

    def _before(self, epoch: int) -> Cut:
        return self._checkpoint.plan(epoch - 1).source_cut if epoch else self.origin.source_cut

    def _seen(self, epoch: int) -> Seen:
        before, cut = self._before(epoch), self._checkpoint.plan(epoch).source_cut
        read = {place: self._records(place, before.offset(place), cut) for place in self._places}
        copied = {
            place: int(dict(found[-1].headers or ())[SOURCE_OFFSET]) + 1
            for place, found in read.items()
            if found and place.topic != JOB.topic
        }
        return Seen(events=sum(map(len, read.values())), copied=copied)

    def _aggregate(self, epoch: int, writer: int) -> list[list[tuple[bytes, bytes]]]:
        cut, begun = self._checkpoint.plan(epoch).source_cut, self.origin.source_cut
        totals = dict(self._disk.seed or {})
        for window, total in added(
            one for place in self._places for one in self._read(place, begun.offset(place), cut)
        ).items():
            totals[window] = totals.get(window, 0) + total
        before = self._before(epoch)
        changed = added(one for place in self._places for one in self._read(place, before.offset(place), cut))
        rows: list[list[tuple[bytes, bytes]]] = [[] for _ in range(PARTITIONS)]
        for window in dict.fromkeys([*(() if epoch else totals), *changed]):
            rows[PARTITION_OF[window[0]]].append((key_bytes(*window), value_bytes(totals[window], writer)))
        return rows


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
        own = topics.owned(JOB.name, generation, PARTITIONS, JOB.output)
        for one in [*own, topics.events(JOB.topic, PARTITIONS)]:
            self.log.create(one.name, one.partitions, dict(one.config))

    def has(self, topic: str) -> bool:
        return topic in self.log.topics

    def own_places(self) -> list[TopicPartition]:
        count = len(self.log.topics.get(JOB.topic, ()))
        return [TopicPartition(JOB.topic, number) for number in range(count)]

    def copy_places(self, origin: str) -> list[TopicPartition]:
        return [TopicPartition(mirrored.from_origin(JOB.topic, origin), number) for number in range(PARTITIONS)]

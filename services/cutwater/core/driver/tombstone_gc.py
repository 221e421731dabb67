"""Garbage collection of the changelog: the records that get a tombstone, and when a scan is worth its cost.

The horizon alone defines the state; a tombstone only lets compaction free space. So a tombstone written twice, by
a killed attempt or a zombie, changes nothing if its window is below the horizon.

Each partition is scanned once and in order. The first record whose window is above the horizon stops the scan
until the horizon has passed it. So nothing is skipped, and only the position must be remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from cutwater.core.driver.row_proof import ChangelogRow
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier

SLICE_RECORDS = 5_000
"""Records scanned per epoch at least; a larger epoch scans as many records as it wrote, so the scan keeps up."""
SLICE_RECORDS_MAX = 100_000
_NEVER_MS = -(1 << 62)


class ScanPosition(NamedTuple):
    """The position of the scan in one partition."""

    position: int
    """Every record below it has been scanned."""
    oldest_ms: int | None = None
    """The window end of the record at the position; None if unknown."""


class Slice(NamedTuple):
    """The result of one scan."""

    keys: list[bytes]
    """The keys that get a tombstone, without duplicates."""
    place: ScanPosition


def places(partitions: int, collected: Sequence[int]) -> list[ScanPosition]:
    """Return the positions from which an attempt continues: those in the barrier, otherwise the start."""
    return [ScanPosition(collected[number] if number < len(collected) else 0) for number in range(partitions)]


def due(place: ScanPosition, horizon_ms: int, watermark_ms: int, share: float) -> bool:
    """Return whether at least `share` of the changelog's event time is below the horizon; false if unknown."""
    if place.oldest_ms is None:
        return False
    below = horizon_ms - place.oldest_ms
    return below >= 0 and below >= share * (watermark_ms - place.oldest_ms)


def sift(records: Iterable[ChangelogRow], end: int, horizon_ms: int, records_max: int) -> Slice:
    """Return the keys that get a tombstone, of one partition's records from a position up to `end`. Scans at most
    `records_max` records, and none after the first whose window is above the horizon."""
    keys: dict[bytes, None] = {}
    for number, record in enumerate(records):
        if record.key is None or record.value is None:
            continue  # an earlier tombstone
        if record.end_ms is None or record.end_ms > horizon_ms or number >= records_max:
            return Slice(list(keys), ScanPosition(record.offset, record.end_ms))
        keys[record.key] = None
    return Slice(list(keys), ScanPosition(end))


def is_garbage(record: ChangelogRow, generation: Generation, horizon_ms: int) -> bool:
    """Return whether a record is a tombstone by this generation for a window below the horizon."""
    if record.value is not None or record.key is None or record.end_ms is None or record.writer is None:
        return False
    return record.writer.generation == generation and record.end_ms <= horizon_ms


class Log(Protocol):
    """A changelog to scan."""

    def records(self, partition: int, first: int, end: int) -> Iterable[ChangelogRow]:
        """Return a partition's records from `first` up to `end`, tombstones included."""


Bury = Callable[[int, Sequence[bytes], Writer], None]
"""Writes acknowledged tombstones to a partition; raises an error otherwise."""


class Collector:
    """Clears the changelog in slices. Each barrier has its positions, so the next attempt continues there."""

    def __init__(self, log: Log, partitions: int, bury: Bury, share: float, last: Barrier | None) -> None:
        """`share`: the part of the changelog's event time that must be below the horizon before clearing."""
        self._log = log
        self._bury = bury
        self._share = share
        self._places = places(partitions, last.collected if last else ())

    @property
    def collected(self) -> tuple[int, ...]:
        """By partition, the offset below which nothing is left to clear."""
        return tuple(place.position for place in self._places)

    def collect(self, me: Writer, before: Barrier | None) -> dict[int, int]:
        """Clear a slice of one partition below the horizon of `before`, a committed barrier. Returns the number of
        tombstones by partition. If writing fails, the epoch runs again, and a tombstone may be written twice."""
        if before is None or before.horizon_ms <= 0 or self._share >= 1:
            return {}
        partition = me.epoch % len(self._places)
        end = {place.partition: offset for place, offset in before.changelog_cut}.get(partition, 0)
        place = self._find_oldest(partition, end)
        if not due(place, before.horizon_ms, before.watermark_ms, self._share):
            return {}
        records_max = min(max(SLICE_RECORDS, before.rows), SLICE_RECORDS_MAX)
        found = sift(self._log.records(partition, place.position, end), end, before.horizon_ms, records_max)
        if found.keys:
            self._bury(partition, found.keys, me)
        self._places[partition] = found.place
        return {partition: len(found.keys)} if found.keys else {}

    def _find_oldest(self, partition: int, end: int) -> ScanPosition:
        """Return the position with the window end of its first row."""
        place = self._places[partition]
        if place.oldest_ms is None and place.position < end:
            place = sift(self._log.records(partition, place.position, end), end, _NEVER_MS, 0).place
            self._places[partition] = place
        return place

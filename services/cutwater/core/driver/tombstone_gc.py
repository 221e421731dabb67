"""Garbage collection of the changelog: which records get a tombstone, and when it is worth while to look.

The horizon alone says what exists; a tombstone only lets compaction free the room. So a tombstone that is written
twice, by a killed attempt or by a zombie, changes nothing, as long as its window is below the horizon.

Each partition is looked through once, from its beginning and in order. The first record whose window is above the
horizon ends the look until the horizon has passed it: nothing is passed over, and nothing need be remembered but
how far the look has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from cutwater.core.driver.row_proof import ChangelogRow, Writer
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier

SLICE_RECORDS = 5_000
"""What is looked at in one epoch at least; of a larger epoch as many records as it wrote, so the look keeps up."""
SLICE_RECORDS_MAX = 100_000
_NEVER_MS = -(1 << 62)


class Place(NamedTuple):
    """Where the look through one partition has come."""

    position: int
    """Every record below it was looked at."""
    oldest_ms: int | None = None
    """The end of the window that the record at the position is of; None where that is not known."""


class Slice(NamedTuple):
    """What one look found."""

    keys: list[bytes]
    """The keys that get a tombstone, each once."""
    place: Place


def places(partitions: int, collected: Sequence[int]) -> list[Place]:
    """Where an attempt goes on: where the barrier says that an earlier one was, or at the beginning."""
    return [Place(collected[number] if number < len(collected) else 0) for number in range(partitions)]


def due(place: Place, horizon_ms: int, watermark_ms: int, share: float) -> bool:
    """Is more than a share of what the changelog covers, in event time, below the horizon?

    Never, where the oldest window is not known.
    """
    if place.oldest_ms is None:
        return False
    below = horizon_ms - place.oldest_ms
    return below >= 0 and below >= share * (watermark_ms - place.oldest_ms)


def sift(records: Iterable[ChangelogRow], end: int, horizon_ms: int, records_max: int) -> Slice:
    """What gets a tombstone, of the records of one partition from a place up to `end`.

    At most `records_max` of them are looked at, and none behind the first whose window is above the horizon.
    """
    keys: dict[bytes, None] = {}
    for number, record in enumerate(records):
        if record.key is None or record.value is None:
            continue  # no row: a tombstone of earlier
        if record.end_ms is None or record.end_ms > horizon_ms or number >= records_max:
            return Slice(list(keys), Place(record.offset, record.end_ms))
        keys[record.key] = None
    return Slice(list(keys), Place(end))


def is_garbage(record: ChangelogRow, generation: Generation, horizon_ms: int) -> bool:
    """A tombstone by any attempt of this generation, for a window that does not exist any more."""
    if record.value is not None or record.key is None or record.end_ms is None or record.writer is None:
        return False
    return record.writer.generation == generation and record.end_ms <= horizon_ms


class Log(Protocol):
    """A changelog to look through."""

    def records(self, partition: int, first: int, end: int) -> Iterable[ChangelogRow]:
        """What one partition holds from `first` up to `end`, tombstones included."""


Bury = Callable[[int, Sequence[bytes], Writer], None]
"""Writes tombstones to a partition, each acknowledged or an error."""


class Collector:
    """Clears the changelog in slices. Its place is in every barrier, so that the next attempt goes on there."""

    def __init__(self, log: Log, partitions: int, bury: Bury, share: float, last: Barrier | None) -> None:
        """`share`: how much of the changelog must be below the horizon, in event time, before it is cleared."""
        self._log = log
        self._bury = bury
        self._share = share
        self._places = places(partitions, last.collected if last else ())

    @property
    def collected(self) -> tuple[int, ...]:
        """Per partition: below this offset there is nothing more to clear."""
        return tuple(place.position for place in self._places)

    def collect(self, me: Writer, before: Barrier | None) -> dict[int, int]:
        """Clear a slice of one partition, of what `before`, a committed barrier, says is below the horizon.

        Returns how many tombstones were written, by partition. Where writing them fails, the epoch is told again
        and they may come twice.
        """
        if before is None or before.horizon_ms <= 0 or self._share >= 1:
            return {}
        partition = me.epoch % len(self._places)
        end = {place.partition: offset for place, offset in before.changelog_cut}.get(partition, 0)
        place = self._known(partition, end)
        if not due(place, before.horizon_ms, before.watermark_ms, self._share):
            return {}
        records_max = min(max(SLICE_RECORDS, before.rows), SLICE_RECORDS_MAX)
        found = sift(self._log.records(partition, place.position, end), end, before.horizon_ms, records_max)
        if found.keys:
            self._bury(partition, found.keys, me)
        self._places[partition] = found.place
        return {partition: len(found.keys)} if found.keys else {}

    def _known(self, partition: int, end: int) -> Place:
        """The place, with the age of the first row there."""
        place = self._places[partition]
        if place.oldest_ms is None and place.position < end:
            place = sift(self._log.records(partition, place.position, end), end, _NEVER_MS, 0).place
            self._places[partition] = place
        return place

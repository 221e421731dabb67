"""Load by shard and by key, from rows that the changelog already holds.

Theory of operation. Each epoch writes one row for each (key, window) that its events touched, and milestones name
the offsets between which its rows are. So rows by milestone and shard are counted by offset alone. A row's count
is the sum over all events of its window so far. The events of one milestone are therefore its count less the count
of the row before. Rows of *earlier* milestones (the warm-up) are read for that alone.

A row that the warm-up does not hold is either of a new window, and all of its events are new, or of a window
without events for long. Events of the latter are counted too often. If each event has one row, the sum of that is
the sum of all counted events less those of the milestones: `ShardLoad.overcount`.

Memory: one number per row read, one per shard and milestone, and a bounded number of keys (`Heaviest`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.job.shards import ShardMap
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.size_census import Heaviest, short_key

KEYS_HELD = 20_000
"""Keys that are counted separately: fewer than that are counted exactly."""
KEYS_SHOWN = 100


class KeyLoad(NamedTuple):
    """One of the heaviest keys. The true number is from `events` less `ShardLoad.overcount` to `events` plus
    `ShardLoad.keys_error`."""

    key: str
    events: int
    rows: int
    """Too small by at most `ShardLoad.rows_error`."""


@dataclass(frozen=True)
class ShardLoad:
    """The load between two milestones."""

    milestones: tuple[Milestone, ...]
    """Those whose rows are counted, oldest first."""
    source: Mapping[int, int]
    """Records by source partition, from the source cuts. Transaction markers count, too."""
    rows_by_partition: tuple[int, ...]
    """Rows by partition of the changelog, as the milestones say."""
    cells: tuple[tuple[int, ...], ...]
    """Weight by milestone and shard: events, or rows of a job without a count."""
    shard_rows: tuple[int, ...]
    keys: tuple[KeyLoad, ...]
    """The heaviest first."""
    keys_error: int
    """At most so much is missing from a key's events (of a job without a count: from its rows)."""
    rows_error: int
    measured: bool
    """Whether `events` are events; else the job has no count of events, and they are rows."""
    overcount: int | None
    """Events that were counted twice, of all keys together; None if the milestones do not tell."""
    warm_up: int
    """Earlier milestones that were read for the counts before."""
    rows_read: int

    @property
    def events(self) -> int:
        """The sum over all shards."""
        return sum(map(sum, self.cells))

    @property
    def shards(self) -> tuple[int, ...]:
        """The weight by shard."""
        return tuple(map(sum, zip(*self.cells, strict=True))) if self.cells else ()


class MilestoneRange(NamedTuple):
    """Which milestones are counted, and from where on their rows are read."""

    counted: tuple[Milestone, ...]
    warm_up: tuple[Milestone, ...]
    since: Milestone | None
    """The last one whose rows are not read; None to read from the start of the changelog."""
    before: Milestone | None
    """The last one that is not counted."""

    @property
    def records(self) -> int:
        """The most records in the range."""
        return self.counted[-1].changelog_cut.records_since(self.since.changelog_cut if self.since else Cut())


def milestone_range(
    found: Sequence[Milestone], wanted: int, claimed: bool, records_max: int
) -> MilestoneRange | None:
    """Return the newest `wanted` of these milestones, and as many before them for the warm-up; None if none can be
    counted.

    `found`: contiguous milestones of one generation, oldest first. The rows of the oldest one are known only if it
    is the generation's first. `claimed`: that first one contains the parent's state, which is no load. Fewer are
    counted if the range would have more than `records_max` records, but at least one.
    """
    whole = bool(found) and found[0].epoch == 0
    first = 1 if claimed or not whole else 0
    count = min(wanted, len(found) - first)
    while count > 0:
        begin = len(found) - count
        warm = min(count, begin if whole else begin - 1)
        at = begin - warm
        since, before = (found[one - 1] if one > 0 else None for one in (at, begin))
        made = MilestoneRange(tuple(found[begin:]), tuple(found[at:begin]), since, before)
        if count == 1 or made.records <= records_max:
            return made
        count //= 2
    return None


class LoadTally:
    """The sums of one range; not reusable. Rows are added in log order within a partition."""

    def __init__(
        self, range_: MilestoneRange, shards: ShardMap, measured: bool, keys_held: int = KEYS_HELD
    ) -> None:
        self._range = range_
        self._shards = shards.shards
        self._measured = measured
        self._cells = [[0] * shards.shards for _ in range_.counted]
        self._shard_rows = [0] * shards.shards
        self._events, self._rows = Heaviest(keys_held // 2), Heaviest(keys_held // 2)
        self._counts: dict[bytes, int] = {}
        self._read = 0
        # By partition: the offset at which each counted milestone begins, and that at which the last one ends.
        marks = [
            range_.before.changelog_cut if range_.before else Cut(),
            *(m.changelog_cut for m in range_.counted),
        ]
        places = [place for place, _ in marks[-1]]
        self._marks = {place.partition: [cut.offset(place) for cut in marks] for place in places}

    def add(self, partition: int, offset: int, shard: int, key: str, row: bytes, count: int) -> None:
        """Add one live row. `row`: the bytes that identify it; `count`: its events so far, 0 without a count."""
        self._read += 1
        new = count
        if self._measured:
            new = max(0, count - self._counts.get(row, 0))
            self._counts[row] = count
        column = bisect_right(self._marks[partition], offset) - 1
        if not 0 <= column < len(self._cells):
            return
        name = short_key(key)
        weight = new if self._measured else 1
        self._cells[column][shard] += weight
        self._shard_rows[shard] += 1
        self._rows.add(name, 1)
        if weight:
            self._events.add(name, weight)

    def load(self, one_row_each: bool) -> ShardLoad:
        """Return the sums. `one_row_each`: whether each event is in exactly one row."""
        counted, before = self._range.counted, self._range.before
        rows = dict(self._rows.first(2 * KEYS_HELD))
        keys = tuple(KeyLoad(key, n, rows.get(key, 0)) for key, n in self._events.first(KEYS_SHOWN))
        events = sum(map(sum, self._cells))
        accepted = sum(one.events - one.rejected - one.late for one in counted)
        tells = self._measured and one_row_each and events >= accepted
        return ShardLoad(
            milestones=counted,
            source=_source(before, counted[-1]),
            rows_by_partition=_partition_rows(counted),
            cells=tuple(map(tuple, self._cells)),
            shard_rows=tuple(self._shard_rows),
            keys=keys,
            keys_error=self._events.error,
            rows_error=self._rows.error,
            measured=self._measured,
            overcount=events - accepted if tells else None,
            warm_up=len(self._range.warm_up),
            rows_read=self._read,
        )


def _source(before: Milestone | None, last: Milestone) -> dict[int, int]:
    """Return the records by partition number; of several source topics together."""
    earlier, found = before.source_cut if before else Cut(), dict[int, int]()
    for place, end in last.source_cut:
        found[place.partition] = found.get(place.partition, 0) + max(0, end - earlier.offset(place))
    return found


def _partition_rows(counted: Sequence[Milestone]) -> tuple[int, ...]:
    many = max(len(one.partition_rows) for one in counted)
    return tuple(
        sum(one.partition_rows[at] for one in counted if at < len(one.partition_rows)) for at in range(many)
    )

"""The rows that a replay expects: those of the milestone that it starts from, merged with the replayed ones.

A replay counts the events after a milestone on their own, from empty rows. Every measure merges: the row of that
milestone and the replayed row of the same window together are the row of all events. No seed is needed.

`first` and `last` of equal event times go by the offset of the event. A replay reads copies, whose offsets are
numbers from 0 on. So each place in a replayed row is translated to the source's offset before it is merged: then
the order is the source's, also beside events that were counted before.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.job.measures import Measure, Partials
from cutwater.core.output.state_diff import Rows
from cutwater.core.past.state_difference import ShownRow

POSITIONED = frozenset({"first", "last", "min_by", "max_by"})
"""The kinds of measures whose rows have the place of an event."""
RUNS_MAX = 4_000_000
"""The most runs of offsets without a gap, over all partitions: 16 bytes each."""

RowValues = tuple[bytes | None, ...]
"""A row's value in each of several states; None where it is not there."""


def keeps_places(job: Job) -> bool:
    return any(one.kind in POSITIONED for one in job.measures)


class SourceOffsets:
    """The source's offsets of copied records, by their numbers in the copy of their partition."""

    def __init__(self, runs_max: int = RUNS_MAX) -> None:
        self._numbers: dict[int, array[int]] = {}
        """By partition: the number of the first record of each run."""
        self._offsets: dict[int, array[int]] = {}
        self._next: dict[int, tuple[int, int]] = {}
        """By partition: the next number, and the offset that continues the run."""
        self._left = runs_max

    def add(self, partition: int, offsets: Sequence[int]) -> None:
        """Take the offsets of the partition's next records. Raises UsageError for more gaps than fit."""
        number, following = self._next.get(partition, (0, -1))
        if offsets[0] == following and offsets[-1] - offsets[0] + 1 == len(offsets):
            self._next[partition] = number + len(offsets), offsets[-1] + 1
            return
        for offset in offsets:
            if offset != following:
                self._begin(partition, number, offset)
            number, following = number + 1, offset + 1
        self._next[partition] = number, following

    def _begin(self, partition: int, number: int, offset: int) -> None:
        if not self._left:
            raise UsageError(
                f"the source's offsets have more than {RUNS_MAX:,} gaps, as after many small transactions: replay "
                "from a later milestone"
            )
        self._left -= 1
        self._numbers.setdefault(partition, array("q")).append(number)
        self._offsets.setdefault(partition, array("q")).append(offset)

    def source(self, partition: int, number: int) -> int:
        """Return the source's offset of a copied record."""
        numbers = self._numbers[partition]
        run = bisect_right(numbers, number) - 1
        return self._offsets[partition][run] + number - numbers[run]


class ReplayMerge:
    """Merges the rows of a milestone with replayed ones. `before`: the job of that milestone's rows, None if the
    replay starts with the source. `offsets`: None if no row has the place of an event."""

    def __init__(self, replayed: Job, before: Job | None, offsets: SourceOffsets | None) -> None:
        self._measures = replayed.measures
        self._offsets = offsets
        self._places = [one.partials[0].column for one in replayed.measures if one.kind in POSITIONED]
        mergeable = merging(replayed if before is None else before, replayed)
        self.names = frozenset(one.name for one in mergeable)
        """The measures that can be told of a merged row."""
        self._merged = {part.column: part.merge for one in mergeable for part in one.partials}
        every = [part for one in replayed.measures for part in one.partials]
        self._unmerged = {part.column: None for part in every if not part.mergeable}

    @property
    def keeps_bytes(self) -> bool:
        """Whether a replayed row has the bytes that the job's own has."""
        return self._offsets is None or not self._places

    def partials(self, before: Partials | None, replayed: Partials | None) -> Partials:
        """Return the partials of all events of a row; one of both must be there."""
        if replayed is None:
            return {column: before.get(column) for column in self._merged} if before else {}
        placed = self._with_offsets(replayed)
        if before is None:
            return placed
        made = {**placed, **self._unmerged}
        for column, merge in self._merged.items():
            one, other = before[column], placed[column]
            made[column] = other if one is None else one if other is None else merge(one, other)
        return made

    def shown(self, partials: Partials) -> ShownRow:
        told = {one.name: one.present(partials) for one in self._measures if one.name in self.names}
        return ShownRow(told, partials)

    def _with_offsets(self, partials: Partials) -> Partials:
        if self._offsets is None or not self._places:
            return partials
        made = dict(partials)
        for column in self._places:
            if (place := made[column]) is not None:
                made[column] = {**place, "offset": self._offsets.source(place["partition"], place["offset"])}
        return made


def merging(before: Job, after: Job) -> list[Measure]:
    """Return the measures of `after` whose rows merge with those of `before`: of one name, kind and form."""
    known = {one.name: (one.kind, _form(one)) for one in before.measures}
    alike = [one for one in after.measures if known.get(one.name) == (one.kind, _form(one))]
    found = [one for one in alike if all(part.mergeable for part in one.partials)]
    columns = {part.column for one in found for part in one.partials}
    return [one for one in found if columns.issuperset(one.reads)]


def _form(measure: Measure) -> list[tuple[str, Any]]:
    return [(part.column, part.avro) for part in measure.partials]


def side_by_side(states: Sequence[Iterator[Rows]]) -> Iterator[tuple[bytes, RowValues]]:
    """Yield the rows of several states by name, in order. Each state has its rows in the order of their names."""

    def tagged(number: int, pieces: Iterator[Rows]) -> Iterator[tuple[bytes, int, bytes]]:
        return ((name, number, value) for piece in pieces for name, value in piece)

    every = heapq.merge(*(tagged(*one) for one in enumerate(states)), key=itemgetter(0, 1))
    for name, group in groupby(every, key=itemgetter(0)):
        values = {number: value for _, number, value in group}
        yield name, tuple(values.get(number) for number in range(len(states)))

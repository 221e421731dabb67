"""What a changelog and an output tell of one row, as accounts for its history (`core.past.row_history`)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from cutwater.core.past.row_history import Account, AccountRange, Base, LoggedValue, Values, VisibleSpan
from cutwater.core.protocol.changelog_rows import Writer

Merge = Callable[[Mapping[int, bytes]], Values]
"""Returns the row of its panes, by their starts; of a row that is no window of panes, of its only one."""


class RowRecord(NamedTuple):
    """A record of the row on a changelog; of a window of panes, of one of them."""

    offset: int
    pane: int
    """The start of the pane, in ms."""
    value: bytes | None
    """None for a tombstone."""
    written_ms: int
    """The broker's time."""
    writer: Writer | None = None


class SpanLog(NamedTuple):
    """What a generation's changelog holds of a row."""

    span: VisibleSpan
    topic: str
    """With the partition."""
    ends: Sequence[int]
    """By milestone of the span: the end of the row's partition in its cut."""
    records: Sequence[RowRecord]
    """In log order, also those above the last end."""
    cleared: frozenset[int]
    """Panes below the horizon of the last milestone: tombstones may have removed all their records."""
    complete: bool = True
    """Whether no records were deleted at the start of the log."""


def changelog_account(log: SpanLog, panes: Sequence[int], young_ms: int, merge: Merge) -> Account:
    """Return what a generation's changelog tells. `young_ms`: compaction has not seen records written after it."""
    own = {pane: [one for one in log.records if one.pane == pane] for pane in panes}
    starts = [_known_from(log, pane, records, young_ms) for pane, records in own.items()]
    known = [one for one in starts if one is not None]
    if len(known) < len(starts):
        return Account("changelog", (), ())
    first = max(known, default=log.span.first)
    base = Base.STATE if first == log.span.first else Base.UNKNOWN
    return Account("changelog", (AccountRange(first, log.span.last, base),), tuple(_logged(log, merge)))


def _known_from(log: SpanLog, pane: int, records: Sequence[RowRecord], young_ms: int) -> int | None:
    """Return the milestone from which every change of a pane is known; None if of none."""
    from_start = log.complete and (records[0].written_ms > young_ms if records else pane not in log.cleared)
    if from_start:
        return log.span.first  # no record before it was ever removed
    return _sequence(log, records[0].offset) if records else None


def _logged(log: SpanLog, merge: Merge) -> list[LoggedValue]:
    found, held = list[LoggedValue](), dict[int, bytes]()
    for sequence, records in groupby(log.records, key=lambda one: _sequence(log, one.offset)):
        if sequence is None:
            break
        last = None
        for last in records:
            if last.value is None:
                held.pop(last.pane, None)
            else:
                held[last.pane] = last.value
        if last is not None:
            place = f"{log.topic}@{last.offset}"
            found.append(LoggedValue(sequence, merge(held) if held else None, place, last.writer))
    return found


def _sequence(log: SpanLog, offset: int) -> int | None:
    """Return the first milestone of the span that holds a record; None if none does."""
    at = bisect_right(log.ends, offset)
    return log.span.first + at if at < len(log.ends) else None


class OutputBatch(NamedTuple):
    """An end marker: the milestones whose rows are before it, and the row among them."""

    first: int
    last: int
    row: LoggedValue | None
    """None: the row is not among them."""


def output_account(
    batches: Sequence[OutputBatch], is_truncated: bool, hand_overs: Collection[int] = frozenset()
) -> Account:
    """Return what an output of updates tells. `batches`: those of the row's partition, in log order, from the
    first end marker on. `is_truncated`: the retention has deleted records before it. `hand_overs`: the first
    milestone of each generation but the first."""
    kept = batches[1:] if is_truncated else batches
    rows = tuple(
        one.row._replace(sequence=one.last, since=one.first if one.first < one.last else 0)
        for one in kept
        if one.row is not None
    )
    return Account("output", tuple(_output_ranges(kept, hand_overs)), rows)


def _output_ranges(batches: Sequence[OutputBatch], hand_overs: Collection[int]) -> Iterator[AccountRange]:
    """Yield the milestones of which every change is published. A hand-over publishes the difference of two states:
    what changed and changed back between them is not in it."""
    start = batches[0].first if batches else 0
    for one in batches:
        if one.first < one.last and any(one.first <= at <= one.last for at in hand_overs):
            if start < one.first:
                yield AccountRange(start, one.first - 1, Base.UNKNOWN)
            start = one.last
    if batches:
        yield AccountRange(start, batches[-1].last, Base.UNKNOWN)

"""The history of one row, put together from what still tells of it.

Theory of operation. Readers saw the row at each milestone of the commit stream, one generation after the other.
Two logs tell what it was:

- The changelog of a generation holds a record for each epoch that changed the row. Compaction removes a record
  only together with all earlier ones of its key, so what is left of a key is the end of its history, without a
  gap. The history is known from the first record that is left. It is known from the generation's start if that
  record is so young that compaction cannot have removed one before it, or if it was there at the generation's
  first milestone.
- The output holds a record for each milestone that changed the row, as far back as its retention.

Each log gives an *account*: the ranges of sequences in which it tells every change. The changelog is preferred,
the output fills what it lacks. What neither tells is a gap, and snapshots give the row at single milestones in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.generation import Generation

Values = Mapping[str, Any]
"""By measure, as users see them."""


class VisibleSpan(NamedTuple):
    """One generation's milestones on the commit stream."""

    generation: Generation
    first: int
    last: int
    rewinds_to: int = 0
    """In a rollback: the sequence whose state it returned to."""


class Base(StrEnum):
    """What is known of the row before an account's range."""

    UNKNOWN = "unknown"
    """The first value of the range is a write, and what it replaced is not known."""
    FOLLOWS = "follows"
    """The row is as the milestone before the range left it."""
    STATE = "state"
    """The first value of the range is the state at its first milestone, written at any time before it."""


class AccountRange(NamedTuple):
    first: int
    last: int
    base: Base


class LoggedValue(NamedTuple):
    """A value of the row, as a log holds it."""

    sequence: int
    values: Values | None
    """None: the row is not there."""
    place: str
    """Topic, partition and offset of the record."""
    writer: Writer | None = None
    since: int = 0
    """The first of several milestones that were published as one; 0 for one milestone."""


class Account(NamedTuple):
    source: str
    ranges: tuple[AccountRange, ...]
    logged: tuple[LoggedValue, ...]
    """In the order of sequences; those outside of the ranges do not count."""


class EventKind(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REWRITTEN = "rewritten"
    """An epoch wrote the row again, with the same values."""
    REMOVED = "removed"
    EXPIRED = "expired"
    """The window passed the horizon."""
    SEEN = "seen"
    """The row as it was at a milestone, which need not have changed it."""


@dataclass(frozen=True)
class RowEvent:
    """What a milestone did to the row."""

    sequence: int
    kind: EventKind
    before: Values | None
    """None also if it is not known, as `before_known` says."""
    after: Values | None
    before_known: bool
    source: str
    place: str = ""
    writer: Writer | None = None
    since: int = 0
    undone: bool = False
    """A rollback went back to a milestone before it."""


class Gap(NamedTuple):
    """Milestones whose changes of the row nothing tells."""

    first: int
    last: int


class Known(NamedTuple):
    """The row at all milestones from `first` to `last`."""

    first: int
    last: int
    values: Values | None


class Unknown(NamedTuple):
    """What the row was at these milestones is not known."""

    first: int
    last: int


Stretch = Known | Unknown


@dataclass(frozen=True)
class RowHistory:
    events: tuple[RowEvent, ...]
    gaps: tuple[Gap, ...]
    stretches: tuple[Stretch, ...]
    """The row at every milestone, in order and without a hole."""


class _Piece(NamedTuple):
    """A part of the history that one account tells."""

    range: AccountRange
    source: str
    logged: tuple[LoggedValue, ...]


def row_history(
    spans: Sequence[VisibleSpan],
    accounts: Sequence[Account],
    snapshots: Sequence[LoggedValue] = (),
    expired_at: int | None = None,
    begins_empty: bool = False,
) -> RowHistory:
    """Return the history over the spans, oldest first. `accounts`: the preferred one first.

    `snapshots`: the row at single milestones. `expired_at`: the first milestone whose horizon the window has
    passed. `begins_empty`: whether nothing was there before the first span, as before a job's first milestone.
    """
    if not spans:
        return RowHistory((), (), ())
    pieces, first, last = _cover(accounts), spans[0].first, spans[-1].last
    gaps = _gaps([piece.range for piece in pieces], first, last)
    seen = [_seen_piece(one) for one in snapshots if _within(one.sequence, gaps)]
    walk = _Walk(first, begins_empty)
    for piece in sorted([*pieces, *seen], key=lambda one: one.range.first):
        walk.take(piece)
    walk.skip_to(last + 1)
    if expired_at is not None:
        walk.expire(expired_at, last)
    undone = undone_ranges(spans)
    events = (replace(one, undone=_within(one.sequence, undone)) for one in walk.events)
    return RowHistory(tuple(events), tuple(gaps), tuple(walk.stretches))


class _Walk:
    """Goes through the pieces in order, and knows what the row is at the next milestone, if that is known."""

    def __init__(self, first: int, known: bool) -> None:
        """`known`: the row was not there before the milestone `first`."""
        self.events: list[RowEvent] = []
        self.stretches: list[Stretch] = []
        self._next, self._known = first, known
        self._value: Values | None = None

    def skip_to(self, sequence: int) -> None:
        """Nothing tells of the milestones before this one."""
        if self._next < sequence:
            self._known = False
            self._reach(sequence)

    def take(self, piece: _Piece) -> None:
        first, last, base = piece.range
        self.skip_to(first)
        logged = list(piece.logged)
        if base is Base.STATE:
            self._take_state(
                piece.source, logged.pop(0) if logged and logged[0].sequence == first else _absent(first)
            )
        for one in logged:
            self._reach(one.since or one.sequence)
            if one.since:
                self._reach(one.sequence, known=False)
            self._add(piece.source, one, _kind(self._value, one.values, self._known))
        self._reach(last + 1)

    def expire(self, at: int, last: int) -> None:
        """The window has passed the horizon at a milestone; nothing that is logged after it counts."""
        self.events = [one for one in self.events if one.sequence < at]
        held = self.events[-1].after if self.events else None
        if held is not None:
            self.events.append(RowEvent(at, EventKind.EXPIRED, held, None, True, "horizon"))
        self.stretches = [_until(one, at - 1) for one in self.stretches if one.first < at]
        self.stretches.append(Known(at, last, None))

    def _take_state(self, source: str, state: LoggedValue) -> None:
        if not self._known and state.values is not None:
            self._add(source, state, EventKind.SEEN)
        elif self._known and state.values != self._value:
            self._add(source, state, _kind(self._value, state.values, True))
        self._value, self._known = state.values, True

    def _add(self, source: str, one: LoggedValue, kind: EventKind) -> None:
        before = self._value if self._known else None
        self.events.append(
            RowEvent(
                *(one.sequence, kind, before, one.values, self._known, source, one.place, one.writer, one.since)
            )
        )
        self._value, self._known = one.values, True

    def _reach(self, sequence: int, known: bool = True) -> None:
        """The row stays as it is up to before this milestone."""
        if self._next < sequence:
            known = known and self._known
            bounds = self._next, sequence - 1
            self.stretches.append(Known(*bounds, self._value) if known else Unknown(*bounds))
            self._next = sequence


def _absent(sequence: int) -> LoggedValue:
    return LoggedValue(sequence, None, "")


def _until(one: Stretch, last: int) -> Stretch:
    return one._replace(last=min(one.last, last))


def _kind(before: Values | None, after: Values | None, known: bool) -> EventKind:
    if after is None:
        return EventKind.REMOVED
    if not known:
        return EventKind.CHANGED
    if before is None:
        return EventKind.ADDED
    return EventKind.REWRITTEN if before == after else EventKind.CHANGED


def _seen_piece(one: LoggedValue) -> _Piece:
    return _Piece(AccountRange(one.sequence, one.sequence, Base.STATE), "snapshot", (one,))


def _cover(accounts: Sequence[Account]) -> list[_Piece]:
    """Return disjoint parts of the history, each of the first account that tells it."""
    pieces: list[_Piece] = []
    for account in accounts:
        taken = sorted((piece.range.first, piece.range.last) for piece in pieces)
        for range_ in account.ranges:
            for part in _without(range_, taken):
                piece = _piece(account, part)
                if piece.range.first <= piece.range.last:
                    pieces.append(piece)
    return pieces


def _piece(account: Account, part: AccountRange) -> _Piece:
    first, last, base = part
    # Of milestones published as one, the row at the last one is known only.
    cuts = [one.since - 1 for one in account.logged if one.since and one.since <= last < one.sequence]
    last = min([last, *cuts])
    logged = tuple(one for one in account.logged if first <= one.sequence <= last)
    return _Piece(AccountRange(first, last, base), account.source, logged)


def _without(range_: AccountRange, taken: Iterable[tuple[int, int]]) -> list[AccountRange]:
    """Return what is left of a range. A part that begins later follows what was taken before it."""
    left, first, base = list[AccountRange](), range_.first, range_.base
    for start, end in taken:
        if end < first or start > range_.last:
            continue
        if start > first:
            left.append(AccountRange(first, start - 1, base))
        first, base = end + 1, Base.FOLLOWS
    if first <= range_.last:
        left.append(AccountRange(first, range_.last, base))
    return left


def _gaps(ranges: Iterable[AccountRange], first: int, last: int) -> list[Gap]:
    gaps: list[Gap] = []
    for one in sorted(ranges):
        if one.first > first:
            gaps.append(Gap(first, min(one.first - 1, last)))
        first = max(first, one.last + 1)
    return [*gaps, Gap(first, last)] if first <= last else gaps


def undone_ranges(spans: Sequence[VisibleSpan]) -> list[Gap]:
    """Return the milestones that are not part of the newest one's line: rollbacks went back before them."""
    undone: list[Gap] = []
    limit = spans[-1].last if spans else 0
    for span in reversed(spans):
        if limit < span.last:
            undone.append(Gap(max(span.first, limit + 1), span.last))
        if limit >= span.first:
            limit = span.rewinds_to or span.first - 1
    return undone[::-1]


def _within(sequence: int, gaps: Iterable[Gap]) -> bool:
    return any(gap.first <= sequence <= gap.last for gap in gaps)

"""The recent past of a job in slots of time, folded from its milestones, and what is unusual in it.

The statistics are robust: the median of the slots and the median of their distances from it. So a few strange
slots change neither, and a lasting change becomes the usual once it fills half of the slots. Nothing has a fixed
limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.records import Milestone

SLOTS_MAX = 240
SLOTS_OF_BUCKET = 12
"""Slots of a bucket of `job_status`: five seconds each by default, so 20 minutes are known."""
CUTS_MAX = 12
USUAL_MIN = 20
"""With fewer slots nothing is known to be usual."""
RECENT = 3
"""The newest slots, each of which must be unusual."""
RAISE, RESOLVE = 8.0, 4.0
"""Standard deviations above the usual, of a normal distribution."""
LEAST_SPREAD = 0.05
"""Of the usual: the spread of values that hardly differ counts as this."""
ROWS_MIN = 200
"""With fewer rows in a slot, chance decides which partition has the most."""
_NORMAL = 1.4826
"""Standard deviation of a normal distribution by its median distance from the median."""


class Slot(NamedTuple):
    begin_ms: int
    milestones: int = 0
    process_ms: int = 0
    """Sum of the times from the epochs' starts to their barriers."""
    commit_ms: int = 0
    """Sum of the times from there to the milestones."""
    rows: tuple[int, ...] = ()
    """Sum by partition of the changelog; only of the newest slot."""
    largest: float | None = None
    """The share of the partition with the most rows, of an even share; None with too few rows."""
    changed: int = 0
    """Rows of all partitions."""
    sequence: int = 0
    """Of the newest milestone."""


@dataclass(frozen=True)
class History:
    slots: tuple[Slot, ...] = ()
    """Oldest first."""
    cuts: tuple[tuple[int, Cut], ...] = ()
    """The first milestone's time and source cut in each bucket of time, oldest first."""
    watermark_ms: int = 0
    moved_ms: int = 0
    """When the watermark last rose, by the milestone's time; 0 before the first milestone."""
    unmoved: int = 0
    """Usable events since then."""
    has_risen: bool = False
    """Whether it rose then; the first milestone that is known shows no rise."""


def add_milestone(history: History, one: Milestone, bucket_ms: int) -> History:
    """Add a milestone. Milestones come in the order of their sequences."""
    rises = one.watermark_ms > history.watermark_ms or not history.moved_ms
    return replace(
        history,
        slots=_with_slot(history.slots, one, max(1, bucket_ms // SLOTS_OF_BUCKET)),
        cuts=_with_cut(history.cuts, one, bucket_ms),
        watermark_ms=max(history.watermark_ms, one.watermark_ms),
        moved_ms=one.committed_ms if rises else history.moved_ms,
        unmoved=0 if rises else history.unmoved + one.events - one.rejected,
        has_risen=bool(history.moved_ms) if rises else history.has_risen,
    )


def _with_slot(slots: tuple[Slot, ...], one: Milestone, slot_ms: int) -> tuple[Slot, ...]:
    begin_ms = one.committed_ms - one.committed_ms % slot_ms
    before = slots[-1] if slots else None
    if before and before.begin_ms >= begin_ms:  # the clock of the committer may have been set back
        return (*slots[:-1], _added(before, one))
    closed = (*slots[:-1], before._replace(rows=())) if before else ()
    return (*closed, _added(Slot(begin_ms), one))[-SLOTS_MAX:]


def _added(slot: Slot, one: Milestone) -> Slot:
    count = max(len(slot.rows), len(one.partition_rows))
    rows = tuple(_at(slot.rows, at) + _at(one.partition_rows, at) for at in range(count))
    whole = sum(rows)
    return Slot(
        slot.begin_ms,
        slot.milestones + 1,
        slot.process_ms + max(0, one.written_ms - one.epoch_started_ms),
        slot.commit_ms + max(0, one.committed_ms - one.written_ms),
        rows,
        max(rows) * count / whole if whole >= ROWS_MIN and count > 1 else None,
        slot.changed + one.rows,
        max(slot.sequence, one.sequence),
    )


def _at(values: Sequence[int], at: int) -> int:
    return values[at] if at < len(values) else 0


def _with_cut(cuts: tuple[tuple[int, Cut], ...], one: Milestone, bucket_ms: int) -> tuple[tuple[int, Cut], ...]:
    if cuts and cuts[-1][0] // bucket_ms >= one.committed_ms // bucket_ms:
        return cuts
    return (*cuts, (one.committed_ms, one.source_cut))[-CUTS_MAX:]


def rows_since(history: History, sequence: int, at_ms: int) -> int:
    """Return about how many rows milestones after `sequence`, which is of the time `at_ms`, have changed.

    The slot in which it is counts whole. Before the oldest slot, its rate is taken for the time in between.
    """
    newer = [one for one in history.slots if one.sequence > sequence]
    rows = sum(one.changed for one in newer)
    if not newer or len(newer) < len(history.slots):
        return rows
    span_ms = newer[-1].begin_ms - newer[0].begin_ms
    before_ms = max(0, newer[0].begin_ms - at_ms)
    return rows + (round(rows * before_ms / span_ms) if span_ms else 0)


class Comparison(NamedTuple):
    """The newest values beside all before."""

    usual: float
    now: float
    """The least of the newest."""
    is_high: bool
    is_usual: bool
    """Whether each of the newest is usual again."""


def compare_recent(values: Sequence[float], least_factor: float, least_spread: float = 0.0) -> Comparison | None:
    """Return how the newest values are beside the others, oldest first; None if too few are known.

    They are high if each is above the usual by RAISE deviations and `least_factor` times as high, and the usual is
    above 0. `least_spread`: a deviation counts as at least this.
    """
    base, recent = values[:-RECENT], values[-RECENT:]
    if len(base) < USUAL_MIN:
        return None
    usual = median(base)
    spread = max(_NORMAL * median(abs(one - usual) for one in base), LEAST_SPREAD * usual, least_spread)
    now = min(recent)
    is_high = usual > 0 and now > usual + RAISE * spread and now > least_factor * usual
    return Comparison(usual, now, is_high, max(recent) <= usual + RESOLVE * spread)


def silent_partitions(
    history: History, newest: Cut, now_ms: int, window_ms: int, expected_min: float
) -> list[str]:
    """Return source partitions without any record within `window_ms`, which would have had at least so many by
    their share before. Empty if the history does not reach further back than the window."""
    before = [cut for at_ms, cut in history.cuts if now_ms - at_ms >= window_ms]
    if len(before) < 2:
        return []
    oldest, then, now = before[0].as_dict(), before[-1].as_dict(), newest.as_dict()
    earlier = {place: offset - oldest.get(place, 0) for place, offset in then.items()}
    recent = {place: offset - then.get(place, 0) for place, offset in now.items()}
    rate = sum(recent.values()) / max(1, sum(earlier.values()))
    return [
        _name(place)
        for place, count in sorted(earlier.items())
        if recent.get(place, 0) == 0 and count * rate >= expected_min
    ]


def _name(place: TopicPartition) -> str:
    return f"{place.topic}/{place.partition}"

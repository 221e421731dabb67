"""Exact loss of a failover, once the region that was left answers again.

The claim records what was copied at the failover: the origin's next offset of each partition. All later records in
the origin are counted by reading them. Records copied afterwards have their offset in the origin; the generation
here reads them and lists late events. So each event that was missing at the failover is in one of these groups:
not copied, copied but not read yet, read in time, late for a window.

Events produced there after the failover are missing here too and count. Their number is reported separately by the
records' timestamps. As producers' clocks set these, it is not subtracted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.driver.rejected_events import LatePair
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.mirror_records import Mirrored


class Record(NamedTuple):
    """A copied event: its offset in the origin and here."""

    source: int
    local: int


@dataclass(frozen=True)
class Later:
    """The records of one partition that were copied after the failover."""

    records: int = 0
    first: int = 0
    end: int = 0
    """They are here from offset `first` up to `end`; both 0 for none."""
    read: int = 0
    """Records of these that the generation here has read."""
    gone: int = 0
    """Records of these that the origin no longer holds."""

    def holds(self, offset: int) -> bool:
        return self.first <= offset < self.end


def later(copy: Iterable[Record], since: int, end: int, read: int, kept: int = 0) -> Later:
    """Return the records of a copy, in its order, that are from `since` up to `end` in the origin. `read`: the
    source cut here. `kept`: the first offset that the origin holds."""
    found = Later()
    for record in copy:
        if since <= record.source < end:
            first = found.first if found.records else record.local
            found = Later(
                found.records + 1,
                first,
                record.local + 1,
                found.read + (record.local < read),
                found.gone + (record.source < kept),
            )
    return found


def never_copied(copied: int, position: Mirrored | None, low: int, end: int) -> int:
    """Return the number of offsets from `copied` on that the origin has deleted before a mirror read them.

    `position`: how far the partition is copied now, markers and aborted records included. `low`, `end`: the first
    offset and the end of the origin's log.
    """
    below = min(low, end)
    read = max(0, min(below, position.next) - max(copied, position.first)) if position else 0
    return max(0, below - copied) - read


class Late(NamedTuple):
    """Late entries, and the number of their events."""

    pairs: int
    events: int


def late_of(pairs: Iterable[LatePair], copied: Mapping[TopicPartition, Later]) -> Late:
    """Return the late pairs whose events were copied after the failover. `copied`: by the partition here."""
    nothing = Later()
    found = [
        one.event
        for one in pairs
        if copied.get(TopicPartition(one.event.topic, one.event.partition), nothing).holds(one.event.offset)
    ]
    return Late(len(found), len(set(found)))


@dataclass(frozen=True)
class PartitionLoss:
    """One partition of the origin's source."""

    place: TopicPartition
    copied: int
    """The offset up to which it was copied at the failover."""
    end: int
    """The current end of its committed records."""
    records: int
    """Records from `copied` on, or from `rewritten_from`, without markers and aborted ones. Read in the origin, or
    in the copy here if they were copied since and deleted there."""
    deleted: int
    """Offsets after `copied` that the origin no longer holds and that were never copied: unknown content."""
    cut: int
    """Offsets below `copied` that it no longer holds, as its log has lost its end. The copy here has them."""
    forgotten: int
    """Offsets of the copy after the parent's cut that are no longer kept here."""
    later: Later
    afterwards: int = 0
    """Those of `records` whose producers dated them after the promotion here."""
    rewritten_from: int | None = None
    """The offset from which the origin has other records now than those that were copied: its log had lost its end
    and grew again. Which of them were copied since is then not known."""

    @property
    def exact(self) -> bool:
        return not (self.deleted or self.forgotten) and self.rewritten_from is None


@dataclass(frozen=True)
class ExactLoss:
    """The loss of a failover."""

    partitions: list[PartitionLoss]
    late: Late
    problems: tuple[str, ...] = ()
    """Problems of the list of late events; it may lack entries."""
    promoted_ms: int | None = None
    """The promotion time of the generation here; None for a candidate."""

    @property
    def events(self) -> int:
        """Events in the origin that were not here at the failover."""
        return sum(one.records for one in self.partitions)

    @property
    def afterwards(self) -> int | None:
        """Events of these produced there after the promotion here; None without a promotion."""
        return None if self.promoted_ms is None else sum(one.afterwards for one in self.partitions)

    @property
    def copied(self) -> int:
        """Events of these copied since."""
        return sum(one.later.records for one in self.partitions)

    @property
    def absent(self) -> int:
        """Events of these that are only in the origin."""
        return self.events - self.copied

    @property
    def read(self) -> int:
        """Events of these read by the generation here, up to its newest milestone."""
        return sum(one.later.read for one in self.partitions)

    @property
    def exact(self) -> bool:
        return not self.problems and all(one.exact for one in self.partitions)

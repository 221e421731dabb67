"""The exact loss of a failover, once the region that was left answers again.

What was not copied at the failover is told by the claim: the origin's next offset of each partition as the fenced
mirror had written it. Everything behind it in the origin is counted by reading. What a mirror brings of it later
lies in the copy here, each record with its offset there; the generation here reads it, and lists what comes too
late. So each event that was missing then is in one of these: not copied, copied and not read yet, read in time,
late for a window.

What is still produced there afterwards is missing here like the rest, and counted with it. How much that is, is
told beside it, by the records' dates: producers' clocks decide that, so it takes nothing from the count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.driver.rejected_events import LatePair
from cutwater.core.protocol.cuts import TopicPartition


class Record(NamedTuple):
    """A copied event: where it stands there, and here."""

    source: int
    local: int


@dataclass(frozen=True)
class Later:
    """Of one partition: what was copied after the failover."""

    records: int = 0
    first: int = 0
    end: int = 0
    """It lies here from the one offset up to the other; both 0 for none."""
    read: int = 0
    """Of these the generation here has read so many."""
    gone: int = 0
    """Of these the origin does not keep so many any more."""

    def holds(self, offset: int) -> bool:
        return self.first <= offset < self.end


def later(copy: Iterable[Record], since: int, end: int, read: int, kept: int = 0) -> Later:
    """What of a copy, in its order, stands from `since` up to `end` in the origin.

    `read`: the source cut here. `kept`: the first offset that the origin keeps.
    """
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


class Late(NamedTuple):
    """What came too late: (event, window) pairs, and the events that they are of."""

    pairs: int
    events: int


def late_of(pairs: Iterable[LatePair], copied: Mapping[TopicPartition, Later]) -> Late:
    """Of the late list those whose events were copied after the failover; `copied` by the place here."""
    nothing = Later()
    found = [
        one.event
        for one in pairs
        if copied.get(TopicPartition(one.event.topic, one.event.partition), nothing).holds(one.event.offset)
    ]
    return Late(len(found), len(set(found)))


@dataclass(frozen=True)
class Missed:
    """One partition of the origin's source."""

    place: TopicPartition
    copied: int
    """Up to this offset it was copied at the failover."""
    end: int
    """Where its committed records end now."""
    records: int
    """Between the two: neither markers nor what was aborted. As read there, and in the copy here where they were
    brought since and are deleted there."""
    deleted: int
    """Offsets behind `copied` that the origin does not keep any more, and that were not brought: what they held,
    nobody knows."""
    cut: int
    """Offsets below `copied` that it does not hold any more: its log has lost its end. What was there is here."""
    forgotten: int
    """Offsets of the copy behind the parent's cut that are not kept here any more."""
    later: Later
    afterwards: int = 0
    """Of `records`: dated after the promotion here, by whoever produced them there."""

    @property
    def exact(self) -> bool:
        return not (self.deleted or self.forgotten)


@dataclass(frozen=True)
class ExactLoss:
    """What a failover has lost."""

    partitions: list[Missed]
    late: Late
    problems: tuple[str, ...] = ()
    """What is wrong with the list of late events, so that more may be on it."""
    promoted_ms: int | None = None
    """When the generation here was promoted; None where it is a candidate still."""

    @property
    def events(self) -> int:
        """In the origin and not here at the failover."""
        return sum(one.records for one in self.partitions)

    @property
    def afterwards(self) -> int | None:
        """Of these: produced there once this region went on already; None where it has not."""
        return None if self.promoted_ms is None else sum(one.afterwards for one in self.partitions)

    @property
    def copied(self) -> int:
        """Of these: brought since."""
        return sum(one.later.records for one in self.partitions)

    @property
    def absent(self) -> int:
        """Of these: still in the origin alone."""
        return self.events - self.copied

    @property
    def read(self) -> int:
        """Of these: read by the generation here, up to its newest milestone."""
        return sum(one.later.read for one in self.partitions)

    @property
    def exact(self) -> bool:
        return not self.problems and all(one.exact for one in self.partitions)

"""What an epoch observed of its input, and what follows from it for late events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutwater.core.job.windows import WindowSpec
from cutwater.core.protocol.cuts import TopicPartition


@dataclass(frozen=True)
class InputStats:
    """The observations of one epoch on its input; the default is an epoch that read nothing."""

    events: int = 0
    rejected: int = 0
    oldest_ms: int | None = None
    newest_ms: Mapping[int, int] = field(default_factory=dict)
    """The largest event time of usable events, by source partition (or slot) with any."""
    copied: Mapping[TopicPartition, int] = field(default_factory=dict)
    """For partitions copied from another region, with events: the next offset there."""

    full: bool = False
    """Whether the epoch read about as many events as it may: more of them wait."""
    size: int = 0
    """The bytes of the events' values; 0 if unknown."""
    repeated: int = 0
    """Usable events in JSON that repeat a name. The last value counts."""
    defaulted: int = 0
    """Usable events in Avro with a symbol that the job's schema does not have. The enum's default counts."""

    left_out: int = 0
    """Events that the job's condition leaves out."""

    @property
    def skew_ms(self) -> int:
        """The range of the partitions' newest event times; 0 if fewer than two partitions had events."""
        return max(self.newest_ms.values()) - min(self.newest_ms.values()) if len(self.newest_ms) > 1 else 0


def may_hold_late(seen: InputStats, window: WindowSpec, closed_ms: int) -> bool:
    """Return whether the oldest event of an epoch falls into a closed window, so that late events are possible."""
    return seen.oldest_ms is not None and first_end_ms(seen.oldest_ms, window) <= closed_ms


def first_end_ms(event_time_ms: int, window: WindowSpec) -> int:
    return window.starts(event_time_ms)[0] + window.size_ms


def skew_warning(skew_ms: int, lateness_ms: int) -> str | None:
    """Return a warning if the partitions' skew exceeds the lateness; else None.

    The watermark follows the newest partition, so events of the others become late.
    """
    if skew_ms <= lateness_ms:
        return None
    return (
        f"the source's partitions are {skew_ms / 60_000:.0f} minutes of event time apart, more than the lateness "
        f"of {lateness_ms / 60_000:.0f} minutes: events of the partitions behind become late"
    )


SKEW_SLOTS = 64
"""The number of slots of observed event times. Partitions with the same remainder share a slot."""

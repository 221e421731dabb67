"""Rejected events (dead letters) and late events: reasons, rules and bounds.

An event that arrives after one of its windows has closed is late for that window. With sliding windows it may be
late for some of its windows only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cutwater.core.job.windows import WindowSpec
from cutwater.core.protocol.cuts import TopicPartition

NO_SOURCE_OFFSET = "no source offset"
NO_VALUE = "no value"
UNKNOWN_SCHEMA = "unknown schema"
UNDECODABLE = "undecodable"
TOO_LARGE = "too large"
NO_KEY = "no key"
KEY_TOO_LARGE = "key too large"
NO_EVENT_TIME = "no event time"
TOO_FAR_BEHIND = "event time too far behind"
TOO_FAR_AHEAD = "event time too far ahead"
NO_ROOM = "no room in a measure"
JUMPS_AHEAD = "event time jumps ahead"
REASONS = (
    NO_SOURCE_OFFSET,
    NO_VALUE,
    UNKNOWN_SCHEMA,
    UNDECODABLE,
    TOO_LARGE,
    NO_KEY,
    KEY_TOO_LARGE,
    NO_EVENT_TIME,
    TOO_FAR_AHEAD,
    TOO_FAR_BEHIND,
    NO_ROOM,
    JUMPS_AHEAD,
)

NO_VALUE_RULE = "the record has no value"
NULL_RULE = "is null"
TEXT_RULE = "is not UTF-8"
YEARS_RULE = "is outside the years 200 to 9799"
"""Rules that a record or field breaks, as dead letters name them."""

MAX_EVENT_BYTES = 512 * 1024
"""The default of the job file's max_event_bytes."""

MAX_KEY_BYTES = 4_096
"""Of a group key in UTF-8. As `key64` it is 5,462 characters of a URL, of which proxies allow 8,192 by default."""

MAX_BEHIND_MS = 14_600 * 86_400_000
"""The default of the job file's max_behind, 40 years.

Historical records pass. A time in seconds that is read as milliseconds lies in January 1970, and is rejected.
"""

UNITS = {"timestamp-millis": "milliseconds", "timestamp-micros": "microseconds"}
_PER_SECOND = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_LIKELY_S = 315_532_800, 7_258_118_400
"""The start of the years 1980 and 2200. In this range no number is likely in two units."""

YEARS = -55_855_785_600_000_000, 247_090_953_600_000_000
"""The first and last accepted event time, the start of the years 200 and 9800, in microseconds."""

NO_DATE_MS = 10_000_000_000_000
"""From here on (the year 2286) a record timestamp is in micro- or nanoseconds by mistake: no max_behind."""


class Flaw(NamedTuple):
    reason: str
    rule: str
    field: str | None = None
    """The field that breaks the rule; None for the record."""


SKEW_SLOTS = 64
"""The number of slots of observed event times. Partitions with the same remainder share a slot."""


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

    reasons: Mapping[str, int] = field(default_factory=dict)
    repeated: int = 0
    """Usable events in JSON that repeat a name. The last value counts."""
    defaulted: int = 0
    """Usable events in Avro with a symbol that the job's schema does not have. The enum's default counts."""

    @property
    def skew_ms(self) -> int:
        """The range of the partitions' newest event times; 0 if fewer than two partitions had events."""
        return max(self.newest_ms.values()) - min(self.newest_ms.values()) if len(self.newest_ms) > 1 else 0


class UnitHint(NamedTuple):
    """A range of numbers that are probably a time in another unit than the field's, and the hint to show."""

    first: int
    end: int
    said: str


def unit_hints(kind: str) -> list[UnitHint]:
    own = UNITS[kind]
    return [
        UnitHint(_LIKELY_S[0] * per_s, _LIKELY_S[1] * per_s, f": {unit} in a field of {own}?")
        for unit, per_s in _PER_SECOND.items()
        if unit != own
    ]


def unit_hint(number: int, kind: str) -> str:
    """Return a hint at a wrong unit, to append to the error of a time; empty if there is none."""
    return next((one.said for one in unit_hints(kind) if one.first <= number < one.end), "")


def may_hold_late(seen: InputStats, window: WindowSpec, closed_ms: int) -> bool:
    """Return whether the oldest event of an epoch falls into a closed window, so that late pairs are possible."""
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

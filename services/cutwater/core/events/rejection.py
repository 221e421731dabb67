"""Events that cannot be used, and windows that close before an event comes: the words, and what they decide.

An event that cannot be used is a dead letter. An event that comes after one of its windows has closed is late for
that window; under sliding windows it may be late for some of its windows only.
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
"""Why an event cannot be used: the words of dead letters."""

NO_VALUE_RULE = "the record has no value"
NULL_RULE = "is null"
TEXT_RULE = "is not UTF-8"
YEARS_RULE = "is outside the years 200 to 9799"
"""Rules that a record or a field breaks, as its dead letter says it."""

MAX_EVENT_BYTES = 512 * 1024
"""The default of the job file's max_event_bytes."""

MAX_KEY_BYTES = 4_096
"""Of a group key in UTF-8. Whoever reads can ask for it: as `key64` it is 5,462 characters of a URL, for which
proxies in front of the API have 8,192 by default."""

MAX_BEHIND_MS = 14_600 * 86_400_000
"""The default of the job file's max_behind, forty years.

Records of history pass; a time in seconds where the schema says milliseconds is one of January 1970, and does not.
"""

UNITS = {"timestamp-millis": "milliseconds", "timestamp-micros": "microseconds"}
_PER_SECOND = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_LIKELY_S = 315_532_800, 7_258_118_400
"""The begins of the years 1980 and 2200: so no number is likely in two units."""

YEARS = -55_855_785_600_000_000, 247_090_953_600_000_000
"""The first and the last event time that is taken, the begins of the years 200 and 9800, in microseconds."""

NO_DATE_MS = 10_000_000_000_000
"""A record's timestamp from here on, the year 2286, is none of milliseconds: producers give micro- or nanoseconds.
Nothing is too far behind it."""


class Flaw(NamedTuple):
    """Why one event cannot be used."""

    reason: str
    """A word of `REASONS`."""
    rule: str
    field: str | None = None
    """Whose rule it is; None: the record's."""


SKEW_SLOTS = 64
"""At most so many newest event times are observed: of more partitions, those of one remainder share a slot."""


@dataclass(frozen=True)
class Seen:
    """What one epoch observed on its input; the default is an epoch that read nothing."""

    events: int = 0
    rejected: int = 0
    oldest_ms: int | None = None
    """The smallest event time of the usable events."""
    newest_ms: Mapping[int, int] = field(default_factory=dict)
    """The largest event time of the usable events by source partition (or slot), where there were any."""
    copied: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Of copies of other regions' sources, where there were events: the offset there that follows the newest."""

    reasons: Mapping[str, int] = field(default_factory=dict)
    """Of the rejected events how many for each reason that there was."""
    repeated: int = 0
    """Usable events in JSON that have a name twice, of which the last value counted."""
    defaulted: int = 0
    """Usable events in Avro with a symbol that the job's schema does not know: its enum's default counted."""

    @property
    def skew_ms(self) -> int:
        """How far apart in time the source partitions are; 0 with fewer than two that had events."""
        return max(self.newest_ms.values()) - min(self.newest_ms.values()) if len(self.newest_ms) > 1 else 0


class UnitHint(NamedTuple):
    """What a number says of itself that is a date of our days in another unit than its field's."""

    first: int
    end: int
    said: str


def unit_hints(kind: str) -> list[UnitHint]:
    """For each unit but that of `kind`, a logical type: the numbers that are probably meant in it."""
    own = UNITS[kind]
    return [
        UnitHint(_LIKELY_S[0] * per_s, _LIKELY_S[1] * per_s, f": {unit} in a field of {own}?")
        for unit, per_s in _PER_SECOND.items()
        if unit != own
    ]


def unit_hint(number: int, kind: str) -> str:
    """To append to what is wrong with a time; empty where its unit is none that could be named."""
    return next((one.said for one in unit_hints(kind) if one.first <= number < one.end), "")


def may_hold_late(seen: Seen, window: WindowSpec, closed_ms: int) -> bool:
    """Does an epoch's oldest event fall into a window that has closed? Then its late pairs must be looked for."""
    return seen.oldest_ms is not None and first_end_ms(seen.oldest_ms, window) <= closed_ms


def first_end_ms(event_time_ms: int, window: WindowSpec) -> int:
    """The end of the oldest window that holds an event time."""
    return window.starts(event_time_ms)[0] + window.size_ms


def skew_warning(skew_ms: int, lateness_ms: int) -> str | None:
    """What a person should know of partitions that are further apart in time than the lateness; else None.

    The watermark follows the newest partition, so events of the others become late.
    """
    if skew_ms <= lateness_ms:
        return None
    return (
        f"the source's partitions are {skew_ms / 60_000:.0f} minutes of event time apart, more than the lateness "
        f"of {lateness_ms / 60_000:.0f}: events of the partitions behind become late"
    )

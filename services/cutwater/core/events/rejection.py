"""Rejected events (dead letters) and late events: reasons, rules and bounds.

An event that arrives after its window has closed is late; of sliding windows its pane counts.
"""

from __future__ import annotations

from typing import NamedTuple

NO_SOURCE_OFFSET = "no source offset"
NO_VALUE = "no value"
UNKNOWN_SCHEMA = "unknown schema"
UNDECODABLE = "undecodable"
TOO_LARGE = "too large"
FAILED_EXPRESSION = "failed expression"
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
    FAILED_EXPRESSION,
)

NO_VALUE_RULE = "the record has no value"
NULL_RULE = "is null"
TEXT_RULE = "is not UTF-8"
ELEMENTS_MAX = 10_000
"""Elements of an array, and names of a map, in an event."""
EXPRESSION_RULE = "has no value for this event: an error, such as a division by zero or a cast"
YEARS_RULE = "is outside the years 200 to 9799"
DATES_RULE = "is outside the years 1 to 9999"
UUID_RULE = "is no UUID"
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

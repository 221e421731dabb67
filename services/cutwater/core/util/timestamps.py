"""Parsing and formatting of timestamps."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_LARGEST_MS = (1 << 63) - 1


def moment_ms(text: str) -> int:
    """Parse milliseconds since 1970, from such a number or from ISO 8601 (UTC if it has no offset).

    Raises ValueError for other texts, and for numbers beyond 64 bits.
    """
    number = int(text) if _NUMBER.fullmatch(text) else iso_ms(text)
    if abs(number) > _LARGEST_MS:
        raise ValueError(f"{number} does not fit 64 bits")
    return number


def iso_ms(text: str) -> int:
    """Parse milliseconds since 1970 from ISO 8601. Raises ValueError."""
    try:
        return (parsed(text) - _EPOCH) // _MS
    except OverflowError as error:
        raise ValueError(str(error)) from None


def parsed(text: str) -> datetime:
    """Parse ISO 8601, as UTC if it has no offset. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def iso(time_ms: int, always_ms: bool = False) -> str | int:
    """Return a time as ISO 8601 in UTC; beyond the years 1 to 9999 the number itself.

    Whole seconds have no fraction, unless `always_ms`.
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return time_ms
    spec = "milliseconds" if always_ms or time_ms % 1000 else "seconds"
    return moment.isoformat(timespec=spec).replace("+00:00", "Z")

"""Moments as people write them, and as they are shown."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_LARGEST_MS = (1 << 63) - 1


def moment_ms(text: str) -> int:
    """Milliseconds since 1970, from such a number or from ISO 8601 (UTC where it has no offset).

    Raises ValueError for what is neither, and for more than 64 bits hold.
    """
    number = int(text) if _NUMBER.fullmatch(text) else iso_ms(text)
    if abs(number) > _LARGEST_MS:
        raise ValueError(f"{number} does not fit 64 bits")
    return number


def iso_ms(text: str) -> int:
    """The same from ISO 8601 alone."""
    try:
        return (parsed(text) - _EPOCH) // _MS
    except OverflowError as error:
        raise ValueError(str(error)) from None


def parsed(text: str) -> datetime:
    """A moment from ISO 8601, in UTC where it has no offset. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def iso(time_ms: int, always_ms: bool = False) -> str | int:
    """A moment as ISO 8601 in UTC; beyond the years 1 to 9999 the number itself.

    To the second where it is a whole one, unless `always_ms`.
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return time_ms
    spec = "milliseconds" if always_ms or time_ms % 1000 else "seconds"
    return moment.isoformat(timespec=spec).replace("+00:00", "Z")

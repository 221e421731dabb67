"""Moments as people write them."""

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
    number = int(text) if _NUMBER.fullmatch(text) else _iso_ms(text)
    if abs(number) > _LARGEST_MS:
        raise ValueError(f"{number} does not fit 64 bits")
    return number


def _iso_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MS
    except OverflowError as error:
        raise ValueError(str(error)) from None

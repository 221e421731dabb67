"""Values as users see them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from cutwater.core.util.timestamps import iso
from cutwater.views.query.presenter import plain


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Decimal(12345678901234567890123456789012345678), 12345678901234567890123456789012345678),
        (Decimal("1.50"), "1.50"),
        (Decimal("-0.01"), "-0.01"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (1.25, 1.25),
        (None, None),
        (True, True),
        ("text", "text"),
        (b"\x00\xff", "AP8="),
        (datetime(2013, 1, 2, 3, tzinfo=UTC), "2013-01-02T03:00:00Z"),
    ],
)
def test_values_fit_json_and_keep_their_digits(value: Any, shown: Any) -> None:
    """Every measure's value becomes strict JSON without losing a digit; bytes are never shown raw."""
    assert plain(value) == shown
    json.dumps(plain(value), allow_nan=False)


def test_moments_are_iso_or_numbers() -> None:
    """Moments are ISO 8601 in UTC, milliseconds only where there are any; far-away ones stay numbers."""
    assert iso(0) == "1970-01-01T00:00:00Z"
    assert iso(-1) == "1969-12-31T23:59:59.999Z"
    assert iso(1357095600123) == "2013-01-02T03:00:00.123Z"
    assert iso(1 << 62) == 1 << 62

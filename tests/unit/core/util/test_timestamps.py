"""Moments: read as people write them, shown as ISO 8601 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.util.timestamps import iso, iso_ms, moment_ms, parsed

FIRST, LAST = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 and 9999, in ms."""


@given(st.integers(FIRST, LAST), st.booleans())
def test_what_is_shown_is_read_again(at_ms: int, always_ms: bool) -> None:
    """To the millisecond, and by the standard library alike."""
    shown = str(iso(at_ms, always_ms))
    assert shown.endswith("Z")
    assert ("." in shown) == (always_ms or at_ms % 1000 != 0)
    assert iso_ms(shown) == moment_ms(shown) == at_ms
    assert iso(round(datetime.fromisoformat(shown).timestamp() * 1000), always_ms) == shown


@given(st.integers(-(1 << 63) + 1, (1 << 63) - 1))
def test_a_number_is_a_moment(at_ms: int) -> None:
    """Of any size that 64 bits hold; what has no year is shown as its number."""
    assert moment_ms(str(at_ms)) == at_ms
    assert FIRST <= at_ms <= LAST or iso(at_ms) == at_ms


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02", 86_400_000),
        ("0001-01-01T00:00:00+23:00", FIRST - 23 * 3_600_000),
    ],
)
def test_offsets(text: str, at_ms: int) -> None:
    """UTC where there is none; also where the moment itself has no year in UTC."""
    assert iso_ms(text) == at_ms
    assert parsed(text).tzinfo is not None
    assert parsed("1970-01-01T00:00:01").tzinfo is UTC


@pytest.mark.parametrize("text", ["", "42", "now", "9" * 30, "2026-13-01", "1e3"])
def test_what_is_no_moment(text: str) -> None:
    """A bare number is one only where numbers are allowed, and fits."""
    with pytest.raises(ValueError, match=r"."):
        iso_ms(text)
    if text != "42":
        with pytest.raises(ValueError, match=r"."):
            moment_ms(text)

"""What counts as a time: a number of the right size, by its unit, and text in the right form."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cutwater.core.events.schema_inference import infer, time_ms

FIRST_MS, END_MS = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1_000 for year in (2000, 2100))


@pytest.mark.parametrize(
    ("unit", "kind"), [(1, "timestamp-millis"), (1_000, "timestamp-micros")], ids=["milliseconds", "microseconds"]
)
def test_a_number_is_a_time_from_2000_up_to_the_end_of_2099(unit: int, kind: str) -> None:
    """What lies outside is a number, whatever its name says; one such value is enough."""
    first, end = FIRST_MS * unit, END_MS * unit
    for values, told in (
        ([first, end - 1], kind),
        ([first - 1, end - 1], "long"),
        ([first, end], "long"),
    ):
        assert infer([{"ts": one} for one in values]).kinds == {"ts": told}, values


@pytest.mark.parametrize("value", [True, False, 1.5, None, [FIRST_MS], "2024-05-01"])
def test_what_is_neither_a_whole_number_nor_a_moment_is_no_time(value: object) -> None:
    """JSON's true is an int to Python, and no time."""
    assert time_ms(value, "timestamp-millis") is None
    assert (time_ms(1_500, "timestamp-millis"), time_ms(1_500, "timestamp-micros")) == (1_500, 1)

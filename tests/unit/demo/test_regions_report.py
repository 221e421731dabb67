"""What the demonstration of two regions tells, and how it names events: plain values."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from examples.two_regions.oracle import Late, Name, RegionEvents
from examples.two_regions.report import DemoReport

from cutwater.adapters.runtime.terminal import Terminal
from cutwater.core.driver.rejected_events import EventPosition, LatePair, Listed
from cutwater.core.errors import DivergenceError, UnavailableError
from cutwater.core.protocol.generation import Generation


def telling() -> tuple[DemoReport, io.StringIO]:
    text = io.StringIO()
    return DemoReport(Terminal(text), "build/somewhere"), text


def test_nothing_checked_is_not_right() -> None:
    """Only a story in which something was checked, and all of it held, ends well."""
    one, text = telling()
    assert not one.right
    one.check("a", True, "fine")
    assert one.right
    one.check("b", False, "1 of 2")
    one.check("c", True, "fine")
    assert not one.right
    assert "FAILED b: 1 of 2" in text.getvalue()
    assert [check["passed"] for check in one.as_json()["checks"]] == [True, False, True]


def test_an_error_says_its_step_and_keeps_its_code() -> None:
    """Whoever sees the message knows which step failed and where the logs are; the exit code stays."""
    one, _ = telling()
    with one.step("first"):
        pass
    with pytest.raises(UnavailableError) as raised, one.step("second"):
        raise UnavailableError("nobody answers")
    assert str(raised.value) == "step 2 (second) failed: nobody answers\nlogs and state are in build/somewhere"
    assert [step["step"] for step in one.as_json()["steps"]] == ["first", "second"]


def flight(number: int) -> dict[str, Any]:
    at = datetime(2013, 1, 1, number, tzinfo=UTC)
    return {
        "airport": "JFK", "scheduled_at": at, "delay_minutes": None if number else 3, "carrier": "AA",
        "flight": f"AA{number}", "distance_miles": 10,
    }  # fmt: skip


NAMES = [Name("eu", 0, 7), Name("us", 0, 1), Name("us", 0, 2), Name("us", 1, 0)]
HERE = RegionEvents(
    {name: flight(number) for number, name in reversed(list(enumerate(NAMES)))},
    {EventPosition("t", number, 5): name for number, name in enumerate(NAMES)},
)


def pair(place: EventPosition) -> LatePair:
    by = Listed(Generation(2, "eu"), 1, 4)
    return LatePair(place, by, "JFK", 1000, 2000, 1500, 3000)


def test_the_oracle_sees_events_in_the_order_of_their_names() -> None:
    """Regions, partitions, offsets where they were sent to: the order of `first` and `last` in every region."""
    frame = HERE.frame()
    assert frame["flight"].tolist() == ["AA0", "AA1", "AA2", "AA3"]
    assert frame["scheduled_at"].tolist() == [1_356_998_400_000 + 3_600_000 * hour for hour in range(4)]
    assert frame["delay_minutes"].isna().tolist() == [False, True, True, True]
    assert HERE.of("us") == set(NAMES[1:])


def test_a_late_pair_is_found_by_the_name_of_its_event() -> None:
    """What one region listed is left out in the other, wherever the event stands there."""
    assert HERE.named([pair(EventPosition("t", 2, 5))]) == [Late(NAMES[2], 1000)]
    rows = HERE.late_frame([Late(NAMES[2], 1000), Late(Name("us", 3, 9), 1000)])
    assert rows.to_dict("list") == {"produced": [2], "window_start_ms": [1000]}
    with pytest.raises(DivergenceError, match="t/9/9 is listed as late and is no event"):
        HERE.named([pair(EventPosition("t", 9, 9))])

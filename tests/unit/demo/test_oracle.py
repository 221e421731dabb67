"""The demo's judge: the expected state is right, the comparison sees every fault, the picture is drawn."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.adapters.runtime.terminal import Terminal
from cutwater.core.errors import UsageError
from cutwater.demo import compare, oracle, plot

HOUR_MS = oracle.HOUR_MS
T0 = 1_356_998_400_000  # 2013-01-01T00:00:00Z

EVENT = st.fixed_dictionaries(
    {
        "airport": st.sampled_from(["JFK", "LAX", "SJU"]),
        "scheduled_at": st.integers(T0, T0 + 3 * HOUR_MS) | st.sampled_from([T0, T0 + HOUR_MS]),
        "delay_minutes": st.none() | st.integers(-90, 1_400),
        "carrier": st.sampled_from(["UA", "AA", "B6"]),
        "flight": st.none() | st.sampled_from(["UA1", "UA2", "AA3", "B64"]),
        "distance_miles": st.integers(17, 4_983),
    }
)


def frame(events: list[dict[str, Any]]) -> pd.DataFrame:
    # Said in full: from a column of None alone pandas would guess another type than the demo's.
    return pd.DataFrame(events, columns=list(event())).astype(
        {"delay_minutes": "Int64", "airport": "str", "carrier": "str", "flight": "str"}
    )


def event(**changes: Any) -> dict[str, Any]:
    usual = {
        "airport": "JFK", "scheduled_at": T0, "delay_minutes": 5, "carrier": "UA", "flight": "UA1",
        "distance_miles": 100,
    }  # fmt: skip
    return usual | changes


def by_hand(events: list[dict[str, Any]], window: int, slide: int) -> dict[tuple[str, int], dict[str, Any]]:
    """The same measures in plain Python, an event and a window at a time."""
    members: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for one in events:
        for start in range(one["scheduled_at"] // slide * slide, one["scheduled_at"] - window, -slide):
            members.setdefault((one["airport"], start), []).append(one)
    return {key: {"airport": key[0], "window_start_ms": key[1]} | measures(m) for key, m in members.items()}


def measures(members: list[dict[str, Any]]) -> dict[str, Any]:
    ordered = sorted(members, key=lambda one: one["scheduled_at"])  # stable: ties stay in production order
    delays = [one["delay_minutes"] for one in ordered if one["delay_minutes"] is not None]
    flights = [one["flight"] for one in ordered if one["flight"] is not None]
    return {
        "movements": len(ordered),
        "delayed": len(delays),
        "total_delay": sum(delays) if delays else None,
        "worst_delay": max(delays, default=None),
        "best_delay": min(delays, default=None),
        "mean_delay": sum(delays) / len(delays) if delays else None,
        "first_flight": flights[0] if flights else None,
        "last_carrier": ordered[-1]["carrier"],
        "carriers": len({one["carrier"] for one in ordered}),
        "miles": sum(one["distance_miles"] for one in ordered),
    }


@settings(max_examples=40)
@given(
    st.lists(EVENT, min_size=1, max_size=30),
    st.sampled_from([(HOUR_MS, HOUR_MS), (HOUR_MS, HOUR_MS // 3), (HOUR_MS, 25 * 60_000), (7, 7)]),
)
def test_the_oracle_agrees_with_plain_python(events: list[dict[str, Any]], window: tuple[int, int]) -> None:
    """Tumbling, sliding and slides that do not divide the window: every row and value is the same."""
    got = oracle.rows(oracle.expected(frame(events), *window))
    wanted = by_hand(events, *window)
    assert sorted((row["airport"], row["window_start_ms"]) for row in got) == sorted(wanted)
    assert not compare.compare(list(wanted.values()), got).examples


def test_an_event_at_the_end_of_a_window_is_outside() -> None:
    """Windows are closed at the start and open at the end, also where the slide does not divide them."""
    slide = 25 * 60_000
    start = T0 // slide * slide
    events = frame([event(scheduled_at=start + 10 * 60_000)])
    assert list(oracle.expected(events, HOUR_MS, slide)["window_start_ms"]) == [start - slide, start]


def test_rows_are_plain_integers_and_none() -> None:
    """Values leave as JSON would carry them: no pandas NA, no NaN, no integer turned float."""
    (row,) = oracle.rows(oracle.expected(frame([event(delay_minutes=None)])))
    assert row == {
        "airport": "JFK", "window_start_ms": T0, "movements": 1, "delayed": 0, "total_delay": None,
        "worst_delay": None, "best_delay": None, "mean_delay": None, "first_flight": "UA1",
        "last_carrier": "UA", "carriers": 1, "miles": 100,
    }  # fmt: skip
    assert {type(row[name]) for name in ("window_start_ms", "movements", "delayed", "miles")} == {int}


def test_equal_event_times_go_by_production_order() -> None:
    """first is the earliest produced, last the latest produced, of those at the same scheduled time."""
    events = [event(flight="UA2", carrier="AA"), event(flight="UA9", carrier="B6")]
    (row,) = oracle.rows(oracle.expected(frame(events)))
    assert (row["first_flight"], row["last_carrier"]) == ("UA2", "B6")


@pytest.mark.parametrize("slide", [0, -1, HOUR_MS + 1])
def test_impossible_windows_are_refused(slide: int) -> None:
    """A slide must be above zero and not leave gaps, as in Spark."""
    with pytest.raises(UsageError, match=f"slides by {slide} ms is impossible"):
        oracle.expected(frame([event()]), HOUR_MS, slide)


def test_busiest_rows_come_first_and_ties_by_airport_and_time() -> None:
    """The order does not depend on how the rows lay."""
    places = [("S", 1), ("L", 0), ("J", 1), ("J", 0), ("S", 1)]
    events = [event(airport=airport, scheduled_at=T0 + hour * HOUR_MS) for airport, hour in places]
    top = oracle.busiest(oracle.expected(frame(events)), 3)
    assert list(top["airport"]) == ["S", "J", "J"]
    assert list(top["window_start_ms"]) == [T0 + HOUR_MS, T0, T0 + HOUR_MS]


def row(airport: str = "JFK", hour: int = 0, **measures: Any) -> dict[str, Any]:
    usual = {"movements": 3, "total_delay": None, "mean_delay": 1.5, "carriers": 200, "first_flight": "UA1"}
    return {"airport": airport, "window_start_ms": T0 + hour * HOUR_MS} | usual | measures


def test_equal_rows_in_any_order_have_no_differences() -> None:
    """Served rows are compared by key, not by place; nothing found is false."""
    rows = [row(hour=h) for h in range(5)]
    found = compare.compare(rows, rows[::-1])
    assert not found
    assert (found.expected, found.served, found.examples) == (5, 5, ())


def test_each_kind_of_fault_is_counted_and_named() -> None:
    """A missing, an unexpected and a changed row are three faults with key, measure and values."""
    found = compare.compare([row("A"), row("B"), row("C")], [row("B", movements=4), row("C"), row("D")])
    assert found
    assert (found.missing, found.unexpected, found.different) == (1, 1, 1)
    assert [(d.kind, d.key, d.measure) for d in found.examples] == [
        ("missing", ("A", T0), None),
        ("unexpected", ("D", T0), None),
        ("different", ("B", T0), "movements"),
    ]
    assert (found.examples[2].expected, found.examples[2].served) == (3, 4)


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ("movements", 4), ("movements", None), ("total_delay", 0), ("first_flight", "UA2"),
        ("mean_delay", 1.5 * (1 + 2e-9)), ("mean_delay", float("nan")), ("mean_delay", "1.5"),
        ("mean_delay", None), ("carriers", 205), ("carriers", 195), ("carriers", None),
    ],
)  # fmt: skip
def test_a_wrong_value_is_seen(measure: str, value: Any) -> None:
    """Null is not zero, text is not a number, and nothing is tolerated beyond the stated errors."""
    assert compare.compare([row()], [row(**{measure: value})]).different == 1


@pytest.mark.parametrize(("measure", "value"), [("mean_delay", 1.5 * (1 + 1e-10)), ("carriers", 204)])
def test_only_stated_errors_are_tolerated(measure: str, value: Any) -> None:
    """The last bits of a mean and 2 % of an estimate of distinct values are no fault."""
    assert not compare.compare([row()], [row(**{measure: value})])


def test_a_small_count_of_carriers_may_be_off_by_one() -> None:
    """2 % of 3 is less than a whole carrier."""
    assert not compare.compare([row(carriers=3)], [row(carriers=4)])
    assert compare.compare([row(carriers=3)], [row(carriers=5)])


def test_a_measure_that_is_not_served_is_a_fault() -> None:
    """A view that forgets a measure does not pass, even where null was expected."""
    served = row()
    del served["total_delay"]
    (fault,) = compare.compare([row()], [served]).examples
    assert (fault.measure, fault.served) == ("total_delay", "(absent)")


def test_a_row_served_twice_is_a_fault() -> None:
    """A repeat is unexpected even when both servings are right."""
    found = compare.compare([row()], [row(), row()])
    assert (found.unexpected, found.different) == (1, 0)


def test_a_row_expected_twice_is_refused() -> None:
    """Otherwise one of the two would never be compared."""
    with pytest.raises(UsageError, match=r"two rows are expected for \('JFK'"):
        compare.compare([row(), row()], [row()])


def test_examples_are_bounded_and_counts_are_not() -> None:
    """A thousand faults of each kind stay a short report that says how many there are."""
    expected = [row("A", h) for h in range(1000)] + [row("B", h) for h in range(1000)]
    served = [row("C", h) for h in range(1000)] + [row("B", h, movements=0) for h in range(1000)]
    found = compare.compare(expected, served, examples=3)
    assert (found.missing, found.unexpected, found.different) == (1000, 1000, 1000)
    assert len(found.examples) == 9


def test_the_table_names_the_row_and_both_values() -> None:
    """What a person needs to look further: airport, window, measure, expected, served."""
    shown = io.StringIO()
    Terminal(shown).table(compare.table(compare.compare([row("A"), row("B")], [row("B", movements=4)])))
    text = shown.getvalue()
    assert "2 rows differ" in text
    assert all(word in text for word in ("missing", "A", f"{T0:,}", "movements", "3", "4"))


def test_the_picture_is_a_png_of_the_stated_size(tmp_path: Path) -> None:
    """Even hours without a single flight or a recorded delay leave a picture of 1200 x 700."""
    state = oracle.expected(frame([event(), event(scheduled_at=T0 + 5 * HOUR_MS, delay_minutes=None)]))
    plot.delays_by_hour(state, tmp_path / "delays.png")
    content = (tmp_path / "delays.png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(content[16:20]), int.from_bytes(content[20:24])) == (1200, 700)

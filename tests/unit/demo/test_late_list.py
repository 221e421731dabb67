"""The demo's check of the late list: sound lists pass, and every unsound one is named."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.driver.rejected_events import EventPosition, LatePair, Listed
from cutwater.core.errors import UsageError
from cutwater.core.job.windows import WindowSpec
from cutwater.core.protocol.generation import Generation
from cutwater.demo import late_list, oracle
from cutwater.demo.job_file import with_lateness

HOUR_MS = oracle.HOUR_MS
T0 = 1_356_998_400_000
WINDOW = WindowSpec(HOUR_MS, HOUR_MS)
FLIGHTS = Path(__file__).parents[3] / "deploy/jobs/flights.yaml"


def frame(*times: int) -> pd.DataFrame:
    """Events of two airports in turn."""
    return pd.DataFrame(
        [
            {
                **{"airport": ("JFK", "LAX")[number % 2], "scheduled_at": T0 + at, "flight": f"UA{number}"},
                **{"kind": "departure", "delay_minutes": 5, "carrier": "UA", "distance_miles": 7},
            }
            for number, at in enumerate(times)
        ]
    ).astype({"delay_minutes": "Int64"})


def topic(events: pd.DataFrame) -> list[late_list.Stored]:
    """The events as they stand on the source topic: each airport in a partition of its own."""
    made = []
    for airport, group in events.groupby("airport", sort=False):
        for offset, row in enumerate(group.to_dict("records")):
            at = datetime.fromtimestamp(row["scheduled_at"] / 1000, UTC)
            made.append(late_list.Stored((int(airport == "LAX"), offset), {**row, "scheduled_at": at}))
    return made


def pair(partition: int, offset: int, key: str, at: int, **changes: Any) -> LatePair:
    start = at // HOUR_MS * HOUR_MS
    by = Listed(Generation(1, "local"), 1, 3)
    made = LatePair(EventPosition("t", partition, offset), by, key, start, start + HOUR_MS, at, start + HOUR_MS)
    return replace(made, **changes)


EVENTS = frame(0, 10, HOUR_MS, HOUR_MS + 10, 5)
SOUND = pair(0, 2, "JFK", T0 + 5)


def test_a_sound_pair_is_the_event_it_names() -> None:
    """The event's place in production order comes from the topic."""
    checked = late_list.check([SOUND], EVENTS, late_list.places(EVENTS, topic(EVENTS)), WINDOW, WINDOW)
    assert checked.faults == []
    assert checked.pairs.to_dict("records") == [{"produced": 4, "window_start_ms": T0}]


@pytest.mark.parametrize(
    "pairs",
    [
        [pair(0, 9, "JFK", T0 + 5)],
        [replace(SOUND, key="LAX")],
        [replace(SOUND, event_time_ms=T0 + 6)],
        [replace(SOUND, window_start_ms=T0 + HOUR_MS, window_end_ms=T0 + 2 * HOUR_MS)],
        [replace(SOUND, watermark_ms=SOUND.window_end_ms - 1)],
        [SOUND, SOUND],
    ],
    ids=["no such event", "another key", "another time", "another window", "a window that was open", "twice"],
)
def test_an_unsound_list_is_named(pairs: list[LatePair]) -> None:
    """Each way in which a pair can be wrong."""
    assert late_list.check(pairs, EVENTS, late_list.places(EVENTS, topic(EVENTS)), WINDOW, WINDOW).faults


def test_a_topic_that_does_not_hold_the_events_is_refused() -> None:
    """One too few, or another one in its place."""
    with pytest.raises(UsageError, match="holds 4 of 5"):
        late_list.places(EVENTS, topic(EVENTS)[:-1])
    swapped = topic(EVENTS)
    swapped[0], swapped[1] = swapped[1], swapped[0]
    with pytest.raises(UsageError, match="is not the event"):
        late_list.places(EVENTS, swapped)


@pytest.mark.slow
@given(st.lists(st.integers(0, 5 * HOUR_MS), min_size=1, max_size=12), st.data())
def test_rows_and_late_pairs_are_all_pairs(times: list[int], data: st.DataObject) -> None:
    """Whatever is late, the oracle leaves out exactly that, and the sum is that of all; a lost pair shows."""
    events = frame(*times)
    window = data.draw(st.sampled_from([WINDOW, WindowSpec(HOUR_MS, HOUR_MS // 3), WindowSpec(20, 7)]))
    every = [(number, start) for number, at in enumerate(times) for start in window.starts(T0 + at)]
    chosen = data.draw(st.lists(st.sampled_from(every), unique=True))
    checked = late_list.Checked(pd.DataFrame(chosen, columns=["produced", "window_start_ms"], dtype="int64"), [])
    rows = oracle.expected(events, window.size_ms, window.slide_ms, checked.pairs)
    counted = int(rows["movements"].sum())
    assert counted == len(every) - len(chosen)
    assert not late_list.check_pairs(events, window, checked, counted)
    assert late_list.check_pairs(events, window, checked, counted - 1)
    assert late_list.check_pairs(events, window, checked._replace(faults=["x"]), counted)


def test_the_copied_job_file_differs_in_lateness_and_epochs_only(tmp_path: Path) -> None:
    """The demonstration's own file stays as it is; its schemas come along."""
    copy = with_lateness(FLIGHTS, "3h", tmp_path / "demo")
    assert copy.parent == tmp_path / "demo"
    before, after = load_job(FLIGHTS), load_job(copy)
    assert (before.definition, before.retention_ms) == (after.definition, after.retention_ms)
    assert after.max_events_per_epoch == 300
    assert (before.lateness_ms, after.lateness_ms) == (48 * HOUR_MS, 3 * HOUR_MS)


def test_a_lateness_that_is_no_duration_is_refused(tmp_path: Path) -> None:
    """Before anything is written."""
    with pytest.raises(UsageError, match="--lateness: 'soon' is not a duration"):
        with_lateness(FLIGHTS, "soon", tmp_path / "demo")
    assert not (tmp_path / "demo").exists()

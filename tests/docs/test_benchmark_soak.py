"""The soak's own arithmetic: a place that grows must not be called bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def series(part: Any, checkpoint: Any, view: Any) -> list[Any]:
    sizes = part("soak.sizes")
    return [
        sizes.Sizes(at, {sizes.STATE: checkpoint(at), sizes.VIEW: view(at), sizes.TOPICS: float(at)})
        for at in range(1, 601)
    ]


def test_a_place_that_stays_is_bounded(part: Any) -> None:
    """Sizes that go up and down within the same bounds; the topics grow, which is not judged."""
    found = part("soak.sizes").document({}, series(part, lambda at: 50 + at % 7, lambda _at: 20.0), None)
    assert found["bounded"]
    assert found["exact"]
    assert found["ratios"]["checkpoint-middle/last"]["median"] == 1.0
    assert found["ratios"]["topics-middle/last"]["median"] < 0.7


@pytest.mark.parametrize("place", ["checkpoint", "view"])
def test_a_place_that_grows_is_not_bounded(part: Any, place: str) -> None:
    """Growth in proportion to the time is half as much again in the last third."""
    growing = {"checkpoint": lambda _at: 50.0, "view": lambda _at: 20.0} | {place: float}
    assert not part("soak.sizes").document({}, series(part, **growing), None)["bounded"]


def test_the_page_and_the_picture_are_written(part: Any, tmp_path: Path) -> None:
    sizes = part("soak.sizes")
    run = series(part, lambda _at: 50.0, lambda _at: 20.0)
    sizes.write(tmp_path, "Soak", sizes.document({}, run, "of 3 rows 1 is missing"), run)
    text = (tmp_path / "soak.md").read_text(encoding="utf-8")
    assert "Rows: of 3 rows 1 is missing." in text
    assert "| checkpoint | 50.0 | 50.0 |" in text
    assert (tmp_path / "soak.png").stat().st_size > 1_000


def test_a_soak_of_hours_fits_into_memory(part: Any) -> None:
    """Its event time runs as much faster than the clock as ever."""
    load = part("soak.load")
    assert load.load_of(0.5) == (0.5 * 3_600 * load.RATE, load.RATE)
    size, rate = load.load_of(24)
    assert (size, rate) == (load.EVENTS_MAX, load.EVENTS_MAX / 86_400)
    events = load.generate(10_000, 7, 1_700_000_000_000, rate)
    span_ms = int(events.time_ms.max() - events.time_ms.min())
    assert abs(span_ms - 10_000 / rate * load.FASTER * 1_000) < 60_000


@pytest.mark.parametrize("text", ["0", "-1", "a day", "nan", "1e9"])
def test_hours_that_are_none_are_refused(part: Any, text: str) -> None:
    with pytest.raises(SystemExit) as end:
        part("soak.__main__").COMMAND.parse(["--hours", text])
    assert end.value.code == 2


def test_event_time_runs_ahead_of_the_clock(part: Any) -> None:
    """A second's events cover ten minutes of event time, out of order by less than the job's lateness."""
    load = part("soak.load")
    events = load.generate(10_000, 7, 1_700_000_000_000)
    span_ms = int(events.time_ms.max() - events.time_ms.min())
    assert abs(span_ms - 2 * load.FASTER * 1000) < 60_000
    assert (events.time_ms[1:] - events.time_ms[:-1]).min() > -60_000

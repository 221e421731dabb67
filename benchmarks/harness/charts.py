"""What of a benchmark's result file is plotted beside its ratios: figures by contender. Plain values only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks.harness.figures import READABLE

Json = Mapping[str, Any]


class Chart(NamedTuple):
    """Bars: each with a label and its values, one per run."""

    title: str
    rows: dict[str, list[float]]


def charts(document: Json) -> list[Chart]:
    """Return what is plotted beside the ratios; a chart for each kind of figure that the document has."""
    runs = document.get("runs", [])
    steps = {one["step"]: [one["seconds"]] for one in document.get("steps", [])}
    found = [
        Chart("events, records or rows per second", _rows(runs, _rates)),
        Chart("99th percentile, ms", _rows(runs, _latencies)),
        Chart("median time of an epoch or a batch, ms", _rows(runs, _epochs)),
        Chart("seconds of each step", steps),
    ]
    return [one for one in found if one.rows]


_COUNTS = (("rate", "/s"), ("rows", " rows"), ("batch", " events"))
"""What else tells runs of one contender apart, with its unit."""


def name_of(run: Json) -> str:
    """Return what tells the runs of a contender apart, pairs aside."""
    parts = [run.get("workload"), run.get("shape"), run["contender"]]
    if run.get("until") == READABLE:
        parts.append(READABLE)
    parts += [f"{run[name]:,}{unit}" for name, unit in _COUNTS if name in run]
    return " ".join(str(one) for one in parts if one)


def _rows(runs: list[Json], values: Callable[[Json], Iterator[tuple[str, float]]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for run in runs:
        for label, value in values(run):
            found.setdefault(label, []).append(value)
    return found


def _rates(run: Json) -> Iterator[tuple[str, float]]:
    if "events_per_s" in run:
        yield name_of(run), run["events_per_s"]


def _latencies(run: Json) -> Iterator[tuple[str, float]]:
    places = {**run.get("delays", {}), **run.get("lags_ms", {})}
    places |= {what: run[name] for what, name in (("due", "waited_ms"), ("sent", "served_ms")) if name in run}
    for place, percentiles in places.items():
        yield f"{name_of(run)}: {place}", percentiles["p99"]


def _epochs(run: Json) -> Iterator[tuple[str, float]]:
    if "p50_ms" in run:
        yield name_of(run), run["p50_ms"]

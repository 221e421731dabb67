"""Latency runs as result files: ratios over pairs, the JSON document, the Markdown page. Plain values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.harness import figures
from benchmarks.harness.figures import heading, ratio_table, spread, table
from benchmarks.latency.outcome import APPENDED_READABLE, CHANGELOG, READABLE, VIEW, LatencyRun, better, plain

PLACES = {
    CHANGELOG: "event to changelog",
    READABLE: "event to readable milestone, by `committed()` (a peer: by a `read_committed` reader of its output)",
    VIEW: "event to readable milestone, the view",
    APPENDED_READABLE: "row on the changelog to readable: the commit",
}
SHOWN = ("p50", "p99", "p99.9")
EPOCHS_MAX = 3
"""Event to readable milestone at p99 shall take no longer than so many epochs."""


def ratios(runs: Sequence[LatencyRun], ours: str, places: Sequence[str]) -> dict[str, dict[str, float]]:
    """The peer's latency divided by ours, within a pair and a rate: above 1 means that we are faster."""
    by_place = {(run.contender, run.rate, run.pair): run for run in runs}
    found = {}
    for rate in sorted({run.rate for run in runs}):
        for peer in dict.fromkeys(run.contender for run in runs if run.contender != ours):
            for place in places:
                for percentile in SHOWN:
                    quotients = [
                        quotient
                        for pair in sorted({run.pair for run in runs})
                        if (mine := by_place.get((ours, rate, pair)))
                        and (theirs := by_place.get((peer, rate, pair)))
                        if (quotient := better(mine.of(place, percentile), theirs.of(place, percentile)))
                    ]
                    if quotients:
                        found[f"{place} {percentile} at {rate}/s/{peer}"] = spread(quotients)
    return found


def document(
    benchmark: str,
    about: Mapping[str, Any],
    runs: Sequence[LatencyRun],
    found: Mapping[str, Any],
    limits: Mapping[str, Any],
) -> dict[str, Any]:
    """The result file, in the form that all benchmarks share, with the limits beside."""
    return figures.document(benchmark, about, runs, found, plain) | {"limits_ms": dict(limits)}


def verdicts(runs: Sequence[LatencyRun], ours: str) -> list[str]:
    """For each rate: is an event readable within three epoch times, at p99?"""
    said = []
    for rate in sorted({run.rate for run in runs}):
        known = [run for run in runs if (run.contender, run.rate) == (ours, rate) and run.p99_in_epochs]
        if known:
            epochs = median(run.p99_in_epochs or 0 for run in known)
            epoch_ms = median(run.epoch_ms or 0 for run in known)
            kept = "kept" if epochs <= EPOCHS_MAX else "not kept"
            said.append(
                f"{rate:,} events/s: event to readable milestone at p99 takes {epochs:.2f} epoch times of "
                f"{epoch_ms:.0f} ms (at most {EPOCHS_MAX}: {kept})"
            )
    return said


def markdown(title: str, written: Mapping[str, Any], runs: Sequence[LatencyRun], notes: Sequence[str]) -> str:
    """For people: medians over the pairs."""
    lines = heading(title, written)
    for rate in sorted({run.rate for run in runs}):
        at = [run for run in runs if run.rate == rate]
        lines += [f"## {rate:,} events/s", "", "Medians over the pairs, ms.", ""]
        for place, what in PLACES.items():
            lines += [f"{what[0].upper()}{what[1:]}:", "", *_latencies(at, place), ""]
        lines += [*_costs(at), "", *_steps(at)]
    if written["ratios"]:
        lines += ["## Ratios", "", "Above 1 means that we are faster.", "", *ratio_table(written["ratios"]), ""]
    lines += [f"- {one}" for one in [*_limits(written["limits_ms"]), *notes]]
    lines += [f"- {run.contender}, {run.rate}/s, pair {run.pair}: {run.fault}" for run in runs if run.fault]
    return "\n".join(lines) + "\n"


def _latencies(runs: Sequence[LatencyRun], place: str) -> list[str]:
    return table(
        ["", *SHOWN, "max"],
        [
            [name, *(f"{median(run.delays[place][one] for run in those):,.0f}" for one in (*SHOWN, "max"))]
            for name, those in _by_contender(runs).items()
            if all(place in run.delays for run in those)
        ],
    )


def _costs(runs: Sequence[LatencyRun]) -> list[str]:
    columns = ("epoch_ms", "cpu_s", "broker_cpu_s", "memory_mb_peak", "start_s", "load")
    rows = [
        [name, *(_middle([getattr(run, one) for run in those]) for one in columns)]
        for name, those in _by_contender(runs).items()
    ]
    return table(["", "epoch ms", "CPU-s", "broker CPU-s", "peak MB", "start s", "load"], rows)


def _middle(values: Sequence[float | None]) -> str:
    known = [one for one in values if one is not None]
    return f"{median(known):,.1f}" if known else "-"


def _steps(runs: Sequence[LatencyRun]) -> list[str]:
    lines = []
    for name, those in _by_contender(runs).items():
        if all(run.steps for run in those):
            rows = [
                [
                    step,
                    *(f"{median(run.steps[step][one] for run in those):,.0f}" for one in ("mean", "p50", "p99")),
                ]
                for step in those[0].steps
            ]
            lines += [f"Steps of {name}, ms by event:", "", *table(["step", "mean", "p50", "p99"], rows), ""]
    return lines


def _limits(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [
        f"Limit, {name}: " + ", ".join(f"{percentile} {value} ms" for percentile, value in one.items())
        for name, one in found.items()
    ]


def _by_contender(runs: Sequence[LatencyRun]) -> dict[str, list[LatencyRun]]:
    found: dict[str, list[LatencyRun]] = {}
    for run in runs:
        found.setdefault(run.contender, []).append(run)
    return found

"""Sizes on disk over time: how far each place grew, as a table and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

from benchmarks.harness.command import write_results

mpl.use("Agg")  # files only
from matplotlib import pyplot as plt

STATE, VIEW, TOPICS = "checkpoint", "view", "topics"
"""Spark's state; the stores of rehydrator and publisher; the broker's logs, which are compacted after a day."""
BOUNDED = (STATE, VIEW)
GROWTH_MAX = 1.25
"""A place is bounded if its largest size in the last third of the time is at most this much of the middle's."""


@dataclass(frozen=True)
class Sizes:
    """MB by place at one moment."""

    at_s: float
    """Since the load began."""
    mb: Mapping[str, float]


def size_mb(folder: Path) -> float:
    """Return the MB of a folder's files. A file that goes meanwhile counts nothing."""
    total = 0
    for one in folder.rglob("*"):
        try:
            total += one.stat().st_size if one.is_file() else 0
        except FileNotFoundError:
            continue
    return total / 1e6


def largest(sizes: Sequence[Sizes], place: str) -> tuple[float, float]:
    """Return the largest MB of a place in the middle third of the time, and in the last."""
    end_s = sizes[-1].at_s
    middle = [one.mb[place] for one in sizes if end_s / 3 <= one.at_s < end_s * 2 / 3]
    last = [one.mb[place] for one in sizes if one.at_s >= end_s * 2 / 3]
    return max(middle, default=0.0), max(last)


def document(about: Mapping[str, Any], sizes: Sequence[Sizes], wrong: str | None) -> dict[str, Any]:
    """Return what soak.json holds. `wrong`: what is wrong with the rows; None if nothing."""
    ratios = {}
    for place in sizes[-1].mb:
        middle, last = largest(sizes, place)
        ratio = round(middle / last, 3) if last else 0.0
        ratios[f"{place}-middle/last"] = {"median": ratio, "min": ratio, "max": ratio, "pairs": 1}
    bounded = all(ratios[f"{place}-middle/last"]["median"] >= 1 / GROWTH_MAX for place in BOUNDED)
    return {
        "benchmark": "soak",
        "machine": dict(about),
        "exact": wrong is None,
        "bounded": bounded,
        "fault": wrong,
        "ratios": ratios,
        "runs": [{"at_s": round(one.at_s, 1), **{at: round(mb, 1) for at, mb in one.mb.items()}} for one in sizes],
    }


def table(title: str, sizes: Sequence[Sizes], wrong: str | None) -> str:
    """Return the page for people."""
    head = "| place | largest MB, middle third | last third |"
    rows = (
        f"| {at} | {middle:,.1f} | {last:,.1f} |" for at in sizes[-1].mb for middle, last in [largest(sizes, at)]
    )
    return "\n".join([f"# {title}", "", f"Rows: {wrong or 'exact'}.", "", head, "|---|---:|---:|", *rows]) + "\n"


def draw(title: str, sizes: Sequence[Sizes], path: Path) -> None:
    """Write a PNG of the places that must be bounded."""
    figure, axes = plt.subplots(figsize=(10, 4.5), dpi=100, facecolor="white")
    for colour, place in zip(("#d64545", "#486581"), BOUNDED, strict=True):
        axes.plot([one.at_s for one in sizes], [one.mb[place] for one in sizes], color=colour, label=place)
    axes.set_title(title, loc="left", weight="bold")
    axes.set_xlabel("seconds of the clock")
    axes.set_ylabel("MB on disk")
    axes.set_ylim(bottom=0)
    axes.grid(color="#e4e7eb")
    axes.spines[:].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, format="png", bbox_inches="tight")
    plt.close(figure)


def write(out: Path, title: str, found: Mapping[str, Any], sizes: Sequence[Sizes]) -> None:
    """Write the result files and the picture."""
    write_results(out, found, table(title, sizes, found["fault"]))
    draw(title, sizes, out / "soak.png")

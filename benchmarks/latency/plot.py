"""The picture: how latencies are distributed, and of which steps ours are made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import matplotlib as mpl
import numpy as np

mpl.use("Agg")  # files only
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.latency.outcome import CHANGELOG, READABLE, LatencyRun
from benchmarks.latency.steps import STEPS, WAIT

_INK, _MUTED, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
_LINES = ("#d64545", "#486581", "#62b0a5", "#f7a23b", "#7b5ea7")
_STEPS = ("#cbd2d9", "#f7a23b", "#d64545", "#911111", "#7b5ea7", "#bcccdc", "#829ab1", "#486581", "#62b0a5")


def draw(runs: Sequence[LatencyRun], ours: str, path: Path) -> None:
    """Write a PNG: distributions at the lowest rate above; below, a bar a rate, the mean steps of our events."""
    rate = min(run.rate for run in runs)
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(12, 8), dpi=100, height_ratios=(5, 2), facecolor="white")
    figure.subplots_adjust(left=0.085, right=0.98, top=0.88, bottom=0.13, hspace=0.32)
    _distributions(upper, [run for run in runs if run.rate == rate])
    _bars(lower, [run for run in runs if run.contender == ours and run.steps])
    title = f"From an event to what others can read, {rate:,} events/s"
    figure.text(0.02, 0.945, title, fontsize=19, weight="bold", color=_INK)
    told = "share of events that were there within so many ms of the moment they were due; all pairs"
    figure.text(0.02, 0.91, told, fontsize=11.5, color=_MUTED)
    figure.savefig(path, format="png")
    plt.close(figure)


def _distributions(axes: Axes, runs: Sequence[LatencyRun]) -> None:
    for colour, name in zip(_LINES, dict.fromkeys(run.contender for run in runs), strict=False):
        those = [run for run in runs if run.contender == name]
        for place, dash, width in ((READABLE, "-", 2.2), (CHANGELOG, (0, (2, 2)), 1.3)):
            pooled = np.sort(np.concatenate([run.curves[place] for run in those]))
            share = np.arange(1, len(pooled) + 1) / len(pooled) * 100
            axes.plot(pooled, share, color=colour, linestyle=dash, linewidth=width, label=f"{name}: {place}")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(mpl.ticker.NullFormatter())
    axes.set_xlabel("ms", color=_INK)
    axes.set_ylabel("% of events", color=_INK)
    axes.legend(loc="lower right", frameon=False, fontsize=10)
    _style(axes, "both")


def _bars(axes: Axes, runs: Sequence[LatencyRun]) -> None:
    rates = sorted({run.rate for run in runs})
    for row, rate in enumerate(rates):
        left = 0.0
        for colour, step in zip(_STEPS, (WAIT, *STEPS), strict=True):
            width = float(np.mean([run.steps[step]["mean"] for run in runs if run.rate == rate]))
            axes.barh(row, width, left=left, color=colour, height=0.6, label=step if row == 0 else None)
            left += width
        axes.annotate(f" {left:,.0f} ms", (left, row), va="center", fontsize=10, color=_INK)
    axes.set_yticks(range(len(rates)), [f"{rate:,}/s" for rate in rates])
    axes.set_xlabel("mean ms of each step of an event of ours, until committed() yields it", color=_INK)
    axes.margins(x=0.08)
    axes.xaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    if rates:
        axes.legend(loc="upper center", bbox_to_anchor=(0.47, -0.32), ncols=9, frameon=False, fontsize=8.5)
    _style(axes, "x")


def _style(axes: Axes, grid: Literal["both", "x", "y"]) -> None:
    axes.set_axisbelow(True)
    axes.grid(axis=grid, color=_GRID)
    axes.tick_params(length=0, colors=_INK)
    axes.spines[:].set_visible(False)

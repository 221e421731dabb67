"""One page about all result files of a folder: a plot for each benchmark, and its ratios as a table."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # files only
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.harness.charts import Chart, charts, name_of

PAGE = "index.html"
_INK, _BAR, _DOT, _GRID = "#1f2933", "#9fb3c8", "#d64545", "#e4e7eb"
_WIDTH, _ROW, _MARGIN = 11.0, 0.3, 1.0
"""Inches: the plot's width, a row's height, a chart's room for title and axis."""
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2933; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
svg { width: 100%; height: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { padding: .1rem .8rem; text-align: right } td:first-child, th:first-child { text-align: left }
.fault { color: #ba2525 }
"""


def write_page(folder: Path, names: Sequence[str]) -> Path:
    """Write the page beside the result files; those of `names` come first, in that order. Return its path."""
    path = folder / PAGE
    sections = [section(folder, name, document) for name, document in documents(folder, names).items()]
    body = "\n".join(sections) or "<p>There is no result file yet.</p>"
    head = (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Benchmarks</title><style>{_STYLE}</style>'
    )
    told = "A ratio above 1 means that Cutwater is better. Dots are single runs, bars their median."
    path.write_text(f"{head}\n<h1>Benchmarks</h1>\n<p>{told}</p>\n{body}\n</html>\n", encoding="utf-8")
    return path


def documents(folder: Path, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the result files in the form that benchmarks share, by name."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    shared = {name: one for name, one in found.items() if isinstance(one, dict) and one.get("benchmark") == name}
    order = [*(name for name in names if name in shared), *(name for name in shared if name not in names)]
    return {name: shared[name] for name in order}


def section(folder: Path, name: str, document: Mapping[str, Any]) -> str:
    """Return a benchmark's part of the page."""
    written = time.strftime("%Y-%m-%d %H:%M", time.localtime((folder / f"{name}.json").stat().st_mtime))
    machine = ", ".join(f"{what} {value}" for what, value in document["machine"].items())
    exact = "every run exact" if document["exact"] else '<b class="fault">not every run exact</b>'
    files = [
        f'<a href="{name}{end}">{name}{end}</a>' for end in (".md", ".json") if (folder / f"{name}{end}").exists()
    ]
    lines = [
        f'<h2 id="{name}">{escape(_title(folder / f"{name}.md", name))}</h2>',
        f"<p>{written}; {escape(machine)}; {exact}. {', '.join(files)}</p>",
        *(f'<p class="fault">{escape(one)}</p>' for one in _faults(document)),
        plot(document),
        _table(document["ratios"]),
    ]
    return "\n".join(line for line in lines if line)


def plot(document: Mapping[str, Any]) -> str:
    """Return an SVG element with the ratios above the other charts; an empty text if there is nothing to plot."""
    ratios, others = document["ratios"], charts(document)
    heights = [_MARGIN + _ROW * len(rows) for rows in [ratios, *(one.rows for one in others)] if rows]
    if not heights:
        return ""
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure, grid = plt.subplots(
            len(heights),
            figsize=(_WIDTH, sum(heights)),
            height_ratios=heights,
            squeeze=False,
            layout="constrained",
        )
        panels = list(grid[:, 0])
        if ratios:
            _draw_ratios(panels.pop(0), ratios)
        for axes, chart in zip(panels, others, strict=True):
            _draw_chart(axes, chart)
        text = io.StringIO()
        figure.savefig(text, format="svg")
        plt.close(figure)
    return text.getvalue()[text.getvalue().index("<svg") :]


def _draw_ratios(axes: Axes, ratios: Mapping[str, Mapping[str, float]]) -> None:
    for row, one in enumerate(ratios.values()):
        axes.plot([one["min"], one["max"]], [row, row], color=_BAR, linewidth=5, solid_capstyle="round")
        axes.plot(one["median"], row, "o", color=_DOT)
        axes.annotate(f"{one['median']:g}", (one["median"], row), (0, 7), textcoords="offset points", ha="center",
                      fontsize=8, color=_INK)  # fmt: skip
    axes.axvline(1, color=_INK, linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(mpl.ticker.NullFormatter())
    _finish(axes, "ratios: least, median, greatest", list(ratios))


def _draw_chart(axes: Axes, chart: Chart) -> None:
    for row, values in enumerate(chart.rows.values()):
        axes.barh(row, median(values), color=_BAR, height=0.6)
        if len(values) > 1:
            axes.plot(values, [row] * len(values), "o", color=_DOT, markersize=3)
        axes.annotate(f" {median(values):,.4g}", (max(values), row), va="center", fontsize=8, color=_INK)
    axes.margins(x=0.1)
    axes.xaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,g}"))
    _finish(axes, chart.title, list(chart.rows))


def _finish(axes: Axes, title: str, labels: Sequence[str]) -> None:
    axes.set_title(title, loc="left", fontsize=11, color=_INK)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.8)  # the first one on top
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=_GRID)
    axes.tick_params(which="both", length=0, colors=_INK, labelsize=9)
    axes.spines[:].set_visible(False)


def _title(path: Path, name: str) -> str:
    """Return the heading of the benchmark's own page."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text.splitlines()[0].removeprefix("# ") if text.startswith("# ") else name


def _faults(document: Mapping[str, Any]) -> Iterator[str]:
    if document.get("fault"):
        yield document["fault"]
    for run in document.get("runs", []):
        if run.get("fault"):
            yield f"{name_of(run)}: {run['fault']}"


def _table(ratios: Mapping[str, Mapping[str, float]]) -> str:
    if not ratios:
        return ""
    columns = ("median", "min", "max", "pairs")
    rows = [
        f"<tr><td>{escape(name)}</td>{''.join(f'<td>{one[part]:g}</td>' for part in columns)}</tr>"
        for name, one in ratios.items()
    ]
    head = "".join(f"<th>{one}</th>" for one in ("ratio", *columns))
    return "\n".join(
        ["<details><summary>Ratios</summary>", f"<table><tr>{head}</tr>", *rows, "</table></details>"]
    )

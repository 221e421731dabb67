"""The demo's plot: mean delay and movements by hour of the day."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pandas as pd

mpl.use("Agg")  # files only: a demo over ssh has no display
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

_NEW_YORK = "America/New_York"
_INK, _MUTED, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
_DELAY_COLOURS = ("#fce588", "#f7a23b", "#d64545", "#911111")  # from on time to the worst hour
_EARLY_COLOUR = "#62b0a5"
_MOVEMENTS_COLOUR = "#486581"
# Hours with few flights are pale: the mean of a few flights (one delayed aircraft at 3 a.m.) is not significant.
_FEW_SHARE = 0.005
# The night is last: delays pass from flight to flight until the night ends them.
_HOURS = [*range(5, 24), *range(5)]


def delays_by_hour(state: pd.DataFrame, path: Path) -> None:
    """Write a PNG of 1200 x 700 pixels: mean delay and movements by scheduled hour, New York time. `state`: the
    columns of `cutwater.demo.oracle.expected`, for tumbling windows of one hour."""
    hours = _by_hour(state)
    days = _starts(state).dt.date
    figure, (upper, lower) = plt.subplots(
        2, 1, sharex=True, figsize=(12, 7), dpi=100, height_ratios=(5, 2), facecolor="white"
    )
    figure.subplots_adjust(left=0.085, right=0.98, top=0.85, bottom=0.095, hspace=0.1)
    _delays(upper, hours)
    _movements(lower, hours)
    figure.text(0.02, 0.945, _headline(hours), fontsize=19, weight="bold", color=_INK)
    figure.text(0.02, 0.895, _subtitle(hours, days), fontsize=11.5, color=_MUTED)
    figure.savefig(path, format="png")
    plt.close(figure)


def _starts(state: pd.DataFrame) -> pd.Series:
    start = pd.to_datetime(state["window_start_ms"].astype("int64"), unit="ms", utc=True)
    return start.dt.tz_convert(_NEW_YORK)


def _by_hour(state: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each hour of _HOURS: movements, mean_delay (NaN without flights), few."""
    measures = state[["movements", "delayed", "total_delay"]].fillna(0).astype("int64")
    hours = measures.groupby(_starts(state).dt.hour).sum().reindex(_HOURS, fill_value=0)
    mean_delay = hours["total_delay"] / hours["delayed"].where(hours["delayed"] > 0)
    few = hours["movements"] < _FEW_SHARE * hours["movements"].sum()
    return hours.assign(mean_delay=mean_delay, few=few)


def _headline(hours: pd.DataFrame) -> str:
    usual = hours.loc[~hours["few"], "mean_delay"].dropna()
    if usual.empty:
        return "Delays by hour"
    best, worst = usual.idxmin(), usual.idxmax()
    return (
        f"Mean delay by hour: from {_minutes(usual[best])} at {best:02}:00 "
        f"to {_minutes(usual[worst])} at {worst:02}:00"
    )


def _minutes(delay: float) -> str:
    return f"{abs(delay):.0f} min {'early' if delay < 0 else 'late'}"


def _subtitle(hours: pd.DataFrame, days: pd.Series) -> str:
    first, last = (f"{day.day} {day:%B %Y}" for day in (days.min(), days.max()))
    return (
        f"{hours['movements'].sum():,} departures and arrivals, flights from New York's EWR, JFK and LGA, "
        f"due {first} to {last}"
    )


def _delays(axes: Axes, hours: pd.DataFrame) -> None:
    longest = max(hours.loc[~hours["few"], "mean_delay"].max(), 1)
    scale = mpl.colors.LinearSegmentedColormap.from_list("delay", _DELAY_COLOURS)
    delays = hours["mean_delay"]
    colours = [_EARLY_COLOUR if delay < 0 else scale(delay / longest) for delay in delays.fillna(0)]
    for place, (delay, few) in enumerate(zip(delays, hours["few"], strict=True)):
        if pd.notna(delay):
            axes.bar(place, delay, width=0.82, color=colours[place], alpha=0.3 if few else 1)
            _label(axes, place, delay, pale=few)
    axes.axhline(0, color=_INK, linewidth=0.9)
    axes.margins(y=0.1)
    axes.yaxis.set_major_locator(mpl.ticker.MaxNLocator(nbins=6, integer=True))
    axes.set_ylabel("mean delay (minutes)", color=_INK)
    _style(axes)


def _label(axes: Axes, x: float, delay: float, *, pale: bool) -> None:
    below = delay < 0
    axes.annotate(
        f"{delay:+.0f}".replace("-", "\N{MINUS SIGN}"), (x, delay), xytext=(0, -4 if below else 4),
        textcoords="offset points", ha="center", va="top" if below else "bottom", fontsize=10,
        color=_MUTED if pale else _INK,
    )  # fmt: skip


def _movements(axes: Axes, hours: pd.DataFrame) -> None:
    axes.bar(range(24), hours["movements"], width=0.82, color=_MOVEMENTS_COLOUR)
    axes.set_ylabel("movements", color=_INK)
    axes.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    axes.set_xlim(-0.6, 23.6)
    axes.set_xticks(range(24), [f"{hour:02}" for hour in hours.index])
    axes.set_xlabel("scheduled hour of the day, New York time (pale: under 0.5 % of the movements)", color=_INK)
    _style(axes)


def _style(axes: Axes) -> None:
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=_GRID)
    axes.tick_params(length=0, colors=_INK)
    axes.yaxis.set_label_coords(-0.058, 0.5)
    axes.spines[:].set_visible(False)

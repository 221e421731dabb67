"""A run of chaos as a page of HTML with a plot, which loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from cutwater.core.chaos.plan import ChaosPlan, Fault
from cutwater.core.chaos.recovery import Look, Reaction, lags

WIDTH, HEIGHT, LEFT, BOTTOM = 960, 260, 56, 34
POINTS_MAX = 2_000
_STYLE = """
:root {
  color-scheme: light dark; --ink: #1f2933; --soft: #5b6875; --line: #0b69a3; --fault: #c81e1e; --room: #fff
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --soft: #9aa5b1; --line: #63b3ed; --fault: #fc8181; --room: #12181f }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--room); margin: 2rem auto;
  max-width: 62rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .3rem .6rem .3rem 0;
  border-bottom: 1px solid color-mix(in srgb, var(--soft) 35%, transparent) }
svg { width: 100%; height: auto } text { fill: var(--soft); font-size: 12px }
.wrong { color: var(--fault); font-weight: 600 }
"""


def chaos_page(
    job: str, plan: ChaosPlan, looks: Sequence[Look], found: Sequence[Reaction], notes: Sequence[str]
) -> str:
    """Return the page. `notes`: lines about the run's verdict."""
    rows = "".join(f"<tr>{''.join(f'<td>{one}</td>' for one in _cells(one))}</tr>" for one in found)
    head = "".join(
        f"<th>{one}</th>" for one in ("at", "fault", "alert", "after", "largest lag", "recovered after")
    )
    said = "".join(f"<li>{escape(one)}</li>" for one in notes)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Chaos: {escape(job)}</title>'
        f"<style>{_STYLE}</style><h1>Chaos: {escape(job)}</h1><ul>{said}</ul>"
        f"<h2>Lag, seconds</h2>{lag_plot(plan, looks)}"
        f"<h2>Faults</h2><table><tr>{head}</tr>{rows}</table></html>\n"
    )


def _cells(one: Reaction) -> Iterable[str]:
    yield f"{one.fault.at_s:g} s"
    yield escape(str(one.fault))
    yield escape(one.alert) or "none"
    yield "" if one.alerted_s is None else f"{one.alerted_s:.1f} s"
    yield f"{one.lag_max_s:.1f} s"
    text = "not before the end" if one.recovered_s is None else f"{one.recovered_s:.1f} s"
    yield text if one.in_time else f'<span class="wrong">{text}</span>'


def lag_plot(plan: ChaosPlan, looks: Sequence[Look]) -> str:
    """Return an SVG of the lag over time, the faults as bands and the bound as a dashed line."""
    values = lags(looks)
    whole_s = max([plan.seconds, *(one.at_s for one in looks)])
    most = max([plan.lag_bound_s, *values]) * 1.1

    def x(at_s: float) -> float:
        return LEFT + (WIDTH - LEFT - 8) * at_s / whole_s

    def y(lag: float) -> float:
        return (HEIGHT - BOTTOM) * (1 - lag / most) + 4

    def band(one: Fault) -> str:
        width = max(2.0, x(one.end_s) - x(one.at_s))
        place = f'x="{x(one.at_s):.1f}" y="4" width="{width:.1f}" height="{HEIGHT - BOTTOM}"'
        return f'<rect {place} fill="var(--fault)" fill-opacity=".18"><title>{escape(str(one))}</title></rect>'

    bands = "".join(map(band, plan.faults))
    line = " ".join(f"{x(look.at_s):.1f},{y(lag):.1f}" for look, lag in _thinned(looks, values))
    bound = y(plan.lag_bound_s)
    texts = "".join(
        [*(_lag_text(y(one), one) for one in (0.0, most / 1.1))]
        + [_time_text(x(one), one) for one in (0.0, whole_s / 2, whole_s * 0.97)]
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Lag over time, with faults">{bands}'
        f'<line x1="{LEFT}" x2="{WIDTH - 8}" y1="{bound:.1f}" y2="{bound:.1f}" stroke="var(--soft)" '
        f'stroke-dasharray="4 4"/><polyline points="{line}" fill="none" stroke="var(--line)" stroke-width="2"/>'
        f"{texts}</svg>"
    )


def _lag_text(y: float, lag_s: float) -> str:
    return f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{lag_s:.3g}</text>'


def _time_text(x: float, at_s: float) -> str:
    return f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{at_s:.0f} s</text>'


def _thinned(looks: Sequence[Look], values: Sequence[float]) -> list[tuple[Look, float]]:
    """Return at most POINTS_MAX points: of each group of neighbours the one with the largest lag."""
    pairs = list(zip(looks, values, strict=True))
    size = max(1, -(-len(pairs) // POINTS_MAX))
    groups = [pairs[first : first + size] for first in range(0, len(pairs), size)]
    return [max(one, key=lambda pair: pair[1]) for one in groups]

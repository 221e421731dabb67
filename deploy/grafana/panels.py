"""Rows of panels, and the dashboard that Grafana takes: its schema 42, as a plain value.

Expressions are written without the job that a reader selects: `Query.selected` adds it to every metric.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 42
COLUMNS = 24
HEIGHT, STAT_HEIGHT = 8, 4
"""Of a panel, in Grafana's grid."""
JOB = 'cutwater_job=~"$cutwater_job"'
"""The label that a ServiceMonitor adds. Its variable also matches series that do not have the label."""
TAG = "cutwater"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_METRIC = re.compile(r"\b((?:cutwater|process)_\w+|up)\b(?:\{([^}]*)\})?")
_STAT = {
    "graphMode": "area",
    "colorMode": "value",
    "justifyMode": "auto",
    "textMode": "auto",
    "wideLayout": True,
    "showPercentChange": False,
    "percentChangeColorMode": "standard",
    "orientation": "auto",
    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
}
_GRAPH = {
    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
    "tooltip": {"mode": "multi", "sort": "desc"},
}


@dataclass(frozen=True)
class Query:
    """An expression of Prometheus. `legend`: the name of its series; `{{label}}` stands for a label's value."""

    expr: str
    legend: str = ""
    exemplars: bool = False
    """Show the traces that the metric names."""

    @property
    def selected(self) -> str:
        """The expression, for the job that is selected."""
        return _METRIC.sub(lambda one: f"{one[1]}{{{', '.join(filter(None, (one[2], JOB)))}}}", self.expr)


@dataclass(frozen=True)
class Panel:
    """`good`: the values that are green, from the first up to the second; None: there is no such limit."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    description: str = ""
    kind: Literal["stat", "timeseries"] = "timeseries"
    good: tuple[float | None, float | None] | None = None
    stacked: bool = False


@dataclass(frozen=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    """`role`: who reads it; also the end of its uid and of its file's name."""

    role: str
    title: str
    description: str
    rows: tuple[Row, ...] = field(default=())

    @property
    def file(self) -> str:
        return f"{self.role}.json"


def graph(title: str, unit: str, *queries: Query, description: str = "", stacked: bool = False) -> Panel:
    return Panel(title, unit, queries, description, stacked=stacked)


def stat(
    title: str,
    unit: str,
    expr: str,
    description: str = "",
    good: tuple[float | None, float | None] | None = None,
) -> Panel:
    return Panel(title, unit, (Query(expr),), description, "stat", good)


def rate(metric: str, by: str = "") -> str:
    """Return the expression of a counter's increase per second, over all instances or by a label."""
    return f"sum{f' by ({by})' if by else ''} (rate({metric}[$__rate_interval]))"


def quantile(metric: str, by: str = "", rank: float = 0.95) -> str:
    """Return the expression of a histogram's quantile, over all instances or by a label."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({rank}, sum by ({labels}) (rate({metric}_bucket[$__rate_interval])))"


def plain(dashboard: Dashboard) -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "title": f"Cutwater: {dashboard.title}",
        "uid": f"cutwater-{dashboard.role}",
        "description": dashboard.description,
        "tags": [TAG],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "links": [_others()],
        "panels": list(_placed(dashboard.rows)),
    }


def _variables() -> list[dict[str, Any]]:
    everything = {"selected": True, "text": "All", "value": "$__all"}
    return [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "cutwater_job",
            "label": "Job",
            "type": "query",
            "datasource": _SOURCE,
            "query": "label_values(cutwater_watch_sequence, cutwater_job)",
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": everything,
        },
    ]


def _others() -> dict[str, Any]:
    """Return the link to the dashboards of the other roles, for the same job and time."""
    return {
        "title": "Cutwater",
        "type": "dashboards",
        "icon": "external link",
        "tooltip": "Dashboards of the other roles",
        "tags": [TAG],
        "asDropdown": False,
        "targetBlank": False,
        "includeVars": True,
        "keepTime": True,
    }


def _placed(rows: tuple[Row, ...]) -> Iterator[dict[str, Any]]:
    """Yield rows and their panels, each row below the one before, its panels side by side."""
    number, top = 1, 0
    for row in rows:
        place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "gridPos": place,
            "collapsed": False,
            "panels": [],
        }
        number, top = number + 1, top + 1
        width = COLUMNS // len(row.panels)
        height = max(STAT_HEIGHT if one.kind == "stat" else HEIGHT for one in row.panels)
        for at, panel in enumerate(row.panels):
            yield _panel(panel, number, {"x": at * width, "y": top, "w": width, "h": height})
            number += 1
        top += height


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    made = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "gridPos": place,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _STAT if panel.kind == "stat" else _GRAPH,
        "targets": [_target(one, at) for at, one in enumerate(panel.queries)],
    }
    return made | ({"description": panel.description} if panel.description else {})


def _field(panel: Panel) -> dict[str, Any]:
    made: dict[str, Any] = {"unit": panel.unit}
    if panel.good is not None:
        made |= {"color": {"mode": "thresholds"}, "thresholds": _thresholds(*panel.good)}
    if panel.kind == "timeseries":
        mode = "normal" if panel.stacked else "none"
        made["custom"] = {"fillOpacity": 20 if panel.stacked else 0, "stacking": {"mode": mode, "group": "A"}}
    return made


def _thresholds(least: float | None, most: float | None) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green" if least is None else "red", "value": None}]
    if least is not None:
        steps.append({"color": "green", "value": least})
    if most is not None:
        steps.append({"color": "red", "value": most})
    return {"mode": "absolute", "steps": steps}


def _target(query: Query, at: int) -> dict[str, Any]:
    made: dict[str, Any] = {"refId": chr(ord("A") + at), "expr": query.selected}
    return made | (
        ({"legendFormat": query.legend} if query.legend else {}) | ({"exemplar": True} if query.exemplars else {})
    )

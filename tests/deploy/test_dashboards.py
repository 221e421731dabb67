"""Grafana's dashboards: as the code makes them, by Grafana's schema, and only of metrics that services register.

`grafana.schema.json` is this project's own. It has the fields that are used, and is strict about them. It follows
Grafana's description of a dashboard: `kinds/dashboard` of grafana/grafana, and the JSON schemas that are made from
it, `jsonschema` of grafana/grafana-foundation-sdk (at f178d5a). The dashboards have passed those, too.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from deploy.grafana.dashboards import DASHBOARDS, FOLDERS, files
from deploy.grafana.panels import JOB, Dashboard, Query, plain
from docs._generate.service_pages import registries
from prometheus_client import CollectorRegistry

from support.promql import names

HERE = Path(__file__).parent
RULES = yaml.safe_load((HERE.parents[1] / "deploy/prometheus/alerts.yml").read_text("utf-8"))["groups"]
SCHEMA = json.loads((HERE / "grafana.schema.json").read_text("utf-8"))
QUERIES = [
    (one, query) for one in DASHBOARDS for row in one.rows for panel in row.panels for query in panel.queries
]
OF_PROMETHEUS = {"up": set[str](), "ALERTS": {"alertname", "severity", "alertstate"}}
OF_A_SCRAPE = {"job", "instance", "cutwater_job"}
each_query = pytest.mark.parametrize(
    "query", [query for _, query in QUERIES], ids=[f"{one.role}-{at}" for at, (one, _) in enumerate(QUERIES)]
)
each_dashboard = pytest.mark.parametrize("one", DASHBOARDS, ids=lambda one: one.role)


def metrics(registry: CollectorRegistry) -> dict[str, tuple[str, set[str]]]:
    """Kind and labels of each series, by the name that Prometheus has it under."""
    found = {}
    for collector in registry._collector_to_names:
        makers = [collector] if hasattr(collector, "_labelnames") else collector.collect()
        for made, family in zip(makers, collector.collect(), strict=True):
            labels = set(getattr(made, "_labelnames", ()))
            if family.type == "histogram":
                found |= {
                    f"{family.name}_{part}": ("counter", labels | ({"le"} if part == "bucket" else set()))
                    for part in ("bucket", "sum", "count")
                }
            else:
                found[f"{family.name}{'_total' * (family.type == 'counter')}"] = (family.type, labels)
    return found


REGISTERED = {name: one for registry in registries().values() for name, one in metrics(registry).items()}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda one: one.parent.name)
def test_the_files_are_what_the_code_makes(folder: Path) -> None:
    """`make fmt` writes them; no other file lies beside them."""
    assert {one.name: one.read_text("utf-8") for one in folder.glob("*.json")} == files()


@each_dashboard
def test_a_dashboard_follows_the_schema(one: Dashboard) -> None:
    jsonschema_rs.validator_for(SCHEMA).validate(json.loads(files()[one.file]))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("gridPos", {"x": 20, "y": 0, "w": 4}),
        ("type", "graph"),
        ("targets", []),
        ("titel", "x"),
        ("fieldConfig", {}),
    ],
)
def test_the_schema_refuses_what_grafana_would_not_show(place: str, value: Any) -> None:
    """A panel without a height, of a kind that Grafana has removed, without queries, with a mistyped field."""
    broken = plain(DASHBOARDS[0])
    broken["panels"][1] |= {place: value}
    assert not jsonschema_rs.validator_for(SCHEMA).is_valid(broken)


@each_dashboard
def test_panels_lie_side_by_side(one: Dashboard) -> None:
    """Each has a number of its own, and no cell of the grid has two panels."""
    panels = plain(one)["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    taken = [cell for panel in panels for cell in cells(panel["gridPos"])]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24


def cells(place: dict[str, int]) -> list[tuple[int, int]]:
    left, top = place["x"], place["y"]
    return [(x, y) for x in range(left, left + place["w"]) for y in range(top, top + place["h"])]


def test_each_dashboard_has_its_own_names() -> None:
    """One for each role; Grafana finds a dashboard by its uid, of at most 40 characters."""
    assert [one.role for one in DASHBOARDS] == ["job-owner", "operator", "regions"]
    made = [plain(one) for one in DASHBOARDS]
    assert len({one["title"] for one in made}) == len({one["uid"] for one in made}) == len(DASHBOARDS)
    assert all(len(one["uid"]) <= 40 for one in made)


@each_query
def test_an_expression_names_metrics_that_services_register(query: Query) -> None:
    """A counter by its increase, a histogram by its buckets, a gauge as it is; and labels that they have."""
    found = names(query.selected)
    assert found.metrics
    labels = set(OF_A_SCRAPE)
    for name in found.metrics:
        if name in OF_PROMETHEUS:
            labels |= OF_PROMETHEUS[name]
            continue
        assert name in REGISTERED, f"no service registers {name}"
        kind, own = REGISTERED[name]
        labels |= own
        assert (kind == "counter") == bool(re.search(rf"\b(rate|increase)\({name}\W", query.expr)), name
    assert found.selects | found.groups <= labels


@each_query
def test_an_expression_is_of_the_job_that_is_selected(query: Query) -> None:
    """In each metric but Prometheus' own list of alerts."""
    metrics = [one for one in names(query.expr).metrics if one != "ALERTS"]
    assert all(re.search(rf"\b{name}{{[^}}]*{re.escape(JOB)}}}", query.selected) for name in metrics)
    assert query.selected.count(JOB) == sum(len(re.findall(rf"\b{name}\b", query.expr)) for name in metrics)


@each_query
def test_a_legend_names_labels_that_the_series_have(query: Query) -> None:
    """Those by which it is grouped; one that is not grouped has those of its process."""
    told, groups = set(re.findall(r"{{(\w+)}}", query.legend)), names(query.expr).groups - {"le"}
    grouped = re.search(r"\b(sum|max|min|count|histogram_quantile)\b", query.expr)
    assert told == groups if grouped else told <= OF_A_SCRAPE


def test_what_raises_an_alert_of_prometheus_can_be_seen() -> None:
    alerting = {name for group in RULES for rule in group["rules"] for name in names(rule["expr"]).metrics}
    assert alerting <= {name for _, query in QUERIES for name in names(query.expr).metrics}


def test_names_are_told_from_functions_labels_and_texts() -> None:
    found = names(
        'topk(3, sum without (b, c) (rate(m_total{a=~"x|by (y)", d!="e"}[5m]))) / on (f) n unless o == bool 1'
    )
    assert found == ({"m_total", "n", "o"}, {"a", "d"}, {"b", "c", "f"})
    assert names("sum(n) by (a) + 2e3").groups == {"a"}


@pytest.mark.needs("promtool")
def test_every_expression_can_be_read(tmp_path: Path) -> None:
    """Written down as recording rules, since promtool reads no dashboards."""
    shown = [query.selected for _, query in QUERIES]
    rules = [
        {"record": f"shown:{at}", "expr": one.replace("$__rate_interval", "1m").replace("$cutwater_job", ".*")}
        for at, one in enumerate(shown)
    ]
    (tmp_path / "shown.yml").write_text(yaml.safe_dump({"groups": [{"name": "shown", "rules": rules}]}))
    ran = subprocess.run(
        ["promtool", "check", "rules", "shown.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert f"{len(shown)} rules found" in ran.stdout, ran.stdout + ran.stderr

"""Prometheus' configuration and its rules, held against compose file, metrics and pages."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.pages import text_of

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "deploy" / "prometheus"
SCRAPED: list[dict[str, Any]] = yaml.safe_load((CONFIGURATION / "prometheus.yml").read_text("utf-8"))[
    "scrape_configs"
]
GROUPS = yaml.safe_load((CONFIGURATION / "alerts.yml").read_text("utf-8"))["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
METRICS = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", text_of("docs/METRICS.md"), re.MULTILINE))


def promtool(*arguments: str, cwd: Path = CONFIGURATION) -> str:
    """What it prints. Raises with that when it finds something wrong."""
    ran = subprocess.run(
        ["promtool", *arguments], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_every_service_with_metrics_is_asked_at_its_port() -> None:
    """Where the compose file's settings turn metrics on, by the service's name; and nothing else is asked."""
    ports = [
        (name, key, port) for name, one in SERVICES.items() for key, port in one.get("environment", {}).items()
    ]
    wanted = {f"{name}:{port}" for name, key, port in ports if re.fullmatch(r"CUTWATER_(\w+_)?PORT", key)}
    asked = {job["job_name"]: set(job["static_configs"][0]["targets"]) for job in SCRAPED}
    assert set().union(*asked.values()) == wanted
    for name, targets in asked.items():
        assert all(re.fullmatch(rf"{name}(-\d)?:\d+", one) for one in targets)
        assert f"\n## {name}\n" in text_of("docs/METRICS.md")


def test_only_who_asks_for_the_token_is_given_it() -> None:
    """The views; the file is the one that the container writes."""
    given = {job["job_name"]: job["authorization"] for job in SCRAPED if "authorization" in job}
    assert list(given) == ["rehydrator"]
    assert given["rehydrator"]["credentials_file"] in " ".join(SERVICES["prometheus"]["entrypoint"])


def test_prometheus_is_bounded_and_comes_when_it_is_asked_for() -> None:
    """In memory, on disk and in time; it reaches the driver, which is on Spark's network only."""
    one = SERVICES["prometheus"]
    assert one["profiles"] == ["metrics"]
    assert [name for name, other in SERVICES.items() if "profiles" in other] == ["mirror", "prometheus"]
    assert one["mem_limit"]
    arguments = " ".join(one["command"])
    assert all(f"--storage.tsdb.retention.{bound}=" in arguments for bound in ("time", "size"))
    assert set(SERVICES["driver"]["networks"]) < set(one["networks"])
    assert not [volume for volume in one["volumes"] if "docker.sock" in volume]


def names(expression: str) -> set[str]:
    """The metrics in it; Prometheus makes `up` and `ALERTS` itself."""
    return set(re.findall(r"\b(?:cutwater_\w+|up|ALERTS)\b", expression)) - {"up", "ALERTS"}


@pytest.mark.parametrize("expression", [rule["expr"] for rule in RULES])
def test_an_expression_names_metrics_that_exist(expression: str) -> None:
    """As docs/METRICS.md has them; a counter by its increase, a histogram by its buckets."""
    assert re.search(r"\b(cutwater_\w+|up|ALERTS)\b", expression)
    for name in names(expression):
        kind = METRICS.get(name.removesuffix("_bucket"))
        assert kind, f"{name} is not in docs/METRICS.md"
        assert (kind == "histogram") == name.endswith("_bucket")
        assert (kind == "gauge") != bool(re.search(rf"\b(rate|increase)\({name}\W", expression)), name


def anchors(page: str) -> set[str]:
    """Of its headings, as they are made by the site and by GitHub."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("rule", RULES, ids=lambda one: one["alert"])
def test_an_alert_says_where_to_read_on(rule: dict[str, Any]) -> None:
    """Its summary ends with a page and a heading of it; the label says how urgent it is."""
    assert rule["labels"]["severity"] in {"page", "ticket"}
    found = re.search(r" (docs/\w+\.md)#(\S+)$", rule["annotations"]["summary"])
    assert found
    page, anchor = found.groups()
    assert anchor in anchors(page)


@pytest.mark.needs("promtool")
def test_the_configuration_and_the_rules_are_what_prometheus_reads() -> None:
    """Without looking for the token's file, which is the container's."""
    promtool("check", "config", "--syntax-only", "prometheus.yml")
    said = promtool("check", "rules", "alerts.yml")
    assert f"{len(RULES)} rules found" in said


@pytest.mark.needs("promtool")
def test_each_alert_fires_when_it_should_and_not_before() -> None:
    promtool("test", "rules", "alerts_test.yml", cwd=Path(__file__).parent)
    tested = (Path(__file__).parent / "alerts_test.yml").read_text("utf-8")
    assert not [rule["alert"] for rule in RULES if rule["alert"] not in tested]

"""What Prometheus says of a running compose project."""

from __future__ import annotations

from typing import Any

import httpx
from compose import Compose, docker

from support.harness import wait_until

TARGETS = 7
NOT_STARTED = "mirror"
"""Only with its profile."""
SCRAPES_S = 60
"""Every service is asked within ten seconds; the rest is for a machine that has much else to do."""


def require_measured(compose: Compose, sequence: int) -> None:
    """Every service is read, both views show that milestone, the rules are evaluated, and the pages are there."""
    wait_until(lambda: not unread(compose), "every service read by Prometheus", SCRAPES_S)
    shown = {"rehydrator-1:8321": sequence, "rehydrator-2:8321": sequence}
    wait_until(lambda: asked(compose, "cutwater_view_sequence") == shown, "the newest milestone", SCRAPES_S)
    assert asked(compose, "changes(cutwater_driver_attempt[1h])") == {"driver:9101": 1}, "it was killed once"
    rules = [rule for group in answer(compose, "rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}
    assert not [rule["name"] for rule in rules if rule["state"] == "firing"]
    assert httpx.get(f"{compose.prometheus}/classic/alerts").is_success
    state = compose.state("prometheus")
    assert state["State"]["Health"]["Status"] == "healthy"
    assert docker("exec", state["Id"], "promtool", "check", "config", "/etc/prometheus/prometheus.yml")
    assert docker("exec", state["Id"], "id", "-u") == "10001"


def answer(compose: Compose, of: str, **parameters: str) -> Any:
    """What an endpoint of Prometheus' own API says."""
    return httpx.get(f"{compose.prometheus}/api/v1/{of}", params=parameters).raise_for_status().json()["data"]


def unread(compose: Compose) -> list[str]:
    """Which targets were not read, and why; all that there should be, are there."""
    targets = answer(compose, "targets")["activeTargets"]
    assert len(targets) == TARGETS
    wanted = [one for one in targets if one["labels"]["job"] != NOT_STARTED]
    return [f"{one['labels']['instance']}: {one['lastError']}" for one in wanted if one["health"] != "up"]


def asked(compose: Compose, query: str) -> dict[str, float]:
    """The values of now, by the service that told them."""
    found = answer(compose, "query", query=query)["result"]
    return {one["metric"]["instance"]: float(one["value"][1]) for one in found}

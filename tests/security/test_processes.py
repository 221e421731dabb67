"""The services and the driver, each as a user of its own that may do just what docs/SECURITY.md lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from cutwater.adapters.config.settings import environment
from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.topics.alerts import read_alerts
from cutwater.client import committed
from cutwater.core.errors import UsageError
from cutwater.core.monitoring.alerts import on
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.generation import Token
from cutwater.local.machine.ports import free_ports
from support.events import counting
from support.harness import GENERATION, Flow, flow, wait_until
from support.kafka.granting import create
from support.kafka.secured_broker import Secured
from support.speaking_driver import QUICK, SpeakingDriver, metric

PAGE = Path(__file__).parents[2] / "docs" / "SECURITY.md"
USER_OF = {
    "driver": "driver",
    "commit-signal": "signal",
    "rehydrator": "view",
    "publisher": "publish",
    "watch": "watch",
}
MODULES = {
    "driver": "cutwater_spark.driver",
    "commit-signal": "cutwater.commit_signal",
    "rehydrator": "cutwater.rehydrator",
    "publisher": "cutwater.publisher",
    "watch": "cutwater.watch",
}
_ROW = re.compile(
    r"^\| (\S+) \| (topic|group|transactional id) \| `([^`]+)` \| (\w+) \| ([\w, ]+) \|$", re.MULTILINE
)


def documented_acls(job: str, topic: str) -> list[AclBinding]:
    """The table of docs/SECURITY.md, for the users of this test."""
    kinds = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
    names = {"<job>": job, "<source.topic>": topic, "<generation>": str(GENERATION)}
    found = []
    for service, kind, template, pattern, operations in _ROW.findall(PAGE.read_text(encoding="utf-8")):
        name = re.sub(r"<[\w.]+>", lambda found: names[found[0]], template)
        for operation in operations.split(", "):
            if service in USER_OF:
                found.append(
                    AclBinding(
                        kinds.get(kind, ResourceType.TRANSACTIONAL_ID),
                        name,
                        ResourcePatternType[pattern.upper()],
                        f"User:{USER_OF[service]}",
                        "*",
                        AclOperation[operation.upper()],
                        AclPermissionType.ALLOW,
                    )
                )
    return found


def grant(secured: Secured, job: str, topic: str) -> None:
    acls = documented_acls(job, topic)
    assert {acl.principal for acl in acls} == {f"User:{user}" for user in USER_OF.values()}
    create(secured.cluster("admin"), acls)


def served(url: str) -> dict[tuple[str, int], dict[str, Any]]:
    rows = httpx.get(f"{url}/v1/state", params={"limit": 10_000}, timeout=30).json()["rows"]
    return {
        (row["key"], round(datetime.fromisoformat(row["window_start"]).timestamp() * 1000)): {
            "ticks": row["ticks"],
            "total": row["total"],
        }
        for row in rows
    }


@pytest.mark.slow
@pytest.mark.spark
def test_the_whole_flow_on_sasl_ssl_with_the_least_rights(
    sasl_ssl: Secured, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """Spark reads and writes, milestones are chained and the view serves exactly what pandas computes.

    Every process has its own user, with the ACLs of docs/SECURITY.md and no other.
    """
    made = counting.events(2_000)
    with flow(sasl_ssl.cluster("admin"), counting.job_text(unique("safe")), tmp_path, counting.SCHEMA) as job:
        grant(sasl_ssl, job.job.name, job.job.topic)
        job.produce(made)

        def start(service: str, **env: str) -> None:
            job.start(MODULES[service], **environment(sasl_ssl.cluster(USER_OF[service])), **env)

        port = str(free_ports(1)[0])
        start("driver")
        start("commit-signal")
        start("rehydrator", CUTWATER_PORT=port, CUTWATER_HOST="0.0.0.0")
        start("publisher")
        milestone = job.wait_committed()
        assert job.state(milestone) == counting.expected(made)
        assert list(find_chain_faults(job.milestones())) == []
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: shown(url) == str(milestone.token), "the view at the newest milestone")
        assert served(url) == counting.expected(made)
        assert published(sasl_ssl, job, milestone.token) == counting.expected(made)
        assert "set CUTWATER_API_TOKEN" in job.log(MODULES["rehydrator"]).read_text()
        _no_more_than_documented(sasl_ssl, job)


def published(secured: Secured, job: Flow, last: Token) -> dict[tuple[str, int], dict[str, Any]]:
    """The output's rows, milestone by milestone."""
    rows = {}
    for milestone in committed(job.job, secured.cluster("admin"), idle_s=60):
        for change in milestone.changes:
            rows[change.key, change.window_start_ms] = change.values
        if milestone.token == last:
            break
    return rows


def shown(url: str) -> str:
    try:
        return str(httpx.get(f"{url}/v1/milestone", timeout=10).json().get("token"))
    except httpx.HTTPError:
        return ""


def _no_more_than_documented(secured: Secured, job: Flow) -> None:
    """The rights are real ones: the view's user may not produce events."""
    with pytest.raises(UsageError, match=r"docs/SECURITY\.md"):
        EventWriter(secured.cluster("view"), job.job).write_all(counting.events(1))


@pytest.mark.variations
@pytest.mark.parametrize("service", MODULES)
def test_a_wrong_password_ends_a_process_with_what_to_check(
    sasl_ssl: Secured, tmp_path: Path, unique: Callable[[str], str], service: str
) -> None:
    """Exit code 2, which no supervisor restarts; one line with the settings; the password in no log."""
    wrong = "a-wrong-password-that-must-not-show"
    cluster = sasl_ssl.cluster("admin")
    with flow(cluster, counting.job_text(unique("refused")), tmp_path, counting.SCHEMA) as job:
        bad = replace(cluster, security=replace(cluster.security, password=wrong))
        process = job.start(MODULES[service], **environment(bad), CUTWATER_PORT="0")
        assert process.wait(120) == UsageError.exit_code
        log = job.log(MODULES[service]).read_text()
    assert "check CUTWATER_KAFKA_SASL_USERNAME and CUTWATER_KAFKA_SASL_PASSWORD" in log
    assert wrong not in log
    assert "Traceback" not in log


@pytest.mark.slow
def test_watch_over_tls_with_its_least_rights(
    sasl_ssl: Secured, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """Faust reads, the source's end is asked for, an alert is written: by a user with just the documented ACLs."""
    cluster, port = sasl_ssl.cluster("admin"), free_ports(1)[0]
    with flow(cluster, counting.job_text(unique("watchful")), tmp_path, counting.SCHEMA) as job:
        grant(sasl_ssl, job.job.name, job.job.topic)
        driver = SpeakingDriver(job)
        job.start(
            MODULES["watch"], **environment(sasl_ssl.cluster("watch")), **QUICK, CUTWATER_WATCH_PORT=str(port)
        )
        wait_until(lambda: metric(port, "waiting_events") == 0, "the source's end")
        for _ in range(3):
            driver.write_epoch()  # behind what was recovered: by Faust only
        wait_until(lambda: metric(port, "drift_epochs") == 3, "the barriers, through Faust")
        wait_until(lambda: on(read_alerts(cluster, job.job.name)), "the alert that no signaller is there")


def test_a_producer_with_a_wrong_password_is_told_soon(
    sasl_ssl: Secured, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """Events are not queued for a minute for brokers that will never take them."""
    cluster = sasl_ssl.cluster("admin")
    with flow(cluster, counting.job_text(unique("refused")), tmp_path, counting.SCHEMA) as job:
        bad = replace(cluster, security=replace(cluster.security, password="wrong"))
        with pytest.raises(UsageError, match="CUTWATER_KAFKA_SASL_PASSWORD"):
            EventWriter(bad, job.job).write_all(counting.events(10))

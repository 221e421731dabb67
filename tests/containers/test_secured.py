"""The containers on a Kafka that lets in only whom it knows: each process with the rights that `plan` prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from compose import ROOT, Compose, docker, gone_afterwards
from compose_demo import demonstration
from confluent_kafka.admin import AclBinding

from cutwater.adapters.config.settings import environment
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.protocol import topics
from cutwater.local.embedded_broker.security import BrokerSecurity
from support.kafka.certificates import Authority
from support.kafka.granting import create, planned

pytestmark = [pytest.mark.usefixtures("images"), pytest.mark.needs("docker")]

USER_OF = {
    "setup": "setup",
    "driver": "driver",
    "commit-signal": "signal",
    "publisher": "publish",
    "watch": "watch",
    "rehydrator": "view",
}
DAYS = 14
START_S = 120


@pytest.fixture
def security(tmp_path: Path) -> BrokerSecurity:
    authority = Authority(tmp_path / "tls")
    users = {name: f"secret-of-{name}" for name in ("admin", *USER_OF.values())}
    return BrokerSecurity("SASL_SSL", authority.ca_file, authority.issue("broker", dns=["kafka"]), users)


def readable(security: BrokerSecurity, folder: Path) -> Path:
    """What the containers' user may read: the authority's certificate; the broker's, behind its key."""
    folder.mkdir(mode=0o755)
    (folder / "ca.pem").write_text(security.ca_file.read_text())
    broker = security.certificate
    (folder / "broker.pem").write_text(broker.key_file.read_text() + broker.certificate_file.read_text())
    for one in folder.iterdir():
        one.chmod(0o644)
    return folder


def rights() -> set[AclBinding]:
    """What `cutwater plan` says that each service needs."""
    asked = [sys.executable, "-m", "cutwater.cli.main", "plan", "deploy/jobs/flights.yaml", "--json"]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    acls = json.loads(told)["acls"]
    return {
        binding
        for service, user in USER_OF.items()
        for binding in planned(user, [one for one in acls if one["service"] == service])
    }


def test_the_least_rights_are_enough_and_a_wrong_password_is_named(
    security: BrokerSecurity, tmp_path: Path
) -> None:
    """All rows are exact; with another password a service ends by exit code 2, and says what to look at."""
    env = {f"{name.upper()}_PASSWORD": password for name, password in security.users.items()}
    tls = readable(security, tmp_path / "readable")
    compose = Compose(
        "cutwater-secured",
        "deploy/compose.secured.yml",
        TLS=str(tls),
        KAFKA_USERS=" ".join(security.format_arguments()),
        SPARK_SECRET="a-secret-of-the-containers",
        **env,
    )
    admin = Cluster(compose.bootstrap, security.client("admin"))
    with gone_afterwards(compose):
        compose("up", "-d", "kafka")
        wait_for_broker(admin, START_S)
        create(admin, rights())
        # The source is the user's: nobody may create it for him here.
        ensure_topics(admin, [topics.events("flights.events", 4)])
        compose("up", "-d")
        with demonstration(compose, tmp_path, DAYS, **environment(admin)) as demo:
            demo.require_exact()
        code, said = with_wrong_password(compose)
    assert code == 2
    assert "CUTWATER_KAFKA_SASL_PASSWORD" in said
    assert "not-the-password" not in said


def with_wrong_password(compose: Compose) -> tuple[int, str]:
    """Exit code and log of a commit-signal that has the wrong one."""
    name = f"{compose.project}-wrong"
    wrong = ["-e", "CUTWATER_KAFKA_SASL_PASSWORD=not-the-password"]
    compose("run", "-d", "--no-deps", "--name", name, *wrong, "commit-signal")
    try:
        code = int(docker("wait", name))
        return code, docker("logs", name)
    finally:
        docker("rm", "-f", "-v", name)

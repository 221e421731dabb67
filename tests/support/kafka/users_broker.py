"""A broker as a user has one: it asks for a password, and lets nobody do what no ACL allows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cutwater.adapters.kafka.client_config import Cluster, Security
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.embedded_broker.config import server_properties
from cutwater.local.java import find_java
from cutwater.local.machine.ports import LOOPBACK, free_ports
from cutwater.local.processes.supervisor import Supervisor
from support.kafka.granting import create, planned

PASSWORD = "a-user's-own"


class UsersBroker:
    """A running broker with two doors: `admin` may do everything, others log in and need ACLs."""

    def __init__(self, admin: Cluster, bootstrap: str) -> None:
        self.admin = admin
        self.bootstrap = bootstrap

    def environment(self, user: str) -> dict[str, str]:
        """The settings by which Cutwater logs in."""
        return {
            "CUTWATER_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "CUTWATER_KAFKA_SASL_MECHANISM": "PLAIN",
            "CUTWATER_KAFKA_SASL_USERNAME": user,
            "CUTWATER_KAFKA_SASL_PASSWORD": PASSWORD,
        }

    def cluster(self, user: str) -> Cluster:
        return Cluster(self.bootstrap, Security("SASL_PLAINTEXT", "PLAIN", user, PASSWORD))

    def grant(self, user: str, acls: list[dict[str, Any]]) -> None:
        """Exactly what `cutwater plan --json` lists."""
        create(self.admin, planned(user, acls))


@contextmanager
def users_broker(folder: Path, kafka_jars: list[Path], users: list[str]) -> Iterator[UsersBroker]:
    """Started, and ended with the block."""
    port, controller, door = free_ports(
        3
    )  # in one draw: a port that is drawn and not yet bound may be drawn again
    known = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
    login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"
    ours = server_properties(folder, port, controller, {})
    protocols = ours["listener.security.protocol.map"]
    overrides = {
        "listeners": f"{ours['listeners']},SASL_PLAINTEXT://{LOOPBACK}:{door}",
        "advertised.listeners": f"{ours['advertised.listeners']},SASL_PLAINTEXT://{LOOPBACK}:{door}",
        "listener.security.protocol.map": f"{protocols},SASL_PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    broker = Broker(folder, find_java(), kafka_jars, port=port, controller_port=controller, overrides=overrides)
    with Supervisor([broker.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        yield UsersBroker(broker.cluster, f"{LOOPBACK}:{door}")

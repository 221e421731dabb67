"""Brokers that let in only whom they know, one of each kind for the whole run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.embedded_broker.security import BrokerSecurity
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor
from support.kafka.certificates import Authority
from support.kafka.secured_broker import AUTHORIZER, USERS, Secured, Start


@pytest.fixture(scope="session")
def start_secured(tmp_path_factory: pytest.TempPathFactory, kafka_jars: list[Path]) -> Iterator[Start]:
    """Starts a broker with a protocol; all of them end with the test run."""
    running: list[Supervisor] = []

    def start(protocol: str, ask_certificate: bool = False, key_password: str = "", **properties: str) -> Secured:
        folder = tmp_path_factory.mktemp(protocol.lower())
        authority = Authority(folder / "tls")
        users = USERS if protocol.startswith("SASL") else {}
        own = authority.issue("broker")
        shown = authority.issue("client", key_password) if ask_certificate else None
        security = BrokerSecurity(protocol, authority.ca_file, own, users, shown, key_password)
        overrides = {**(AUTHORIZER if users else {}), **properties}
        broker = Broker(folder / "data", find_java(), kafka_jars, security=security, overrides=overrides)
        running.append(Supervisor([broker.supervised()]))
        assert running[-1].start(threading.Event())
        return Secured(broker.bootstrap, security, folder)

    yield start
    for supervisor in running:
        supervisor.stop()


@pytest.fixture(scope="session")
def sasl_ssl(start_secured: Start) -> Secured:
    """TLS, users with passwords, and an authorizer: only `admin` may do anything."""
    return start_secured("SASL_SSL")


@pytest.fixture(scope="session")
def mutual(start_secured: Start) -> Secured:
    """TLS with certificates on both sides, no users."""
    return start_secured("SSL", ask_certificate=True)

"""What Kafka's own library says comes out as a service's other lines do: where nobody listens at its brokers."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from cutwater.adapters.kafka.client_config import Cluster, Security
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.runtime.kafka_client_log import NAME, QUIET, ClientLog
from cutwater.core.errors import CutwaterError
from cutwater.local.machine.ports import free_ports

SECONDS = 2.0
PROGRAM = """
import sys, time
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.client import make_consumer
from cutwater.adapters.runtime.log_setup import configure

cluster = Cluster(sys.argv[1])
if sys.argv[2] != "unconfigured":
    configure("tester", sys.argv[2] == "json").info("ready")
clients = [make_consumer(cluster), cluster.client(Producer, {}), cluster.client(AdminClient, {})]
deadline = time.monotonic() + float(sys.argv[3])
while time.monotonic() < deadline:
    for one in clients:
        one.poll(0.05)
"""


@pytest.fixture
def nobody() -> Cluster:
    return Cluster(f"127.0.0.1:{free_ports(1)[0]}")


def run(cluster: Cluster, form: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, cluster.bootstrap, form, str(SECONDS)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)


def test_with_json_every_line_is_json_on_standard_output(nobody: Cluster) -> None:
    """Level, service, client and text, as of any other line; nothing is on standard error. Said rarely."""
    done = run(nobody, "json")
    first, *lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (first["event"], done.stderr) == ("ready", "")
    refused = [one for one in lines if "Connection refused" in one["text"]]
    assert refused
    assert len(refused) <= 2, "the same matter, more than once in ten seconds"
    for one in refused:
        assert (one["event"], one["level"], one["service"], one["facility"]) == (
            "kafka",
            "error",
            "tester",
            "FAIL",
        )
        assert one["client"].startswith("rdkafka#")
        assert nobody.bootstrap in one["text"]


def test_the_readable_form_has_them_on_standard_error(nobody: Cluster) -> None:
    """In the form of the other lines, not in librdkafka's."""
    done = run(nobody, "readable")
    lines = [line for line in done.stderr.splitlines() if "Connection refused" in line]
    assert lines
    assert all("[error" in line and "client=rdkafka#" in line and "service=tester" in line for line in lines)
    assert (done.stdout, "%3|" in done.stderr) == ("", False)


@pytest.mark.slow
def test_a_program_that_uses_the_library_has_its_own_logging(nobody: Cluster) -> None:
    """Nothing is set up behind its back: the lines are Python's logging's, which prints errors by default."""
    done = run(nobody, "unconfigured")
    assert "rdkafka#" in done.stderr
    assert (done.stdout, "%3|" in done.stderr) == ("", False)


class Lines:
    """Takes the place of a client's log."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def log(self, _level: int, _form: str, *said: str) -> None:
        self.found.append(" ".join(said))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Consumer, Producer, AdminClient])
def test_a_client_that_lies_idle_keeps_no_lines(nobody: Cluster, kind: Callable[..., Any]) -> None:
    """A client keeps its lines until it is polled, without a bound; one that is QUIET has none to keep."""
    group = {"group.id": "tester"} if kind is Consumer else {}
    quiet, talking = Lines(), Lines()
    clients = [
        nobody.client(kind, {**group, **settings}, logger=lines)
        for settings, lines in ((QUIET, quiet), ({}, talking))
    ]
    time.sleep(SECONDS)
    assert (quiet.found, talking.found) == ([], []), "lines come out when a client is polled"
    for one in clients:
        one.poll(0.1)
    assert len(talking.found) > 1
    assert quiet.found == []


@pytest.mark.slow
def test_a_writer_that_listens_keeps_nothing(nobody: Cluster) -> None:
    """Errors wait in a client's queue like lines, and nobody writes while there is nothing to write."""
    writer = TransactionalWriter(nobody, "idle")
    with pytest.raises(CutwaterError):
        writer._call("initialising", lambda: writer._producer.init_transactions(SECONDS))
    assert len(writer._producer) > 1
    writer.listen()
    assert len(writer._producer) <= 1


def test_no_secret_is_in_a_line(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever puts a password of the cluster into a text: it does not come out."""
    monkeypatch.setattr(logging.getLogger(NAME), "propagate", True)
    security = Security("SASL_SSL", "PLAIN", "user", "hush-hush", key_password="hush-key")
    made: list[ClientLog] = []
    Cluster("nowhere:1", security).client(lambda _settings, logger: made.append(logger), {})
    with caplog.at_level(logging.INFO, NAME):
        made[0].log(40, "", "SASL", "rdkafka#producer-1", "user:hush-hush was refused, hush-key too")
    assert "user:*** was refused, *** too" in caplog.text
    assert "hush" not in caplog.text


def test_how_many_were_left_out_is_told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the next line of the kind, after ten seconds."""
    monkeypatch.setattr(logging.getLogger(NAME), "propagate", True)
    now_s = 0.0
    log = ClientLog(lambda: now_s)
    with caplog.at_level(logging.INFO, NAME):
        for now_s in (0.0, 1.0, 2.0, 11.0):
            log.log(40, "", "FAIL", "nobody's-consumer", f"Connection refused (after {now_s}ms in state CONNECT)")
    # Other clients of the process may say something meanwhile; and where a test before has configured the logging,
    # a line comes by two ways.
    said = [*dict.fromkeys(one.getMessage() for one in caplog.records if "nobody's-consumer" in one.getMessage())]
    assert len(said) == 2
    assert said[1].endswith("(2 like it left out)")

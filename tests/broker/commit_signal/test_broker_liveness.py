"""commit-signal without brokers: it says so within seconds, and again when they are back. On its own broker."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.startup_wait import await_brokers
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol import topics
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.machine.ports import free_ports
from cutwater.local.processes.restart_policy import NEVER_RESTART
from cutwater.local.processes.supervisor import Supervisor
from support.events import counting
from support.harness import GENERATION, Flow, flow, scraped, wait_until
from support.protocol_samples import barrier, committed, start

MODULE = "cutwater.commit_signal"
WITHIN_S = 10.0
"""A few seconds, on a busy machine."""


class Own:
    """A broker of this test's own: it stands still, goes on, is ended and begun again."""

    def __init__(self, folder: Path, kafka_jars: list[Path]) -> None:
        self.broker = Broker(folder, find_java(), kafka_jars)
        self._supervised = self.broker.supervised(NEVER_RESTART)

    @contextmanager
    def running(self) -> Iterator[None]:
        with Supervisor([self._supervised]) as supervisor:
            supervisor.start(threading.Event())
            yield

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        pid = self._supervised.child.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


class Signaller:
    """commit-signal as a process, with its log and its metric."""

    def __init__(self, job: Flow) -> None:
        self.job, self.port = job, free_ports(1)[0]
        self.process = job.start(MODULE, CUTWATER_SIGNAL_PORT=str(self.port), CUTWATER_LOG_JSON="true")

    def lines(self) -> list[dict[str, Any]]:
        """Each of them JSON, those of Kafka's library too. Of one that is being written only what is whole."""
        whole = self.job.log(MODULE).read_text("utf-8").rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def told(self, event: str) -> list[dict[str, Any]]:
        return [one for one in self.lines() if one["event"] == event]

    def wait_told(self, event: str, count: int, patience_s: float = WITHIN_S) -> dict[str, Any]:
        wait_until(lambda: len(self.told(event)) >= count, lambda: f"'{event}' in {self.lines()[-5:]}", patience_s)
        assert len(self.told(event)) == count
        return self.told(event)[-1]

    def waiting(self) -> float:
        return scraped(self.port)["cutwater_signal_waiting"]


def epoch(job: Flow, number: int, attempt: int) -> None:
    """What a driver tells of one epoch; a new attempt, so that it needs nothing of the one before."""
    writer = TransactionalWriter(job.cluster, topics.driver_id(job.job.name, GENERATION))
    writer.initialise()
    for one in (start(attempt), barrier(number, attempt), committed(number, attempt)):
        told = protocol_records.encode(type(one)(**{**vars(one), "job": job.job.name}))
        writer.write(topics.barriers(job.job.name), [told])


@pytest.fixture
def own(tmp_path: Path, kafka_jars: list[Path]) -> Own:
    return Own(tmp_path / "broker", kafka_jars)


@pytest.fixture
def job(own: Own, tmp_path: Path, unique: Any) -> Iterator[Flow]:
    """A job with its topics; the broker has been ended again."""
    with ExitStack() as stack:
        with own.running():
            made = flow(own.broker.cluster, counting.job_text(unique("away")), tmp_path, counting.SCHEMA)
            found = stack.enter_context(made)
        yield found


@pytest.mark.slow
def test_brokers_that_stand_still_are_told(own: Own, job: Flow) -> None:
    """As behind a cut network: nothing is refused, nobody answers. A line, the metric, a line when it is over."""
    with own.running():
        signaller = Signaller(job)
        epoch(job, 0, attempt=1)
        signaller.wait_told("milestone", 1, 60)
        time.sleep(3)  # only time can show that nothing is said
        assert (signaller.told("waiting"), signaller.waiting()) == ([], 0), "an idle job is no outage"
        began = time.time()
        with own.standing_still():
            line = signaller.wait_told("waiting", 1)
            assert (line["level"], line["brokers"]) == ("warning", own.broker.bootstrap)
            assert "the brokers do not answer" in line["reason"]
            assert abs(datetime.fromisoformat(line["since"]).timestamp() - began) < WITHIN_S
            assert signaller.waiting() == 1
            time.sleep(3)  # only time can show that it is not said again
            assert len(signaller.told("waiting")) == 1, "once, however long it lasts"
        line = signaller.wait_told("following", 1, 30)
        assert (line["level"], line["reason"]) == ("info", "the brokers are back")
        assert 3 < line["waited_s"] < time.time() - began + 3
        assert signaller.waiting() == 0
        epoch(job, 1, attempt=2)
        signaller.wait_told("milestone", 2, 60)


@pytest.mark.slow
def test_brokers_that_are_gone_are_told(own: Own, job: Flow) -> None:
    """With the reason, and all of it as JSON, what Kafka's library says too. Begun again, they are found again."""
    with own.running():
        signaller = Signaller(job)
        epoch(job, 0, attempt=1)
        signaller.wait_told("milestone", 1, 60)
    assert "Connection refused" in signaller.wait_told("waiting", 1)["reason"]
    assert signaller.waiting() == 1
    with own.running():
        signaller.wait_told("following", 1, 60)
        assert signaller.waiting() == 0
        epoch(job, 1, attempt=2)
        signaller.wait_told("milestone", 2, 60)
    assert signaller.process.poll() is None
    assert {one["service"] for one in signaller.lines()} == {"commit-signal"}
    assert [one for one in signaller.told("kafka") if "Connection refused" in one["text"]]


@pytest.mark.slow
def test_a_start_without_brokers_is_told_before_it_is_given_up(tmp_path: Path) -> None:
    """Whoever looks at the log of a service that waits finds out what for."""
    nobody = Cluster(f"127.0.0.1:{free_ports(1)[0]}")
    with capture_logs() as lines, pytest.raises(UnavailableError):
        await_brokers(nobody, 5.0, structlog.get_logger())
    (line,) = lines
    assert (line["event"], line["log_level"], line["brokers"]) == ("waiting", "warning", nobody.bootstrap)
    assert "no Kafka broker answers" in line["reason"]

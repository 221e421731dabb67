"""The rehydrator as a process, on a real broker: start, end, and everything it needs being away."""

from __future__ import annotations

import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.machine.ports import free_ports
from cutwater.local.processes.supervisor import Supervisor
from support.views.changelogs import GENERATION, Sold, Writing, make_job, until
from support.views.rehydrating import Process, running


def test_serves_follows_and_ends_in_time(broker: Any, tmp_path: Path) -> None:
    """From start to SIGTERM: the newest milestone is served, own writes by token; it stays small and ends soon."""
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    writing.epoch(Sold(f"s{number}", number % 20, number) for number in range(3_000))
    with running(broker.cluster, path, tmp_path / "data") as served:
        until(served.answers, "the API")
        token = str(writing.last.token)
        answer = served.get("/v1/state/s7", at_least=token, wait_ms=30_000)
        assert [row["pieces"] for row in answer.json()["rows"]] == [7]
        token = str(writing.epoch([Sold("s7", 7, 70)]).token)
        assert served.get("/v1/milestone", at_least=token).json()["token"] == token
        assert served.pieces("s7") == [70]
        assert served.get("/readyz").status_code == 200
        assert "cutwater_view_records_applied_total 3001.0" in served.get("/metrics").text
        assert psutil.Process(served.process.pid).memory_info().rss < 300 << 20
        served.process.send_signal(signal.SIGTERM)
        assert served.ended(10) == (0, "")
    writing.close()


@pytest.mark.slow
def test_request_that_waits_does_not_hold_up_the_end(broker: Any, tmp_path: Path) -> None:
    """SIGTERM while a request waits for a token ends the process all the same."""
    job, path = make_job(tmp_path)
    Writing(broker.cluster, job).epoch([Sold("a", 1, 1)])
    with running(broker.cluster, path, tmp_path / "data") as served:
        until(served.answers, "the API")

        def wait() -> None:
            with pytest.raises(httpx.HTTPError):
                served.get("/v1/milestone", at_least=f"{GENERATION}:99", wait_ms=30_000).raise_for_status()

        waiting = threading.Thread(target=wait)
        waiting.start()
        until(lambda: "cutwater_view_waiting_requests 1.0" in served.get("/metrics").text, "the request to wait")
        served.process.send_signal(signal.SIGTERM)
        assert served.ended(15)[0] == 0
        waiting.join(20)


@pytest.mark.slow
def test_mistakes_end_with_one_line(broker: Any, tmp_path: Path) -> None:
    """A bad job file, missing topics, a port in use and an absent broker: one line and the documented code."""
    job, path = make_job(tmp_path)
    with running(broker.cluster, tmp_path / "none.yaml", tmp_path / "a") as served:
        code, line = served.ended()
        assert (code, "none.yaml" in line) == (2, True)
    with running(broker.cluster, path, tmp_path / "b") as served:
        code, line = served.ended()
        assert (code, f"topic {job.name}.milestones does not exist" in line) == (2, True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with running(broker.cluster, path, tmp_path / "c", CUTWATER_PORT=port) as served:
            code, line = served.ended()
            assert (code, f"127.0.0.1:{port} is in use" in line) == (3, True)
    absent = f"127.0.0.1:{free_ports(1)[0]}"
    with running(Cluster(absent), path, tmp_path / "d", CUTWATER_WAIT_MS="1500") as served:
        code, line = served.ended()
        assert (code, f"no Kafka broker answers at {absent}" in line) == (4, True)


@pytest.mark.slow
def test_full_disk_ends_with_the_folder_named(broker: Any, tmp_path: Path) -> None:
    """When RocksDB cannot write any more, the process ends with code 3 and one line; what was shown is kept."""
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    writing.epoch([Sold("a", 1, 1)])
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))"
    with running(broker.cluster, path, tmp_path / "data", prefix=limit) as served:
        until(served.answers, "the API")
        until(lambda: served.shown() == 1, "the first milestone")
        for epoch in range(1, 6):
            writing.epoch(Sold(f"s{number}", epoch, number) for number in range(1_000))
        code, line = served.ended()
        assert code == 3
        assert str(tmp_path / "data" / "views" / job.name / str(GENERATION)) in line
    with running(broker.cluster, path, tmp_path / "data") as served:
        until(served.answers, "the API")
        until(lambda: served.shown() == 6, "the rest, once there is room")
        assert served.pieces("s7") == [7] * 5
    writing.close()


@pytest.mark.slow
def test_broker_away_and_back(kafka_jars: list[Path], tmp_path: Path) -> None:
    """While the broker is away the last milestone is served and ages; when it is back the view goes on."""
    embedded = Broker(tmp_path / "broker", find_java(), kafka_jars)
    job, path = make_job(tmp_path)
    stop = threading.Event()
    with Supervisor([embedded.supervised()]) as supervisor:
        supervisor.start(stop)
        writing = Writing(embedded.cluster, job)
        writing.epoch([Sold("a", 1, 1)])
        writing.close()
        with running(embedded.cluster, path, tmp_path / "data") as served:
            until(served.answers, "the API")
            until(lambda: served.shown() == 1, "the first milestone")
            supervisor.stop()
            until(lambda: served.get("/healthz").json()["status"] == "waiting", "the view to notice")
            young = served.get("/v1/milestone").json()["age_ms"]
            time.sleep(0.2)
            assert served.get("/v1/milestone").json()["age_ms"] >= young + 200
            assert served.get("/readyz").status_code == 200
            assert served.pieces("a") == [1]
            _again(embedded, served, writing)
            until(lambda: served.get("/healthz").json()["status"] == "waiting", "the broker to be away again")
            served.process.send_signal(signal.SIGTERM)
            assert served.ended(15)[0] == 0


def _again(embedded: Broker, served: Process, before: Writing) -> None:
    """Start the broker again on its folder, and write on from where the first one stood."""
    with Supervisor([embedded.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        writing = Writing(embedded.cluster, before.job)
        writing.last, writing.state = before.last, before.state
        writing.epoch([Sold("a", 1, 2)])
        until(lambda: served.shown() == 2, "the view to go on")
        assert served.pieces("a") == [2]
        until(lambda: served.get("/healthz").json()["status"] == "following", "health to say so")
        writing.close()

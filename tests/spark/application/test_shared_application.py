"""A Spark application that drivers share: sessions apart, and nothing goes on that a driver has left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from pydantic import SecretStr
from pyspark.sql import SparkSession

from cutwater.local.machine.ports import free_ports
from cutwater_spark.application.protocol import LINE_BYTES_MAX
from cutwater_spark.application.server import ApplicationServer
from support.harness import wait_until

pytestmark = pytest.mark.spark
DRIVER = """
import sys
from cutwater.adapters.config.settings import load_settings
from cutwater.core.errors import CutwaterError
from cutwater_spark.application.shared_session import shared_session

def run(name, partitions, checkpoint):
    with shared_session(load_settings(), name, {"spark.sql.shuffle.partitions": partitions}) as session:
        events = session.readStream.format("rate").option("rowsPerSecond", 10).load()
        counted = events.groupBy("value").count()
        def write(batch, number):
            found = batch.sparkSession.conf.get("spark.sql.shuffle.partitions")
            print("epoch", number, batch.count(), found, flush=True)
        query = counted.writeStream.outputMode("update").foreachBatch(write)
        query = query.option("checkpointLocation", checkpoint).queryName("same name").start()
        query.awaitTermination()

try:
    run(*sys.argv[1:])
except CutwaterError as error:
    sys.exit(str(error))
"""
Start = Callable[..., "subprocess.Popen[str]"]


class Served:
    """A running server, and the queries of its JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.server = ApplicationServer(spark, self.address, SecretStr("a key"), structlog.get_logger())
        self._thread = threading.Thread(target=self.server.run)
        self._thread.start()

    def queries(self) -> int:
        shared: Any = self._spark._jsparkSession.sharedState()
        return int(shared.activeStreamingQueries().size())

    def end(self) -> None:
        self.server.stop()
        self._thread.join(timeout=10)

    def ask(self, sent: bytes) -> bytes:
        host, _, port = self.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            try:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                return connection.recv(LINE_BYTES_MAX)
            except OSError:  # it was closed before all was read
                return b""


@pytest.fixture
def served(spark: SparkSession) -> Iterator[Served]:
    made = Served(spark)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def start(served: Served, tmp_path: Path) -> Iterator[Start]:
    running: list[subprocess.Popen[str]] = []

    def begin(name: str, partitions: str = "1", key: str = "a key") -> subprocess.Popen[str]:
        env = {
            **os.environ,
            "CUTWATER_SPARK_APPLICATION": served.address,
            "CUTWATER_SPARK_APPLICATION_KEY": key,
            "CUTWATER_WAIT_MS": "60000",
        }
        made = subprocess.Popen(
            [sys.executable, "-c", DRIVER, name, partitions, str(tmp_path / name)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(made)
        return made

    yield begin
    for one in running:
        one.kill()
        one.communicate(timeout=30)
    wait_until(lambda: served.queries() == 0, "queries end with their drivers", 30)


def epochs(driver: subprocess.Popen[str], wanted: int) -> list[list[str]]:
    """The lines of so many epochs with data: number, rows, partitions."""
    assert driver.stdout is not None
    found: list[list[str]] = []
    for line in driver.stdout:
        if line.startswith("epoch ") and line.split()[2] != "0":
            found.append(line.split()[1:])
        if len(found) == wanted:
            return found
    raise AssertionError(driver.communicate()[1])


def test_drivers_have_sessions_of_their_own_and_one_of_them_may_be_killed(served: Served, start: Start) -> None:
    """Of a killed one nothing goes on; the other one does not notice, and the next of its name goes on with it."""
    one, other = start("one", "1"), start("other", "3")
    assert {found[2] for found in epochs(one, 2)} == {"1"}
    assert {found[2] for found in epochs(other, 2)} == {"3"}
    assert served.queries() == 2
    os.kill(one.pid, signal.SIGKILL)
    wait_until(lambda: served.queries() == 1, "the killed driver's query ends", 30)
    before = int(epochs(other, 2)[-1][0])
    again = start("one", "2")
    assert int(epochs(again, 1)[0][0]) >= 2, "from the checkpoint"
    assert int(epochs(other, 1)[0][0]) > before
    assert served.queries() == 2


@pytest.mark.slow
def test_two_drivers_of_one_name_never_run_at_once(served: Served, start: Start) -> None:
    """The second one waits for the end of the first, as long as it was told to wait."""
    first = start("one")
    epochs(first, 1)
    second = start("one")
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(timeout=8)
    assert served.queries() == 1
    first.kill()
    epochs(second, 1)
    assert served.queries() == 1


def test_who_has_another_key_is_refused(served: Served, start: Start) -> None:
    refused = start("one", key="another key")
    _, told = refused.communicate(timeout=60)
    assert refused.returncode == 1
    assert "does not take the driver: the key of CUTWATER_SPARK_APPLICATION_KEY is another one" in told
    assert served.queries() == 0


@pytest.mark.parametrize("sent", [b"", b"{", b"[1]\n", b"x" * 3 * LINE_BYTES_MAX, b'{"driver": "one"}\n'])
def test_what_is_no_request_gets_no_server(served: Served, sent: bytes) -> None:
    """And the port answers the next one."""
    assert b"secret" not in served.ask(sent)
    assert b"another one" in served.ask(b'{"key": "wrong", "driver": "one"}\n')

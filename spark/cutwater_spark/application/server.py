"""The port of a Spark application: gives each driver a Py4J server, and ends what a driver leaves behind."""

from __future__ import annotations

import hmac
import os
import socket
import threading
from typing import Any

from py4j.protocol import Py4JError
from pydantic import SecretStr
from pyspark.sql import SparkSession

from cutwater.core.errors import CutwaterError, MachineError, UnavailableError
from cutwater_spark.application.protocol import DRIVER, LINE_SECONDS_MAX, read_line, send_line

DRIVERS_MAX = 200
"""Connections at once: two drivers for each of the most jobs of a stack, twice."""
ACCEPT_SECONDS = 0.5
LOST = 70
"""Exit code if a query cannot be ended: only the end of the JVM ends it then."""


class ApplicationServer:
    """Serves drivers until it is stopped.

    `address`: host:port to listen on. `key`: what a driver must send. Raise MachineError if the port is in use.
    """

    def __init__(self, session: SparkSession, address: str, key: SecretStr, log: Any) -> None:
        self._session = session
        self._key = key.get_secret_value()
        self._log = log
        self._stop = threading.Event()
        self._slots = threading.Semaphore(DRIVERS_MAX)
        self._lock = threading.Lock()
        self._living: dict[str, threading.Lock] = {}
        """A driver's name → held by the connection of its living driver, until its queries have ended."""
        host, _, port = address.rpartition(":")
        try:
            self._listener = socket.create_server((host, int(port)))
        except OSError as error:
            raise MachineError(f"cannot listen on {address} ({error.strerror})") from None
        self._listener.settimeout(ACCEPT_SECONDS)

    def stop(self, *_signal: object) -> None:
        self._stop.set()

    def run(self) -> None:
        """Serve until stopped. Raise UnavailableError if the JVM ends."""
        with self._listener:
            while not self._stop.is_set():
                self._require_jvm()
                try:
                    connection, _ = self._listener.accept()
                except TimeoutError:
                    continue
                if not self._slots.acquire(blocking=False):
                    connection.close()
                    continue
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _require_jvm(self) -> None:
        jvm: Any = self._session.sparkContext._gateway.proc
        if jvm.poll() is not None:
            raise UnavailableError(f"the JVM of the Spark application has ended with exit code {jvm.returncode}")

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(LINE_SECONDS_MAX)
                if not connection.recv(1, socket.MSG_PEEK):
                    return  # asked whether the port is open
                asked = read_line(connection)
                if not hmac.compare_digest(str(asked.get("key", "")).encode(), self._key.encode()):
                    send_line(connection, {"error": "the key of CUTWATER_SPARK_APPLICATION_KEY is another one"})
                    return
                self._serve_driver(str(asked.get("driver", "")), connection)
        except (OSError, CutwaterError, Py4JError) as error:
            self._log.warning("a connection has ended", error=str(error)[:300])
        finally:
            self._slots.release()

    def _serve_driver(self, driver: str, connection: socket.socket) -> None:
        with self._lock:
            living = self._living.setdefault(driver, threading.Lock())
        with living:
            java: Any = self._session._jvm
            server = java.org.apache.spark.api.python.Py4JServer(self._session.sparkContext._conf._jconf)
            server.start()
            try:
                send_line(connection, {"port": server.getListeningPort(), "secret": server.secret()})
                self._log.info("a driver has begun", driver=driver)
                connection.settimeout(None)
                while connection.recv(1):  # nothing is sent; the driver's end closes the connection
                    pass
            except OSError:
                pass  # it was killed
            finally:
                self._end(driver, server)

    def _end(self, driver: str, server: Any) -> None:
        try:
            self._session.sparkContext.cancelJobsWithTag(driver)
            queries = self._queries(driver)
            ended = [one.name() for one in queries]
            for query in queries:
                query.stop()
            server.shutdown()
        except Py4JError as error:
            # The query could go on writing beside that of the next driver.
            self._log.error("a driver's queries cannot be ended: the application ends", error=str(error)[:300])
            os._exit(LOST)
        self._log.info("a driver has ended", driver=driver, queries=ended)

    def _queries(self, driver: str) -> list[Any]:
        shared: Any = self._session._jsparkSession.sharedState()
        found = list(shared.activeStreamingQueries().values())
        return [one for one in found if one.sparkSession().conf().get(DRIVER, "") == driver]

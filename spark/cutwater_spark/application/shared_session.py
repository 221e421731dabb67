"""A driver's session in the Spark application that several drivers share."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from cutwater.adapters.config.settings import Settings
from cutwater.core.errors import UnavailableError
from cutwater_spark.application.protocol import DRIVER, LINE_SECONDS_MAX, read_line, send_line

_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
RETRY_SECONDS = 0.5


@contextmanager
def shared_session(settings: Settings, driver: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a session of the application at `spark_application`; leaving the block ends the driver's queries.

    `driver`: its name, which no other living driver of the application has. `conf`: the settings of Spark; those
    of a session are used, the others are the application's. Raise UnavailableError if the application is not
    reached within `wait_ms`, or does not take the driver.
    """
    with _connection(settings) as connection:
        key = settings.spark_application_key.get_secret_value()
        send_line(connection, {"key": key, "driver": driver})
        # The application answers once the previous driver of this name has ended there.
        connection.settimeout(settings.wait_ms / 1000)
        try:
            answer = read_line(connection)
        except TimeoutError:
            raise UnavailableError(
                f"the Spark application at {settings.spark_application} gave driver {driver} no server within "
                f"{settings.wait_ms / 1000:g} s: an earlier driver of that name has not ended there yet"
            ) from None
        if "error" in answer:
            raise UnavailableError(f"the Spark application does not take the driver: {answer['error']}")
        session = _session(int(answer["port"]), str(answer["secret"]))
        for name, value in conf.items():
            if name.startswith("spark.sql."):
                session.conf.set(name, value)
        session.conf.set(DRIVER, driver)
        # Inherited by the threads of the queries: each driver has its share of the tasks' slots.
        session.sparkContext.setLocalProperty("spark.scheduler.pool", driver)
        session.sparkContext.addJobTag(driver)
        yield session


@contextmanager
def _connection(settings: Settings) -> Iterator[socket.socket]:
    host, _, port = settings.spark_application.rpartition(":")
    deadline = time.monotonic() + settings.wait_ms / 1000
    while True:
        try:
            made = socket.create_connection((host, int(port)), timeout=LINE_SECONDS_MAX)
            break
        except OSError as error:  # it starts, or starts again
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"no Spark application answers at {settings.spark_application} ({error}); 'cutwater up "
                    "--one-application' starts it before the drivers"
                ) from None
            time.sleep(RETRY_SECONDS)
    with made:
        yield made
        with suppress(OSError):
            made.shutdown(socket.SHUT_RDWR)


def _session(port: int, secret: str) -> SparkSession:
    """Return a new session of the JVM's only context, over a Py4J server of this process."""
    # pyspark takes them from nowhere else; a child of this process must not have them.
    os.environ.update(zip(_GATEWAY, (str(port), secret), strict=True))
    try:
        gateway = launch_gateway()
    finally:
        for name in _GATEWAY:
            del os.environ[name]
    java: Any = gateway.jvm
    scala = java.org.apache.spark.SparkContext.getOrCreate()
    context = SparkContext(
        gateway=gateway,
        jsc=java.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(scala),
        conf=SparkConf(_jconf=scala.getConf()),
    )
    session = SparkSession(context).newSession()
    java.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
    SparkSession._activeSession = session
    return session

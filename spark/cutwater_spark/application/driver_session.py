"""The session of a driver, in a JVM of its own or in an application that several drivers share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from cutwater.adapters.config.settings import Settings
from cutwater.core.job.job import Job
from cutwater_spark.application.shared_session import shared_session
from cutwater_spark.session import configuration, open_session, reach_checkpoint
from cutwater_spark.tools.local_files import set_permissions_in_jvm
from cutwater_spark.tools.scratch import scratch


@contextmanager
def driver_session(job: Job, settings: Settings, checkpoint: str, log: Any) -> Iterator[SparkSession]:
    """Yield the session of a driver: of its own JVM, or of the application that it shares with others."""
    if settings.spark_application:
        conf, driver = configuration(job, settings, checkpoint), f"{job.name}-{settings.generation}"
        with shared_session(settings, driver, conf) as session:
            reach_checkpoint(session, settings, checkpoint)
            yield session
        return
    session = open_session(job, settings, checkpoint, working_folder(settings, log))
    try:
        make_files_fast(session, log)
        yield session
    finally:
        session.stop()


def working_folder(settings: Settings, log: Any) -> Path | None:
    """Return a folder for the JVM's files; None with SPARK_LOCAL_DIRS or a master that is not local."""
    if "SPARK_LOCAL_DIRS" in os.environ or not settings.spark_master.startswith("local"):
        return None
    folder = scratch(settings.data_dir.resolve() / "scratch")
    if folder is None:
        log.warning("Spark's working files are in the system's temporary folder", reason="data folder")
    return folder


def make_files_fast(session: SparkSession, log: Any) -> None:
    try:
        set_permissions_in_jvm(session)
    except (Py4JError, AttributeError, TypeError) as error:
        log.warning("each file of a local checkpoint takes two processes", error=str(error)[:300])

"""The process of a Spark application that several drivers share.

python -m cutwater_spark.application JOBFILE...
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from cutwater.adapters.config.settings import Settings, load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.runtime.log_setup import configure
from cutwater.core.errors import CutwaterError, UnexpectedError, UsageError
from cutwater.core.job.job import Job
from cutwater.operations.service_main import keep_private, listen
from cutwater_spark.application.driver_session import make_files_fast, working_folder
from cutwater_spark.application.server import ApplicationServer
from cutwater_spark.authentication import warn_if_open
from cutwater_spark.session import configuration, open_configured

STOP_TIMEOUT = "60s"
"""How long the end of a query may take before the application ends with it."""


def main() -> int:
    """Serve until SIGTERM or Ctrl-C. Return the exit code."""
    keep_private()
    try:
        settings = load_settings()
        _run(settings, [Path(one) for one in sys.argv[1:]])
    except CutwaterError as error:
        print(f"cutwater spark: {error}", file=sys.stderr)
        return error.exit_code
    except (Py4JError, PySparkException) as error:
        traceback.print_exc()
        print(f"cutwater spark: the application's JVM ended with an error: {error}", file=sys.stderr)
        return UnexpectedError.exit_code
    return 0


def application_configuration(jobs: Sequence[Job], settings: Settings) -> dict[str, str]:
    """Return the Spark settings of an application that the drivers of several jobs share. Raise UsageError.

    The settings of a session are each driver's own.
    """
    largest = max(jobs, key=lambda one: one.max_event_bytes)
    return configuration(largest, settings, "") | {
        "spark.app.name": "cutwater",
        # A driver's tasks do not wait until those of another driver's epoch are done.
        "spark.scheduler.mode": "FAIR",
        "spark.sql.streaming.stopTimeout": STOP_TIMEOUT,
    }


def _run(settings: Settings, files: list[Path]) -> None:
    if not files:
        raise UsageError("give the job files whose drivers will run in this application")
    log = configure("spark", settings.log_json)
    jobs = [load_job(one) for one in files]
    session = open_configured(application_configuration(jobs, settings), settings, working_folder(settings, log))
    make_files_fast(session, log)
    warn_if_open(session, log)
    try:
        server = ApplicationServer(session, settings.spark_application, settings.spark_application_key, log)
        listen(server)
        server.run()
    finally:
        session.stop()


if __name__ == "__main__":
    sys.exit(main())

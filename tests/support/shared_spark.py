"""A Spark application that the drivers of many tests share: its JVM has loaded and compiled all that they need.

A driver with a JVM of its own takes ten seconds of two cores before its first epoch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cutwater.local.jars import connectors
from cutwater.local.jobs.spark_application import SharedApplication
from cutwater.local.machine.ports import free_ports
from cutwater.local.spark_runtime import spark_environment
from support.events import counting
from support.waits import wait_until

TESTS_MAX = 40
"""Then the application starts again, so that no test depends on what hundreds before it have left."""


class SharedSpark:
    """Starts with the first driver that asks for it. `folder`: of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._tests = 0
        self._env: dict[str, str] = {}

    def begin_test(self) -> None:
        self._tests += 1
        if self._tests > TESTS_MAX:
            self.end()

    def env(self) -> dict[str, str]:
        """What a driver needs to run there."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        return self._env

    def end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=60)
            self._process = None

    def _start(self) -> None:
        application = SharedApplication.on(*free_ports(2))
        self._env = {**application.env, "CUTWATER_SPARK_UI_PORT": "0"}
        self._tests = 1
        job = self._folder / "job.yaml"
        job.write_text(counting.job_text("shared"), encoding="utf-8")
        (self._folder / "event.avsc").write_text(counting.SCHEMA, encoding="utf-8")
        jars = {"CUTWATER_SPARK_JARS": ",".join(map(str, connectors(None)))}
        with (self._folder / "spark.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cutwater_spark.application", str(job)],
                env={
                    **{name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"},
                    **spark_environment(),
                    **jars,
                    **self._env,
                    "CUTWATER_DATA_DIR": str(self._folder),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(application.answers, f"the shared application; log in {self._folder}", 120)

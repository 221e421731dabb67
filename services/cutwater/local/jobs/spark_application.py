"""The Spark application that the drivers of a stack's jobs share: a process, and what drivers need to reach it."""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.processes.supervisor import Supervised
from cutwater.local.stack.stack import BEHIND, READY_SECONDS_MAX, Stack

HOST = "127.0.0.1"
KEY_BYTES = 32


class SharedApplication(NamedTuple):
    """Where the application listens, and what a driver must send there."""

    port: int
    ui_port: int
    key: str

    @staticmethod
    def on(port: int, ui_port: int) -> SharedApplication:
        return SharedApplication(port, ui_port, secrets.token_urlsafe(KEY_BYTES))

    @property
    def settings(self) -> Mapping[str, object]:
        """Return the settings of its drivers, without the key."""
        return {"spark_application": f"{HOST}:{self.port}", "spark_ui_port": self.ui_port}

    @property
    def env(self) -> dict[str, str]:
        """Return what a driver and the application itself need in their environment."""
        told = {f"CUTWATER_{name.upper()}": str(value) for name, value in self.settings.items()}
        return {**told, "CUTWATER_SPARK_APPLICATION_KEY": self.key}

    def process(self, stacks: Sequence[Stack], data_dir: Path) -> Supervised:
        """Return its process. `stacks`: those of the jobs, whose Java and Spark are the same."""
        child = Child(
            "spark",
            [sys.executable, "-m", "cutwater_spark.application", *(str(one.job_file) for one in stacks)],
            {**stacks[0].spark_env, **self.env, "CUTWATER_DATA_DIR": str(data_dir)},
            data_dir / "logs" / "spark.log",
            RestartPolicy(restarts_max=10, window_seconds=300.0),
            terminate_leader_only=True,
            niceness=BEHIND,
        )
        return Supervised(child, self.answers, READY_SECONDS_MAX)

    def answers(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), timeout=2.0).close()
        except OSError:
            return False
        return True

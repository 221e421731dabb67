"""docker-compose.yml, running: its containers looked at, stopped, killed and cut off."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cutwater.local.machine.ports import free_ports

ROOT = Path(__file__).parents[2]
COMMAND_S = 240
STOP_S = 10
"""Within it a service must end by itself when it is told to."""


def docker(*arguments: str) -> str:
    """What `docker` prints. Raises with its error text when it fails."""
    ran = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert ran.returncode == 0, f"docker {' '.join(arguments)}: {ran.stderr}"
    return ran.stdout.strip()


class Compose:
    """One project of the compose file, and of a second one on top of it, on ports of its own."""

    def __init__(self, project: str, on_top: str | None = None, **env: str) -> None:
        self.project = project
        kafka, spark, prometheus, *self.view_ports = free_ports(5)
        self.bootstrap = f"127.0.0.1:{kafka}"
        self.prometheus = f"http://127.0.0.1:{prometheus}"
        self._env = env | {
            "KAFKA_PORT": str(kafka),
            "SPARK_PORT": str(spark),
            "PROMETHEUS_PORT": str(prometheus),
            "VIEW_1_PORT": str(self.view_ports[0]),
            "VIEW_2_PORT": str(self.view_ports[1]),
        }
        self._command = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
        if on_top:
            self._command += ["-f", "docker-compose.yml", "-f", on_top]

    @property
    def views(self) -> list[str]:
        """URLs of the rehydrators."""
        return [f"http://127.0.0.1:{port}" for port in self.view_ports]

    @property
    def network(self) -> str:
        return f"{self.project}_default"

    def __call__(self, *arguments: str) -> str:
        """Run a command of compose."""
        ran = subprocess.run(
            [*self._command, "-p", self.project, *arguments],
            cwd=ROOT,
            env={**os.environ, **self._env},
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert ran.returncode == 0, f"{' '.join(arguments)}: {ran.stderr[-2000:]}"
        return ran.stdout

    def container(self, service: str) -> str:
        """The container's id."""
        return self("ps", "-a", "-q", service).strip()

    def state(self, service: str) -> dict[str, Any]:
        """What docker says of a container."""
        return dict(json.loads(docker("inspect", self.container(service)))[0])

    def kill_9(self, service: str) -> None:
        """From outside, as the kernel would: after `docker kill`, which is a wish, docker restarts nothing."""
        first = self.state(service)["State"]["Pid"]  # the init process: it ends with its child
        killed = 0
        for pid in docker("top", self.container(service), "-o", "pid").split()[1:]:
            if int(pid) != first:
                with suppress(ProcessLookupError):  # the health check's, perhaps
                    os.kill(int(pid), 9)
                    killed += 1
        assert killed, f"{service} must have been alive"

    def restart(self, service: str) -> int:
        """SIGTERM, then start again; returns the exit code between, 137 if it had to be killed."""
        self("stop", "-t", str(STOP_S), service)
        code = int(self.state(service)["State"]["ExitCode"])
        self("start", service)
        return code

    @contextmanager
    def cut_off(self, service: str) -> Iterator[None]:
        """No network for a container; afterwards its name and its network are back."""
        container = self.container(service)
        docker("network", "disconnect", self.network, container)
        try:
            yield
        finally:
            docker("network", "connect", "--alias", service, self.network, container)


@contextmanager
def gone_afterwards(one: Compose) -> Iterator[Compose]:
    """Nothing of it is there before, nor after: no container and no volume."""
    one("down", "--volumes")
    try:
        yield one
    finally:
        one("down", "--volumes", "-t", "2")

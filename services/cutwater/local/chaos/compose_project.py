"""A project of docker-compose.yml on this machine: found, and its containers broken, by the docker client."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.chaos.containers import (
    PROJECT_LABEL,
    Command,
    Container,
    commands_for,
    container_of,
    containers_for,
)
from cutwater.core.chaos.plan import BROKER, KILL, OF_COMPOSE, ChaosPlan, Fault, unmade
from cutwater.core.errors import MachineError, UnavailableError, UsageError
from cutwater.core.util.suggestions import listed
from cutwater.local.chaos.span import Span
from cutwater.local.chaos.target import ChaosTarget, Make

COMMAND_S = 60.0
KILL_S, LOOK_S = 10.0, 0.2
KAFKA_PORT, VIEW_PORT = 9094, 8321
"""Ports of the containers that the compose file publishes for this machine."""


class ComposeProject:
    """Raises MachineError without a docker client, UnavailableError if it fails."""

    def __init__(self, name: str) -> None:
        self.name = name
        if not shutil.which("docker"):
            raise MachineError(f"project {name} is reached by the docker client, which is not installed here")

    def containers(self) -> list[Container]:
        """Return all containers of the project."""
        ids = _docker(("ps", "-aq", "--no-trunc", "--filter", f"label={PROJECT_LABEL}={self.name}")).split()
        return [container_of(one) for one in json.loads(_docker(("inspect", *ids)))] if ids else []

    def target(self, cluster: Cluster, job_file: Path) -> ChaosTarget:
        """Return how the project's job is reached. `cluster`: its protocol and credentials count, not its address.

        Raises UsageError if the project does not run, or publishes no broker or view for this machine.
        """
        found = self.containers()
        broker = _published(containers_for(BROKER, found), KAFKA_PORT)
        view = _published(containers_for("rehydrator", found), VIEW_PORT)
        if not broker or not view:
            runs = listed(sorted(one.service for one in found if one.running)) if found else "nothing"
            raise UsageError(
                f"project {self.name} needs a broker that publishes port {KAFKA_PORT}, and a rehydrator that "
                f"publishes {VIEW_PORT}. Of it runs: {runs}. 'make compose-up' starts both; 'docker ps' shows the "
                "projects in the names of their containers"
            )
        return ChaosTarget(Cluster(broker, cluster.security), job_file, f"http://{view}")

    def faults(self, plan: ChaosPlan) -> Make:
        """Return what makes faults. Raises UsageError for a plan with another kind than those of containers."""
        if wrong := unmade(plan.faults, OF_COMPOSE):
            raise UsageError(f"'{wrong}' is no fault of containers: theirs are {listed(OF_COMPOSE)}")
        return self._make

    def _make(self, fault: Fault, span: Span) -> int:
        found = containers_for(fault.process, self.containers())
        if not found:
            raise UnavailableError(f"'{fault}' cannot be made: {fault.process} does not run in {self.name}")
        with ExitStack() as undo:  # it goes on behind a command that fails, and raises its error at the end
            for one in found:
                planned = commands_for(fault, one)
                undo.callback(_run_each, planned.undo)
                for command in planned.make:
                    _docker(command)
            if fault.for_s:
                span.rest()
        return self._killed(found) if fault.kind == KILL else len(found)

    def _killed(self, found: Sequence[Container]) -> int:
        """Wait until the containers have ended, or run again. Returns how many have."""
        before = {one.id: one.started for one in found}
        deadline = time.monotonic() + KILL_S
        while True:
            alive = [one for one in self.containers() if one.running and before.get(one.id) == one.started]
            if not alive or time.monotonic() > deadline:
                return len(found) - len(alive)
            time.sleep(LOOK_S)


def _published(containers: Sequence[Container], port: int) -> str:
    return next((one.ports[port] for one in containers if port in one.ports), "")


def _run_each(commands: Sequence[Command]) -> None:
    """Run all, also behind one that fails. Raises the error of the last that did."""
    with ExitStack() as left:
        for one in reversed(commands):
            left.callback(_docker, one)


def _docker(command: Command) -> str:
    try:
        ran = subprocess.run(["docker", *command], capture_output=True, text=True, timeout=COMMAND_S, check=False)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"docker {command[0]} has not answered within {COMMAND_S:g} s") from None
    if ran.returncode and command[0] != "exec":
        said = ran.stderr.strip().splitlines()[-1:] or ["without a word"]
        raise UnavailableError(f"docker {' '.join(command[:2])} failed: {said[0]}")
    return ran.stdout

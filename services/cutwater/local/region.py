"""A region on this machine: its own broker, and the processes of one job, which are started step by step.

The owner calls `check` in its own loop, so no process of a killed region is restarted without its knowledge.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from cutwater.adapters.config.settings import Settings, environment
from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import candidates
from cutwater.core.errors import FencedError, UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim
from cutwater.local import job_topics
from cutwater.local.api_probe import api_answers
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import connectors, jars
from cutwater.local.java import find_java
from cutwater.local.machine.ports import free_ports
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.processes.supervisor import Supervised, Supervisor
from cutwater.local.processes.verb_process import Verb, start_command
from cutwater.local.spark_runtime import found_archive, spark_environment

HEAP_MB = 512
_PORTS = [f"CUTWATER_{of}_PORT" for of in ("DRIVER", "SIGNAL", "MIRROR", "PUBLISHER", "SPARK_UI")]
API_SECONDS_MAX = 120.0
_PATIENT = RestartPolicy(restarts_max=10, window_seconds=300.0)


class Origin(Protocol):
    """A region that another one copies."""

    @property
    def name(self) -> str: ...

    def origin_settings(self) -> dict[str, str]: ...


class LinkedOrigin:
    """A region whose brokers are reached over other addresses than its own processes use. Implements `Origin`."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self.name, self._cluster = name, cluster

    def origin_settings(self) -> dict[str, str]:
        return origin_settings(self.name, self._cluster)


def origin_settings(name: str, cluster: Cluster) -> dict[str, str]:
    """Return the settings by which another region's processes reach this one."""
    here = environment(cluster)
    env = {name.replace("CUTWATER_", "CUTWATER_ORIGIN_", 1): value for name, value in here.items()}
    return {**env, "CUTWATER_ORIGIN_REGION": name}


class Region:
    """One region of one job. Raises MachineError if Java, jars, ports or the folder are not available."""

    def __init__(
        self,
        name: str,
        folder: Path,
        job_file: Path,
        settings: Settings,
        report: Callable[[str], None],
        extra_env: Mapping[str, str] | None = None,
    ) -> None:
        """`settings`: the user's settings that are not specific to a region, such as the API's token. `extra_env`:
        variables of its processes besides."""
        self.name = name
        self.folder = folder.resolve()
        self._job_file = job_file.resolve()
        self._report = report
        java = find_java()
        logs = self.folder / "logs"
        self.broker = Broker(
            self.folder / "broker", java, jars("kafka"), log_path=logs / "broker.log", heap_mb=HEAP_MB
        )
        self._groups: list[Supervisor] = []
        (self._api_port,) = free_ports(1)
        self.api_url = f"http://{settings.host}:{self._api_port}"
        self.api_headers = settings.api_headers
        self._env = {
            **environment(self.cluster),
            "CUTWATER_REGION": name,
            "CUTWATER_DATA_DIR": str(self.folder),
            "CUTWATER_SNAPSHOTS": "",
            "CUTWATER_API_TOKEN": settings.api_token.get_secret_value(),
            "CUTWATER_TOKENS": settings.tokens.get_secret_value(),
            "CUTWATER_PORT": str(self._api_port),
            "CUTWATER_SPARK_JARS": ",".join(map(str, connectors(None))),
            "CUTWATER_SPARK_CLASSES": settings.spark_classes or found_archive(java),
            **spark_environment(java),
            # Several of each run on this machine; a port from the user's settings could serve only one.
            **dict.fromkeys(_PORTS, "0"),
            **(extra_env or {}),
        }

    @property
    def cluster(self) -> Cluster:
        return self.broker.cluster

    @property
    def first_generation(self) -> Generation:
        # The id that the job's first generation would have here.
        return Generation(1, self.name)

    def start_broker(self, stop: threading.Event) -> bool:
        """Start the broker on its data. Return False if `stop` was set. Raise CutwaterError if that fails."""
        return self.start([self.broker.supervised()], stop)

    def create_topics(self, job: Job) -> None:
        """Create a job's topics, including its source, for a first generation in this region."""
        job_topics.create_embedded(self.cluster, job, self.first_generation)

    def start(self, members: Sequence[Supervised], stop: threading.Event) -> bool:
        """Start processes, each once the previous one is ready. Return False if `stop` was set meanwhile."""
        group = Supervisor(members, report=lambda line: self._report(f"{self.name}: {line}"))
        self._groups.append(group)
        return group.start(stop)

    def writers(self, generation: Generation | None = None, beside: Region | None = None) -> list[Supervised]:
        """Return commit-signal and driver, of the first generation here or of a claimed one. Fencing ends them.
        `beside`: the other region, which they ask whether it has continued the job."""
        of = "" if generation is None else f"-{generation}"
        env = {} if generation is None else {"CUTWATER_GENERATION": str(generation)}
        env |= beside.origin_settings() if beside else {}
        return [
            self._service(f"commit-signal{of}", "cutwater.commit_signal", env),
            self._service(f"driver{of}", "cutwater_spark.driver", env, leader_only=True),
        ]

    def rehydrator(self) -> Supervised:
        made = self._service("rehydrator", "cutwater.rehydrator", {})
        return replace(made, ready=lambda: api_answers(self.api_url), ready_seconds_max=API_SECONDS_MAX)

    def publisher(self) -> Supervised:
        return self._service("publisher", "cutwater.publisher", {})

    def verb(self, name: str, *words: str, beside: Region | None = None) -> AbstractContextManager[Verb]:
        """Run a command about the job, as an operator would in this region. `beside`: the region for its
        `CUTWATER_ORIGIN_*` settings."""
        env = {**self._env, **(beside.origin_settings() if beside else {})}
        return start_command([name, str(self._job_file), *words], env, self.folder / "logs")

    def find_claim(self, job: str, verb: Verb) -> Claim | None:
        """Return this region's first claim, made by a running command; None if there is none yet. Raise
        UnavailableError if the command has ended without a claim, and as `Verb.told` does."""
        working = verb.is_running()
        if not descriptions(self.cluster, [topics.candidates(job)]):
            return None
        known = candidates(self.cluster, job).by_id.values()
        made = next((one.claim for one in known if one.claim.generation.region == self.name), None)
        if made is None and not working:
            raise UnavailableError("the command has ended without a claim")
        return made

    def mirror(self, origin: Origin, slots: Sequence[int] = ()) -> Supervised:
        """Return the mirror that copies `origin` here, or only some of its slots, until it is fenced."""
        env = {**origin.origin_settings(), "CUTWATER_MIRROR_SLOTS": ",".join(map(str, slots))}
        name = "-".join(["mirror-of", origin.name, *map(str, slots)])
        return self._service(name, "cutwater.mirror", env)

    def origin_settings(self) -> dict[str, str]:
        return origin_settings(self.name, self.cluster)

    def check(self) -> None:
        """Check every process once. Raise CutwaterError if one ended that must not be restarted."""
        for group in self._groups:
            group.check()

    def kill_processes(self, *names: str) -> None:
        """Send SIGKILL to some processes, and do not restart them. Raise MachineError if one does not die."""
        for member in (one for group in self._groups for one in group.members):
            if member.child.name in names:
                member.finished = True
                member.child.kill()

    def kill(self) -> list[int]:
        """Send SIGKILL to every process, the broker first, and return their ids. None is restarted. Raise
        MachineError if one does not die, UnavailableError if the broker did not run."""
        children = [member.child for group in self._groups for member in group.members]
        broker = [pid for child in children if child.name == "broker" for pid in child.pids()]
        if not broker or not self.broker.ready():
            raise UnavailableError(f"the broker of {self.name} does not run, so it cannot be killed")
        self._groups = []
        killed: list[int] = []
        for child in children:
            killed += child.pids()
            child.kill()
        return killed

    def stop_newest(self) -> None:
        """End the processes that were started last."""
        self._groups.pop().stop()

    def stop(self) -> None:
        """End every process, in reverse order of start."""
        while self._groups:
            self._groups.pop().stop()

    def _service(self, name: str, module: str, env: Mapping[str, str], leader_only: bool = False) -> Supervised:
        child = Child(
            name,
            [sys.executable, "-m", module, str(self._job_file)],
            {**self._env, **env},
            self.folder / "logs" / f"{name}.log",
            _PATIENT,
            terminate_leader_only=leader_only,
        )
        return Supervised(child, reason_to_continue=_fenced)


def _fenced(exit_code: int) -> str | None:
    return "another process has fenced it" if exit_code == FencedError.exit_code else None

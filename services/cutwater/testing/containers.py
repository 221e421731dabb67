"""A job in testcontainers, from the images of deploy/images, with one container per process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import MachineError, UnavailableError
from cutwater.local.api_probe import api_answers
from cutwater.local.job_topics import create_embedded
from cutwater.local.machine.extras import require
from cutwater.local.machine.ports import LOOPBACK, free_ports
from cutwater.testing.deployment import Deployment
from cutwater.testing.kafka_node import HOST_PORT, settings_of_one
from cutwater.testing.process_settings import settings_and_environment

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.network import Network

START_S = 180.0
_LOOK_S = 0.2
_API = 8321
_FOLDER = "/data"
"""The volume of Cutwater's images, the only folder that every user of a container can write."""
_LINES = 20
_BESIDE = ("*.avsc", "*.proto", "*.desc", "*.py", "*.csv")


@contextmanager
def containers(
    job_file: Path | str, *, tag: str = "latest", settings: Mapping[str, str] | None = None
) -> Iterator[Deployment]:
    """Run Kafka, driver, commit-signal, publisher and rehydrator of a job until the end of the block.

    `tag`: the tag of the images `cutwater-kafka`, `cutwater-spark` and `cutwater-service`. `settings`: environment
    variables (docs/SETTINGS.md) for every process. Spark runs in the driver's container. A schema, a function's
    module and its tables must be beside the job file; the schema may also be one of Cutwater's own.
    Raises MachineError without testcontainers, a container engine or the images; UsageError for a wrong job file
    or setting; UnavailableError, with the end of its log, for a container that does not start or has ended before
    the end of the block.
    """
    require("testing", "testcontainers")
    from docker.errors import DockerException
    from testcontainers.core.network import Network

    own, env = settings_and_environment(settings)
    job, job_file = load_job(Path(job_file)), Path(job_file)
    with ExitStack() as on:
        try:
            started = _Containers(on, on.enter_context(Network()), tag)
        except DockerException as error:
            raise MachineError(f"no Docker engine answers: {error}; start one, or use embedded()") from None
        cluster = started.kafka()
        create_embedded(cluster, job, own.generation)
        started.settings |= env
        started.files = [(one, f"{_FOLDER}/{one.name}") for one in _files_of(job_file)]
        inside = f"{_FOLDER}/{job_file.name}"
        if not job.attached:
            started.start("driver", "cutwater-spark", ["cutwater_spark.driver", inside])
        started.start("commit-signal", "cutwater-service", ["cutwater.commit_signal", inside])
        if job.output.mode != "none":
            started.start("publisher", "cutwater-service", ["cutwater.publisher", inside])
        port = free_ports(1)[0]
        api = {"CUTWATER_PORT": str(_API), "CUTWATER_HOST": "0.0.0.0"}  # noqa: S104 - inside its container
        started.start("rehydrator", "cutwater-service", ["cutwater.rehydrator", inside], api, {_API: port})
        url = f"http://{LOOPBACK}:{port}"
        started.until(lambda: api_answers(url), "the rehydrator's API")
        if not job.attached:
            started.until(
                lambda: commit_stream.newest_start_ms(cluster, job.name) is not None, "the driver's start"
            )
        yield Deployment(job, cluster, url, started.logs, own.api_headers, started.require_all)
        started.require_all()


def _files_of(job_file: Path) -> list[Path]:
    """Return the job file, and what it may name beside it: schemas, a function's module, its tables."""
    return [job_file, *sorted(one for form in _BESIDE for one in job_file.parent.glob(form) if one.is_file())]


class _Containers:
    """Containers on one network, each ended by `on`."""

    def __init__(self, on: ExitStack, network: Network, tag: str) -> None:
        self._on = on
        self._network = network
        self._tag = tag
        self._running: dict[str, DockerContainer] = {}
        self.settings: dict[str, str] = {}
        self.files: Sequence[tuple[Path, str]] = ()

    def kafka(self) -> Cluster:
        """Start a node that serves its network and this machine. Raises UnavailableError if it does not answer."""
        port = free_ports(1)[0]
        self.start("kafka", "cutwater-kafka", None, settings_of_one("kafka", LOOPBACK, port), {HOST_PORT: port})
        cluster = Cluster(f"{LOOPBACK}:{port}")
        self.until(lambda: _serves(cluster), "Kafka")
        self.settings = {"CUTWATER_BOOTSTRAP_SERVERS": "kafka:9092"}
        return cluster

    def start(
        self,
        name: str,
        image: str,
        command: list[str] | None,
        env: Mapping[str, str] | None = None,
        ports: Mapping[int, int] | None = None,
    ) -> None:
        """Start a container. `ports`: ports of the container and the loopback ports that they are mapped to."""
        from docker.errors import DockerException
        from testcontainers.core.container import DockerContainer

        one = DockerContainer(f"{image}:{self._tag}", network=self._network, network_aliases=[name])
        one.with_envs(**self.settings, **(env or {})).with_kwargs(
            init=True, cap_drop=["ALL"], security_opt=["no-new-privileges:true"]
        )
        if command:
            one.with_command(command)
        for inside, outside in (ports or {}).items():
            one.ports[f"{inside}/tcp"] = (LOOPBACK, outside)
        for file, place in self.files:
            one.with_copy_into_container(file, place)
        try:
            self._running[name] = self._on.enter_context(one)
        except DockerException as error:
            raise MachineError(
                f"{image}:{self._tag} cannot be started: {error}; 'make images' makes it (docs/CONTAINERS.md)"
            ) from None

    def until(self, there: Callable[[], bool], what: str) -> None:
        """Wait until `there`. Raises UnavailableError after 180 s, or if a container ends."""
        deadline = time.monotonic() + START_S
        while not there():
            self.require_all()
            if time.monotonic() > deadline:
                raise UnavailableError(f"{what} is not there after {START_S:g} s; {self.logs()}")
            time.sleep(_LOOK_S)

    def require_all(self) -> None:
        """Raise UnavailableError, with the end of its log, for a container that has ended."""
        from docker.errors import DockerException

        for name, one in self._running.items():
            try:
                one.reload()
            except DockerException as error:
                raise UnavailableError(f"container {name} cannot be inspected: {error}") from None
            if one.status != "running":
                raise UnavailableError(f"container {name} is {one.status}: {self._end_of(one)}")

    def logs(self) -> str:
        """Return the last lines of each log, since the containers are removed afterwards."""
        return "\n".join(f"{name}: {self._end_of(one)}" for name, one in self._running.items())

    @staticmethod
    def _end_of(one: DockerContainer) -> str:
        return bytes(one.get_wrapped_container().logs(tail=_LINES)).decode(errors="replace")


def _serves(cluster: Cluster) -> bool:
    try:
        wait_for_broker(cluster, 1.0)
    except UnavailableError:
        return False
    return True

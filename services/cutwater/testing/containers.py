"""A job in containers of testcontainers, from the images that deploy/images makes; one container per process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cutwater.adapters.cluster import Cluster
from cutwater.adapters.jobfile import load_job
from cutwater.adapters.kafka import wait_for_broker
from cutwater.adapters.settings import load_settings
from cutwater.core.errors import UnavailableError
from cutwater.local.extra import require
from cutwater.local.job_topics import create_embedded
from cutwater.local.ports import free_ports
from cutwater.testing.deployment import Deployment
from cutwater.testing.kafkanode import HOST_PORT, settings_of_one

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.network import Network

START_S = 120.0
_API = 8321
_FOLDER = "/data"
"""A volume of every image: only it can be written to by whoever a container runs as."""


@contextmanager
def containers(
    job_file: Path | str, *, tag: str = "latest", settings: Mapping[str, str] | None = None
) -> Iterator[Deployment]:
    """Kafka, driver, commit-signal, publisher and rehydrator of a job; all are gone when the block is left.

    tag: of the images `cutwater-kafka`, `cutwater-spark` and `cutwater-service`. settings: environment variables
    (docs/SETTINGS.md) of every process of Cutwater's. Spark runs in the driver's own container.
    Raises MachineError without testcontainers, UsageError for a job file with mistakes, UnavailableError, with the
    end of its log, when a container does not start; docker's own errors when there is no engine or no image.
    """
    require("testing", "testcontainers")
    from testcontainers.core.network import Network

    job, job_file = load_job(Path(job_file)), Path(job_file)
    with ExitStack() as on:
        made = _Made(on, on.enter_context(Network()), tag)
        cluster = made.kafka()
        create_embedded(cluster, job, load_settings().generation)
        made.settings |= {"CUTWATER_TRIGGER_MS": "100", **(settings or {})}
        made.files = [(one, f"{_FOLDER}/{one.name}") for one in [job_file, *job_file.parent.glob("*.avsc")]]
        inside = f"{_FOLDER}/{job_file.name}"
        if not job.attached:
            made.start("driver", "cutwater-spark", ["cutwater_spark.driver", inside])
        made.start("commit-signal", "cutwater-service", ["cutwater.commit_signal", inside])
        if job.output.mode != "none":
            made.start("publisher", "cutwater-service", ["cutwater.publisher", inside])
        port = free_ports(1)[0]
        env = {"CUTWATER_PORT": str(_API), "CUTWATER_HOST": "0.0.0.0"}  # noqa: S104 - inside its container
        made.start("rehydrator", "cutwater-service", ["cutwater.rehydrator", inside], env, {_API: port})
        yield Deployment(
            job, cluster, f"http://{made.host}:{port}", f"docker logs {made.names}", check=made.require_all
        )


class _Made:
    """Containers on one network, each ended by `on`."""

    def __init__(self, on: ExitStack, network: Network, tag: str) -> None:
        self._on = on
        self._network = network
        self._tag = tag
        self._running: dict[str, DockerContainer] = {}
        self.settings: dict[str, str] = {}
        self.files: Sequence[tuple[Path, str]] = ()
        self.host = "127.0.0.1"

    @property
    def names(self) -> str:
        """The containers, as docker calls them."""
        return "|".join(self._name(one) for one in self._running.values())

    def kafka(self) -> Cluster:
        """A node that serves its network and this machine. Raises UnavailableError when it does not answer."""
        port = free_ports(1)[0]
        self.start("kafka", "cutwater-kafka", None, settings_of_one("kafka", self.host, port), {HOST_PORT: port})
        cluster = Cluster(f"{self.host}:{port}")
        try:
            wait_for_broker(cluster, START_S)
        except UnavailableError as error:
            raise UnavailableError(f"{error}; {self._end_of('kafka')}") from None
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
        """Start one. `ports`: those of the container that this machine's loopback address gets, and as what."""
        from testcontainers.core.container import DockerContainer

        one = DockerContainer(f"{image}:{self._tag}", network=self._network, network_aliases=[name])
        one.with_envs(**self.settings, **(env or {})).with_kwargs(
            init=True, cap_drop=["ALL"], security_opt=["no-new-privileges:true"]
        )
        if command:
            one.with_command(command)
        for inside, outside in (ports or {}).items():
            one.ports[f"{inside}/tcp"] = (self.host, outside)
        for file, place in self.files:
            one.with_copy_into_container(file, place)
        self._running[name] = self._on.enter_context(one)

    def require_all(self) -> None:
        """Raises UnavailableError, with the end of its log, for a container that has ended."""
        for name, one in self._running.items():
            one.reload()
            if one.status != "running":
                raise UnavailableError(self._end_of(name))

    def _end_of(self, name: str) -> str:
        one = self._running[name]
        out, error = one.get_logs()
        return f"container {name} is {one.status}: {(out + error).decode(errors='replace')[-2000:]}"

    @staticmethod
    def _name(one: DockerContainer) -> str:
        return str(one.get_wrapped_container().name)

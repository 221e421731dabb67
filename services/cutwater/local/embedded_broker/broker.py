"""A real Kafka broker (KRaft, one node) on the loopback address, as a supervised child.

Its data folder has `log/` (Kafka's storage; exists only once formatted), `ports.json` (so that it restarts on the
same ports), `server.properties` and `broker.log`.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from cutwater.adapters.kafka.client_config import Cluster, Security
from cutwater.core.errors import MachineError
from cutwater.local.embedded_broker.config import read_properties, render_properties, server_properties
from cutwater.local.embedded_broker.security import BrokerSecurity
from cutwater.local.machine.disk_space import folder_error, require_room
from cutwater.local.machine.ports import LOOPBACK, free_ports, require_free
from cutwater.local.processes.child import Child
from cutwater.local.processes.class_archives import archive_options, archive_path
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.processes.supervisor import Supervised

OWNER = "the broker"
FORMAT_TIMEOUT_SECONDS = 60.0
ANSWER_TIMEOUT_SECONDS = 2.0
READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0
LOG4J2 = Path(__file__).with_name("log4j2.properties")

_silent = logging.getLogger("cutwater.local.embedded_broker.broker.probe")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def new_cluster_id(random: bytes) -> str:
    """Return a cluster id from 16 random bytes: URL-safe base64, as Kafka writes it. It never starts with a dash,
    which Kafka's tool would take for an option, one time in 64."""
    text = base64.urlsafe_b64encode(random).decode().rstrip("=")
    return "A" + text[1:] if text.startswith("-") else text


class Broker:
    """A prepared broker; `child()` or `supervised()` runs it.

    Ports that are not given are those this data folder had before, or free ones. `overrides`: Kafka broker
    settings that override the ones set here. `heap_mb`: the JVM's maximum heap. Without `security` any user of
    this machine has access. Raises MachineError if the folder cannot be written.
    """

    def __init__(
        self,
        data_dir: Path,
        java: Path,
        jar_paths: Sequence[Path],
        *,
        port: int | None = None,
        controller_port: int | None = None,
        overrides: Mapping[str, str] | None = None,
        log_path: Path | None = None,
        heap_mb: int = 768,
        security: BrokerSecurity | None = None,
        options: Sequence[str] = (),
    ) -> None:
        """`options`: further ones of the broker's JVM."""
        self.data_dir = data_dir.resolve()
        self.log_path = log_path or self.data_dir / "broker.log"
        self._java = java
        self._class_path = os.pathsep.join(str(path) for path in jar_paths)
        self._options = tuple(options)
        self.archive = archive_path(java, self._class_path)
        self._overrides = dict(overrides or {})
        self._heap_mb = heap_mb
        self._security = security
        self._client = security.client() if security else Security()
        require_room(self.data_dir, OWNER)
        self.port, self.controller_port = self._choose_ports(port, controller_port)

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def cluster(self) -> Cluster:
        """The client configuration; with several users, that of the first."""
        return Cluster(self.bootstrap, self._client)

    def child(self, restart: RestartPolicy | None = None) -> Child:
        """Return the broker's process. Before each start it checks disk and ports and formats the storage."""
        argv = [
            *self._jvm(f"-Xmx{self._heap_mb}m", "-Xms128m", "-XX:+ExitOnOutOfMemoryError", *self._options),
            "kafka.Kafka",
            str(self._properties_path),
        ]
        env = self._security.environment() if self._security else {}
        return Child("broker", argv, env, self.log_path, restart or RestartPolicy(), before_start=self.prepare)

    def supervised(self, restart: RestartPolicy | None = None) -> Supervised:
        return Supervised(self.child(restart), self.ready, READY_SECONDS_MAX, STOP_SECONDS_MAX)

    def prepare(self) -> None:
        """Prepare a start, or raise MachineError: disk space, ports, configuration, formatted storage."""
        require_room(self.data_dir, OWNER)
        require_free(self.port, OWNER)
        require_free(self.controller_port, f"{OWNER}'s controller")
        try:
            self._write_ports()
            self._write_properties(self._properties_path, self._log_dir)
        except OSError as error:
            raise folder_error(self.data_dir, OWNER, error) from error
        if not self._log_dir.exists():
            self._format()

    def ready(self) -> bool:
        """Return whether this broker answers. Waits at most two seconds."""
        try:
            # While it starts, connections are refused: this is cheaper to detect than a client's time-out.
            socket.create_connection((LOOPBACK, self.port), timeout=ANSWER_TIMEOUT_SECONDS).close()
            admin = AdminClient(self.cluster.librdkafka(), logger=_silent)
            answer = admin.list_topics(timeout=ANSWER_TIMEOUT_SECONDS)
        except (OSError, KafkaException):
            return False
        # Another broker may have taken the port between the check and the start.
        return bool(answer.brokers) and answer.cluster_id == self.cluster_id

    @property
    def cluster_id(self) -> str | None:
        try:
            return read_properties((self._log_dir / "meta.properties").read_text("utf-8")).get("cluster.id")
        except OSError:
            return None

    @property
    def _log_dir(self) -> Path:
        return self.data_dir / "log"

    @property
    def _properties_path(self) -> Path:
        return self.data_dir / "server.properties"

    def _jvm(self, *options: str) -> list[str]:
        told = [*archive_options(self.archive), *options]
        log4j2 = f"-Dlog4j2.configurationFile={LOG4J2}"
        return [str(self._java), *told, "-Djava.awt.headless=true", log4j2, "-cp", self._class_path]

    def _choose_ports(self, port: int | None, controller_port: int | None) -> tuple[int, int]:
        try:
            before = json.loads(self._ports_path.read_text("utf-8"))
        except (OSError, ValueError):
            before = {}
        fresh = free_ports(3)
        chosen = port or before.get("port") or fresh[0]
        other = next(candidate for candidate in fresh[1:] if candidate != chosen)
        return chosen, controller_port or before.get("controller_port") or other

    @property
    def _ports_path(self) -> Path:
        return self.data_dir / "ports.json"

    def _write_ports(self) -> None:
        temporary = self._ports_path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"port": self.port, "controller_port": self.controller_port}))
        temporary.replace(self._ports_path)

    def _write_properties(self, path: Path, log_dir: Path) -> None:
        secured = self._security.properties(self.port, self.controller_port) if self._security else {}
        settings = server_properties(log_dir, self.port, self.controller_port, {**secured, **self._overrides})
        path.write_text(render_properties(settings), "utf-8")

    def _format(self) -> None:
        """Format in a temporary folder, then rename it: a `log` folder is always complete."""
        fresh, properties = self.data_dir / "log.formatting", self.data_dir / "format.properties"
        shutil.rmtree(fresh, ignore_errors=True)
        cluster_id = new_cluster_id(uuid.uuid4().bytes)
        # A small JVM: it runs for one second.
        jvm = self._jvm("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        command = [*jvm, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)]
        command += self._security.format_arguments() if self._security else []
        try:
            self._write_properties(properties, fresh)
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_SECONDS, check=False
            )
            if done.returncode == 0:
                fresh.rename(self._log_dir)
                return
        except subprocess.TimeoutExpired as error:
            raise MachineError(
                f"Formatting the broker's storage in {fresh} took more than {FORMAT_TIMEOUT_SECONDS:g} s: "
                f"look for a slow disk or a busy machine, then run again"
            ) from error
        except OSError as error:
            raise folder_error(self.data_dir, OWNER, error) from error
        output = "\n".join(f"  | {line}" for line in (done.stdout + done.stderr).splitlines()[-15:])
        raise MachineError(f"The broker's storage in {fresh} could not be formatted:\n{output}")

"""The embedded stack: broker, commit-signal, rehydrator and Spark driver on one machine, from one job file."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from cutwater.adapters.jobfile import load_job
from cutwater.adapters.kafka import ensure_topics
from cutwater.adapters.settings import Settings
from cutwater.core import topics
from cutwater.core.errors import UsageError
from cutwater.local import running
from cutwater.local.broker import Broker
from cutwater.local.children import Child
from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.ports import free_ports, require_free
from cutwater.local.restarts import RestartPolicy
from cutwater.local.running import RunningStack
from cutwater.local.supervisor import Supervised, Supervisor

Report = Callable[[str], None]

_MEMBERS = ("broker", "commit-signal", "rehydrator", "driver")


class Stack:
    """Everything one job needs, prepared but not running; `supervisor` starts and ends it.

    Raises MachineError when Java, jars, ports or the folder cannot be had; UsageError for a bad job file or
    when a stack runs on the folder already.
    """

    def __init__(
        self, job_file: Path, settings: Settings, report: Report, extra_env: Mapping[str, str] | None = None
    ):
        self._settings = settings
        self.job = load_job(job_file)
        self._job_file = job_file.resolve()
        self._data_dir = settings.data_dir.resolve()
        found = running.find(self._data_dir)
        if found:
            raise UsageError(
                f"a stack runs on {self._data_dir} already (process {found.pid}); 'cutwater down' ends it"
            )
        java = find_java()
        report("fetching jars (the first time only) …")
        kafka_jars, spark_jars = jars("kafka"), jars("spark")
        self._logs = {name: self._data_dir / "logs" / f"{name}.log" for name in _MEMBERS}
        self.broker = Broker(self._data_dir / "broker", java, kafka_jars, log_path=self._logs["broker"])
        self._api_port, self._ui_port = self._ports()
        self._env = {
            "CUTWATER_BOOTSTRAP_SERVERS": self.broker.bootstrap,
            "CUTWATER_DATA_DIR": str(self._data_dir),
            "CUTWATER_PORT": str(self._api_port),
            "CUTWATER_SPARK_UI_PORT": str(self._ui_port),
            "CUTWATER_SPARK_JARS": ",".join(str(path) for path in spark_jars),
            "JAVA_HOME": str(java.resolve().parent.parent),
            # The JVM of a driver must find the very Python and the very Spark that run here.
            "PYSPARK_PYTHON": sys.executable,
            **(extra_env or {}),
        }
        self.supervisor = Supervisor(self._members(), report=report)

    @property
    def api_url(self) -> str:
        return f"http://{self._settings.host}:{self._api_port}"

    def describe(self) -> RunningStack:
        """Where everything is, for people and for the other commands."""
        pid, started = running.describe_self()
        return RunningStack(
            pid=pid,
            started=started,
            job_file=str(self._job_file),
            job=self.job.name,
            generation=str(self._settings.generation),
            bootstrap_servers=self.broker.bootstrap,
            api_url=self.api_url,
            spark_ui_url=f"http://127.0.0.1:{self._ui_port}",
            data_dir=str(self._data_dir),
            logs={name: str(path) for name, path in self._logs.items()},
        )

    def _ports(self) -> tuple[int, int]:
        api, ui = free_ports(2)
        if "port" in self._settings.model_fields_set and self._settings.port:
            api = self._settings.port
        require_free(api, "the rehydrator's API (CUTWATER_PORT)")
        return api, self._settings.spark_ui_port or ui

    def _members(self) -> list[Supervised]:
        broker = self.broker.supervised()
        answers = broker.ready
        broker.ready = lambda: answers() and self._create_topics()
        return [
            broker,
            self._service("commit-signal", "cutwater.commit_signal"),
            self._service("rehydrator", "cutwater.rehydrator", self._api_answers),
            self._service("driver", "cutwater_spark.driver", leader_only=True),
        ]

    def _create_topics(self) -> bool:
        job, generation = self.job, self._settings.generation
        specs = topics.owned(job.name, generation, job.shards.partitions)
        ensure_topics(self.broker.bootstrap, [*specs, topics.events(job.topic, job.shards.partitions)])
        return True

    def _api_answers(self) -> bool:
        try:
            return httpx.get(f"{self.api_url}/healthz", timeout=2.0).status_code < 500
        except httpx.HTTPError:
            return False

    def _service(
        self, name: str, module: str, ready: Callable[[], bool] | None = None, leader_only: bool = False
    ) -> Supervised:
        child = Child(
            name,
            [sys.executable, "-m", module, str(self._job_file)],
            self._env,
            self._logs[name],
            RestartPolicy(restarts_max=10, window_seconds=300.0),
            terminate_leader_only=leader_only,
        )
        return Supervised(child, ready) if ready else Supervised(child)

    def pids(self) -> dict[str, int | None]:
        """The process of each member, by name."""
        return {member.child.name: member.child.pid for member in self.supervisor.members}


def run_stack(stack: Stack, stop: threading.Event, started: Callable[[RunningStack], None]) -> None:
    """Run a stack until `stop` is set; `started` is called with its description once everything answers.

    Raises a CutwaterError, with every child ended, when one fails to start or may not be restarted.
    """
    with stack.supervisor as supervisor:
        if not supervisor.start(stop):
            return
        description = stack.describe()
        description.write()
        try:
            started(description)
            supervisor.run(stop)
        finally:
            (Path(description.data_dir) / running.FILE).unlink(missing_ok=True)

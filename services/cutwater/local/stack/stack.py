"""The local stack: commit-signal, rehydrator and Spark driver on one machine, from one job file.

The broker is an embedded one, or the user's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from cutwater.adapters.config.settings import Settings, environment
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import SHIFT_VARIABLE, now_ms
from cutwater.adapters.runtime.ready_file import is_ready_since, ready_file
from cutwater.adapters.runtime.restart_request import take_requests
from cutwater.adapters.topics.candidates import newest_in_either
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.core.checks.replication import Replication
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Generation
from cutwater.local import job_topics, running_file
from cutwater.local.api_probe import api_answers
from cutwater.local.console_process import NAME as CONSOLE
from cutwater.local.console_process import ConsoleProcess
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.embedded_broker.security import BrokerSecurity
from cutwater.local.jars import connectors, jars
from cutwater.local.java import find_java
from cutwater.local.machine.disk_space import require_room
from cutwater.local.machine.extras import require
from cutwater.local.machine.ports import free_ports, require_free
from cutwater.local.processes.auto_recovery import AutoRecovery
from cutwater.local.processes.candidate_processes import CandidateProcesses
from cutwater.local.processes.child import Child
from cutwater.local.processes.exit_policy import ProcessEnd, RegionWait
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.processes.supervisor import Supervised, Supervisor
from cutwater.local.running_file import RunningStack
from cutwater.local.spark_runtime import archive_of, found_archive, spark_environment
from cutwater.local.stack.stack_record import StackRecord
from cutwater.operations.generations.claim_check import require_works
from cutwater.operations.generations.claims import Claims, copies_of
from cutwater.operations.generations.first_generation import require_may_begin
from cutwater.operations.generations.requests import Planned
from cutwater.operations.regions.rejoin import rejoin_check

Report = Callable[[str], None]
READY_SECONDS_MAX = 180.0

_SERVICES = ("commit-signal", "rehydrator", "publisher", "watch", "driver")
BEHIND = 5
"""The niceness of processes that readers do not wait for: a third of the CPU share (a quarter less per step)."""
CLOCKS = "clocks"
"""The folder of the files that move clocks."""
_STEP_BACK = frozenset({"cutwater_spark.driver", "cutwater.watch", "cutwater.canary"})
"""Readers wait for the other processes, mostly in a hand-over, when two drivers run at once."""
_METRICS = {"driver": "driver_port", "commit-signal": "signal_port", "publisher": "publisher_port"}
"""Service → the setting of its metrics' port; 0 disables them."""
# What the user's own program needs from the stack; secrets are not included.
_FOR_A_PROGRAM = (
    "CUTWATER_BOOTSTRAP_SERVERS",
    "CUTWATER_KAFKA_SECURITY_PROTOCOL",
    "CUTWATER_DATA_DIR",
    "CUTWATER_SPARK_JARS",
    "JAVA_HOME",
    "PYSPARK_PYTHON",
)
_OF_SPARK = ("CUTWATER_SPARK_JARS", "CUTWATER_SPARK_CLASSES")


class Stack:
    """All processes of one job, prepared but not running; `supervisor` starts and ends them.

    `own_cluster`: use the cluster of the settings, and start no broker. `broker`: one that the caller starts
    before this stack and ends after it. `console`: that of the stack; `runs_console`: False if the caller runs it.
    Raises MachineError if Java, jars, ports or the folder are not available; UsageError for an invalid job file or
    if a stack already runs on the folder.
    """

    def __init__(
        self,
        job_file: Path,
        settings: Settings,
        report: Report,
        extra_env: Mapping[str, str] | None = None,
        security: BrokerSecurity | None = None,
        *,
        own_cluster: bool = False,
        broker: Broker | None = None,
        console: ConsoleProcess | None = None,
        runs_console: bool = True,
        movable_clocks: bool = False,
    ):
        self._settings = settings
        self._report = report
        self._movable_clocks = movable_clocks
        self._begun_ms = time.time_ns() // 1_000_000
        self.job = load_job(job_file)
        self.job_file = job_file.resolve()
        self.data_dir = settings.data_dir.resolve()
        running_file.require_none(self.data_dir)
        require_room(self.data_dir, "the stack")
        require("local", "pyspark", "jgo")
        self.java = java = find_java()
        spark_jars = connectors(settings.checkpoint, report)
        services = _SERVICES[:-1] if self.job.attached else _SERVICES
        members = services if own_cluster else ("broker", *services)
        logs = {name: self.data_dir / "logs" / f"{name}.log" for name in members}
        if broker:
            logs["broker"] = broker.log_path
        self._console, self._runs_console = console, runs_console
        if console:
            logs[CONSOLE] = console.log
        self._record = StackRecord(logs, self.describe, report)
        self._runs_broker = not own_cluster and broker is None
        self._broker = self._embedded(java, security) if self._runs_broker else broker
        self.cluster: Cluster = self._broker.cluster if self._broker else settings.cluster
        self._api_port, self._ui_port, self._watch_port = self._ports()
        self._env = {
            # Secrets are passed only here: other users can read a process's arguments and files.
            **environment(self.cluster),
            "CUTWATER_API_TOKEN": settings.api_token.get_secret_value(),
            "CUTWATER_TOKENS": settings.tokens.get_secret_value(),
            "CUTWATER_SNAPSHOT_KEY": settings.snapshot_key.get_secret_value(),
            "CUTWATER_DATA_DIR": str(self.data_dir),
            "CUTWATER_SNAPSHOTS": self._snapshots,
            "CUTWATER_PORT": str(self._api_port),
            "CUTWATER_SPARK_UI_PORT": str(self._ui_port),
            "CUTWATER_WATCH_PORT": str(self._watch_port),
            "CUTWATER_WATCH_VIEW_URL": self.api_url,
            "CUTWATER_SPARK_JARS": ",".join(str(path) for path in spark_jars),
            "CUTWATER_SPARK_CLASSES": settings.spark_classes or found_archive(java),
            **spark_environment(java),
            **(extra_env or {}),
        }
        self.spark_env = {name: self._env[name] for name in (*_OF_SPARK, *spark_environment(java))}
        """What a process needs to start Spark."""
        self._generation = settings.generation
        self._first: list[Child] = []
        ports = {name: getattr(settings, port) for name, port in _METRICS.items() if name in services}
        self._record.metrics |= {name: self._metrics_url(port) for name, port in ports.items() if port}
        self._elsewhere = RegionWait()
        self._successors = CandidateProcesses(self.cluster, self.job.name, self._candidate, report)
        claims = Claims(self.cluster, self.job, settings.region, now_ms)
        self._renewals = AutoRecovery(
            self.cluster,
            self.job.name,
            claims,
            self._copies,
            self._require_works,
            lambda: self._successors.started_generations,
            report,
            self._pause,
        )
        self.supervisor = Supervisor(
            self._members(),
            report=report,
            failed=self._record.note_failure,
            more=self._successors,
            requested=self._restart_requested,
        )
        take_requests(self.data_dir)  # those of an earlier stack

    @property
    def api_url(self) -> str:
        return f"http://{self._settings.host}:{self._api_port}"

    @property
    def api_headers(self) -> dict[str, str]:
        return self._settings.api_headers

    def describe(self) -> RunningStack:
        pid, started = running_file.describe_self()
        return RunningStack(
            pid=pid,
            ready=False,
            started=started,
            job_file=str(self.job_file),
            job=self.job.name,
            generation=str(self._generation),
            bootstrap_servers=self.cluster.bootstrap,
            security_protocol=self.cluster.security.protocol,
            api_url=self.api_url,
            spark_ui_url="" if self.job.attached else f"http://127.0.0.1:{self._ui_port}",
            watch_url=f"http://{self._settings.host}:{self._watch_port}/metrics",
            snapshots=self._snapshots,
            data_dir=str(self.data_dir),
            logs={name: str(path) for name, path in self._record.logs.items()},
            metrics=self._record.metrics,
            spark_uis=self._record.spark_uis,
            failures=self._record.failures,
            key_columns=None if self.job.key_columns is None else list(self.job.key_fields),
            program={name: self._env[name] for name in _FOR_A_PROGRAM} if self.job.attached else {},
        )

    @property
    def _snapshots(self) -> str:
        # A folder of the stack, unless the settings name another one or disable snapshots.
        said = "snapshots" in self._settings.model_fields_set
        return self._settings.snapshots if said else str(self.data_dir / "snapshots")

    def _embedded(self, java: Path, security: BrokerSecurity | None) -> Broker:
        log = self._record.logs["broker"]
        return Broker(
            self.data_dir / "broker", java, jars("kafka", report=self._report), log_path=log, security=security
        )

    @property
    def archives(self) -> dict[str, Path]:
        """Return the archive of classes that each module writes, for those that this stack could use."""
        spark = {} if self._settings.spark_classes else {"cutwater.local.spark_runtime": archive_of(self.java)}
        return spark | ({"cutwater.local.embedded_broker.classes": self._broker.archive} if self._broker else {})

    def prepare(self) -> None:
        """Create the topics, before any process starts, on a broker that runs already. Raises CutwaterError."""
        if self._broker and not self._runs_broker:
            self._create_topics()
        elif self._broker is None:
            wait_for_broker(self.cluster, self._settings.wait_ms / 1000)
            job_topics.prepare(self.cluster, *self._begin(), self._report)

    def close(self) -> None:
        """Close the connections to the brokers, after everything has ended."""
        self._successors.close()

    def _ports(self) -> tuple[int, int, int]:
        api, ui, watch = free_ports(3)
        if "port" in self._settings.model_fields_set and self._settings.port:
            api = self._settings.port
        require_free(api, "the rehydrator's API (CUTWATER_PORT)")
        return api, self._settings.spark_ui_port or ui, self._settings.watch_port or watch

    def _members(self) -> list[Supervised]:
        services = [
            self._generation_process("commit-signal", "cutwater.commit_signal"),
            self._service("rehydrator", "cutwater.rehydrator", lambda: api_answers(self.api_url)),
            *self._publisher(),
        ]
        if self._console and self._runs_console:
            services.append(self._console.member)  # it looks for the stack by itself: nothing waits for it
        if not self.job.attached:
            services.append(
                self._generation_process("driver", "cutwater_spark.driver", ready=self._driver_started)
            )
        watch = self._service("watch", "cutwater.watch")
        # Last to start and first to end; its permanent end does not end the others.
        services.append(replace(watch, essential=False))
        if self._broker is None or not self._runs_broker:
            return services
        broker = self._broker.supervised()
        answers = broker.ready
        broker.ready = lambda: answers() and self._create_topics()
        return [broker, *services]

    def _candidate(self, generation: Generation) -> list[Supervised]:
        """Return a candidate's processes, and add their addresses to the stack's file."""
        made = [self._generation_process("commit-signal", "cutwater.commit_signal", generation)]
        if self.job.attached:
            self._report(f"run your program with CUTWATER_GENERATION={generation} in its environment")
        else:
            made.append(self._generation_process("driver", "cutwater_spark.driver", generation))
        if self._successors.is_canary(generation):
            env = {"CUTWATER_GENERATION": str(generation)}
            made.append(
                replace(self._service(f"canary-{generation}", "cutwater.canary", env=env), essential=False)
            )
        self._record.update_file()
        return made

    def _restart_requested(self, supervisor: Supervisor) -> None:
        """Do what watch has asked for (CUTWATER_WATCH_ACTIONS): a generation's process has its id in the name."""
        for one in take_requests(self.data_dir):
            if not supervisor.restart([f"{one.process}-{one.generation}", one.process], one.why, one.env):
                self._report(f"watch asked to restart {one.process}, which does not run: {one.why}")

    def _ports_of(self, role: str, generation: Generation) -> dict[str, str]:
        """Return ports for a process that runs beside the one with the ports of the settings."""
        metrics, ui = free_ports(2)
        if self._settings.spark_application:
            ui = self._ui_port
        setting = _METRICS[role]
        if role == "driver":
            self._record.spark_uis[str(generation)] = f"http://127.0.0.1:{ui}"
        if getattr(self._settings, setting):
            self._record.metrics[f"{role}-{generation}"] = self._metrics_url(metrics)
        else:
            metrics = 0
        return {f"CUTWATER_{setting.upper()}": str(metrics), "CUTWATER_SPARK_UI_PORT": str(ui)}

    def _metrics_url(self, port: int) -> str:
        return f"http://{self._settings.host}:{port}/metrics"

    def _generation_process(
        self,
        role: str,
        module: str,
        generation: Generation | None = None,
        ready: Callable[[], bool] | None = None,
    ) -> Supervised:
        """Return a process that works for one generation all its life; None: the stack's first generation. If it
        looked up the generation at each start, it could switch to one whose own process runs here, too."""
        driver = role == "driver"
        if generation is None:
            made = self._service(role, module, ready, leader_only=driver)
            self._first.append(made.child)
        else:
            env = {**self._ports_of(role, generation), "CUTWATER_GENERATION": str(generation)}
            made = self._service(f"{role}-{generation}", module, leader_only=driver, env=env)

        def reason_to_continue(exit_code: int) -> str | None:
            return self._renewals.reason_to_continue(ProcessEnd(generation or self._generation, driver, exit_code))

        if driver:
            made.progress = lambda: self._newest_of(generation or self._generation)
        return replace(made, reason_to_continue=reason_to_continue)

    def _copies(self) -> Replication:
        return copies_of(self.cluster, self._settings.replication_factor, self._settings.min_insync_replicas)

    def _pause(self, seconds: float) -> None:
        self.supervisor.pause(seconds)

    def _require_works(self, planned: Planned) -> None:
        require_works(self.cluster, self.job, self._settings, planned.claim, self._snapshots)

    def _publisher(self) -> list[Supervised]:
        return [] if self.job.output.mode == "none" else [self._service("publisher", "cutwater.publisher")]

    def _create_topics(self) -> bool:
        job, settings = self._begin()
        job_topics.create_embedded(self.cluster, job, settings.generation)
        return True

    def _begin(self) -> tuple[Job, Settings]:
        """Read from the brokers which generation the stack starts with."""
        job, settings = working_for(self.job, self._settings, self.cluster)
        # Before anything is created.
        require_may_begin(self.cluster, job.name, settings.generation, settings.beside)
        self._ask_elsewhere(job, settings)
        self._generation = settings.generation
        for child in self._first:
            child.env["CUTWATER_GENERATION"] = str(settings.generation)
        return job, settings

    def _ask_elsewhere(self, job: Job, settings: Settings) -> None:
        """Raise FencedError, before anything is created, if another region has continued the job. If that is
        possible and it does not answer, driver and commit-signal wait for it; the others continue."""
        asking = rejoin_check(job, settings, self.cluster)
        if asking is not None and (found := asking.check(settings.generation)).waits:
            self._report(f"driver and commit-signal wait: {found.why}")
            self._elsewhere = RegionWait(lambda: asking.check(settings.generation))

    def _driver_started(self) -> bool:
        """Return whether the driver's query has started since this stack did, or it waits for another region."""
        path = ready_file(self.data_dir, self.job.name, self._generation)
        return is_ready_since(path, self._begun_ms) or self._elsewhere.is_waiting()

    def _newest_of(self, generation: Generation) -> object:
        """Return the generation's newest milestone: what its driver has reached. Raises UnavailableError."""
        return newest_in_either(self.cluster, self.job.name, generation)

    def _service(
        self,
        name: str,
        module: str,
        ready: Callable[[], bool] | None = None,
        leader_only: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> Supervised:
        log = self._record.logs.setdefault(name, self.data_dir / "logs" / f"{name}.log")
        child = Child(
            name,
            [sys.executable, "-m", module, str(self.job_file)],
            {**self._env, **self._clock_of(module), **(env or {})},
            log,
            RestartPolicy(restarts_max=10, window_seconds=300.0),
            terminate_leader_only=leader_only,
            niceness=BEHIND if module in _STEP_BACK else 0,
        )
        return Supervised(child, ready, READY_SECONDS_MAX) if ready else Supervised(child)

    def _clock_of(self, module: str) -> dict[str, str]:
        """Name to a service the file by which `cutwater chaos` moves its clock, if the stack has such clocks."""
        if not self._movable_clocks:
            return {}
        file = self.data_dir / CLOCKS / module
        file.unlink(missing_ok=True)  # of a fault whose command was killed; one that goes on writes it again
        return {SHIFT_VARIABLE: str(file)}

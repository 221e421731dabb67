"""The stack of several jobs: one broker and, for each job, a stack of its own processes in its own folder.

One process supervises all. A job that must not be restarted ends alone, and the others continue; with `together`
its end ends all.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.runtime.clock import now_ms
from cutwater.core.errors import CutwaterError
from cutwater.local import running_file
from cutwater.local.api_probe import api_answers
from cutwater.local.console_process import ConsoleProcess
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.jobs.job_files import JobFolder, require_shareable
from cutwater.local.jobs.spark_application import SharedApplication
from cutwater.local.machine.folder_lock import folder_locked
from cutwater.local.machine.ports import free_ports, require_free
from cutwater.local.processes.child import Child
from cutwater.local.processes.class_archives import archives_written
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.processes.supervisor import TICK_SECONDS, Supervised, Supervisor
from cutwater.local.running_file import RunningStack
from cutwater.local.spark_runtime import spark_environment
from cutwater.local.stack.stack import Report, Stack
from cutwater.local.stack.stack_lifecycle import start_processes

_PORTS = ("port", "spark_ui_port", "watch_port")
_METRICS_PORTS = ("driver_port", "signal_port", "publisher_port")


class JobsStack:
    """The stacks of several jobs, prepared but not running, and what they share: the broker, if it runs here, and
    the process of their common API.
    """

    def __init__(
        self,
        stacks: Sequence[Stack],
        shared: Sequence[Supervised],
        data_dir: Path,
        report: Report,
        together: bool = False,
    ) -> None:
        """`stacks`: in the order of their start. `shared`: what starts before them and ends after them."""
        self.stacks = list(stacks)
        self.data_dir = data_dir
        self._report = report
        self._together = together
        self._shared = Supervisor(shared, report=report)
        self._running: dict[Stack, ExitStack] = {}

    @contextmanager
    def start(self, stop: threading.Event) -> Iterator[list[RunningStack] | None]:
        """Start the broker, then job after job; yield their descriptions, or None if `stop` was set.

        Each job's file exists from the first moment. Raise a CutwaterError, after ending every process, if one
        fails to start, or if another process holds the data folder.
        """
        with ExitStack() as ends:
            ends.enter_context(folder_locked(self.data_dir, *running_file.describe_self()))
            for stack in self.stacks:
                (stack.data_dir / running_file.STOP).unlink(missing_ok=True)
                stack.describe().write()
                ends.push(_unmarked(stack))
            ready = ends.enter_context(self._shared).start(stop)
            found: list[RunningStack] = []
            for stack in self.stacks if ready else ():
                self._running[stack] = ends.enter_context(ExitStack())
                one = self._running[stack].enter_context(start_processes(stack, stop))
                if one is None:
                    break
                found.append(one)
            yield found if len(found) == len(self.stacks) else None

    def run(self, stop: threading.Event) -> None:
        """Watch all processes until `stop` is set or every job has ended. Raise a CutwaterError if the broker must
        not be restarted, if the last job has ended with one, or, if `together`, any job."""
        while not stop.is_set() and self._running:
            self._shared.check()
            for stack in list(self._running):
                self._check(stack)
            stop.wait(TICK_SECONDS)

    def _check(self, stack: Stack) -> None:
        try:
            stack.supervisor.check()
        except CutwaterError as error:
            if self._together or len(self._running) == 1:
                raise
            name = stack.job.name
            self._report(f"job {name} has ended: {error}. The other jobs continue")
            # Its file keeps the error, since it leaves the block of `start_processes`.
            self._running.pop(stack).__exit__(type(error), error, error.__traceback__)
            return
        asked = stack.data_dir / running_file.STOP
        if asked.exists() or all(member.finished for member in stack.supervisor.members):
            asked.unlink(missing_ok=True)
            self._running.pop(stack).close()


def prepare_jobs(
    jobs: Sequence[JobFolder],
    settings: Settings,
    report: Report,
    *,
    own_cluster: bool,
    together: bool,
    one_application: bool = False,
    console: ConsoleProcess | None = None,
) -> JobsStack:
    """Return the stack of several jobs. Raises as `Stack` does, and UsageError for settings of one job.

    `one_application`: the drivers share a Spark application, which is a process of its own. `console`: that of all
    jobs.
    """
    require_shareable(settings)
    data_dir = settings.data_dir.resolve()
    running_file.require_none(data_dir)
    broker = None
    if not own_cluster:
        log = data_dir / "logs" / "broker.log"
        broker = Broker(data_dir / "broker", find_java(), jars("kafka", report=report), log_path=log)
    ports = iter(free_ports(len(jobs) * (len(_PORTS) + len(_METRICS_PORTS)) + 3))
    application = SharedApplication.on(next(ports), next(ports)) if one_application else None
    stacks = []
    for one in jobs:
        changed = {**_settings_of(one, settings, data_dir, ports), **(application.settings if application else {})}
        env = {f"CUTWATER_{name.upper()}": str(value) for name, value in changed.items()}
        env |= application.env if application else {}
        own = settings.model_copy(update={**changed, "data_dir": one.folder})
        told = _prefixed(report, one.job.name)
        stacks.append(
            Stack(
                one.file,
                own,
                told,
                env,
                own_cluster=own_cluster,
                broker=broker,
                console=console,
                runs_console=False,
            )
        )
    shared = [*([broker.supervised()] if broker else []), _api(settings, data_dir, next(ports))]
    if console:
        shared.append(console.member)
    if application:
        shared.append(application.process(stacks, data_dir))
    return JobsStack(stacks, shared, data_dir, report, together)


def _api(settings: Settings, data_dir: Path, free: int) -> Supervised:
    """Return the process of the common API; its end does not end the jobs, which have their own APIs."""
    port = settings.port if "port" in settings.model_fields_set and settings.port else free
    require_free(port, "the API of all jobs (CUTWATER_PORT)")
    url = f"http://{settings.host}:{port}"
    env = {
        "CUTWATER_DATA_DIR": str(data_dir),
        "CUTWATER_PORT": str(port),
        "CUTWATER_API_TOKEN": settings.api_token.get_secret_value(),
        "CUTWATER_TOKENS": settings.tokens.get_secret_value(),
    }
    child = Child(
        "api",
        [sys.executable, "-m", "cutwater.local.jobs.api_router"],
        env,
        data_dir / "logs" / "api.log",
        RestartPolicy(restarts_max=10, window_seconds=300.0),
        before_start=lambda: running_file.write_api(data_dir, url),
    )
    return Supervised(child, lambda: api_answers(url), essential=False)


def run_jobs(stack: JobsStack, stop: threading.Event, report: Callable[[list[RunningStack]], None]) -> None:
    """Run several jobs until `stop` is set; `report` is called once every process of all answers."""
    with stack.start(stop) as found:
        if found:
            report(found)
            first = stack.stacks[0]  # all have the same archives
            with archives_written(first.archives, spark_environment(first.java), stack.data_dir / "logs"):
                stack.run(stop)


def _settings_of(one: JobFolder, settings: Settings, data_dir: Path, ports: Iterator[int]) -> Mapping[str, object]:
    """Return the settings of one job that differ from those of all: each has its own ports and checkpoint."""
    own: dict[str, object] = {name: next(ports) for name in _PORTS}
    own |= {name: next(ports) for name in _METRICS_PORTS if getattr(settings, name)}
    if settings.checkpoint and one.folder != data_dir:
        own["checkpoint"] = f"{settings.checkpoint.rstrip('/')}/{one.job.name}"
    return own


def _prefixed(report: Report, job: str) -> Report:
    return lambda line: report(f"{job}: {line}")


def _unmarked(stack: Stack) -> Callable[[object, BaseException | None, object], None]:
    """Return what notes the end of a stack that was never started: its file must not stay."""

    def end(_kind: object, error: BaseException | None, _trace: object) -> None:
        if found := running_file.find_at(stack.data_dir):
            found.mark_ended(error if isinstance(error, CutwaterError) else None, now_ms())

    return end

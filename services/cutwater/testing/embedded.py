"""A job's processes and a Kafka broker on this machine, without Docker."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cutwater.local.stack.background_stack import Background
from cutwater.local.stack.stack import Stack
from cutwater.local.stack.stack_lifecycle import start_stack
from cutwater.testing.deployment import Deployment
from cutwater.testing.process_settings import settings_and_environment


@contextmanager
def embedded(
    job_file: Path | str, *, folder: Path | str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Deployment]:
    """Run all services of a job, as `cutwater up` starts them, until the end of the block.

    `folder`: the folder of state and logs; by default one that is deleted at the end. `settings`: environment
    variables (docs/SETTINGS.md) for every process.
    Raises UsageError for a wrong job file or setting; MachineError if Java, jars or ports are not available; at
    the end of the block, the error that ended a process for good.
    """
    own, env = settings_and_environment(settings)
    with tempfile.TemporaryDirectory(prefix="cutwater-") as temporary:
        place = Path(folder or temporary)
        # Never the checkpoint of the environment, which may belong to a production job.
        env["CUTWATER_CHECKPOINT"] = str(place.resolve() / "checkpoint")
        own = own.model_copy(update={"data_dir": place, "port": 0, "checkpoint": env["CUTWATER_CHECKPOINT"]})
        stack = Stack(Path(job_file), own, lambda _line: None, env)
        with start_stack(stack, threading.Event()), Background(stack) as background:
            yield Deployment(
                stack.job,
                stack.cluster,
                stack.api_url,
                lambda: f"logs in {place / 'logs'}",
                stack.api_headers,
                background.raise_error,
            )
            background.raise_error()

"""A job's processes and a Kafka broker of its own on this machine: no Docker."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cutwater.local.background_stack import Background
from cutwater.local.stack import Stack, started
from cutwater.testing.deployment import Deployment
from cutwater.testing.process_settings import told


@contextmanager
def embedded(
    job_file: Path | str, *, folder: Path | str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Deployment]:
    """Everything of a job, as `cutwater up` starts it; all of it has ended when the block is left.

    folder: of its state and logs, by default one that is deleted at the end. settings: environment variables
    (docs/SETTINGS.md) of every process of Cutwater's.
    Raises UsageError for a job file or settings with mistakes, MachineError where Java, jars or ports cannot be
    had, and at the end of the block what ended a part of it for good, if anything did.
    """
    own, env = told(settings)
    with tempfile.TemporaryDirectory(prefix="cutwater-") as temporary:
        place = Path(folder or temporary)
        # Never the one that the environment names: it may be a job's in earnest.
        env["CUTWATER_CHECKPOINT"] = str(place.resolve() / "checkpoint")
        own = own.model_copy(update={"data_dir": place, "port": 0, "checkpoint": env["CUTWATER_CHECKPOINT"]})
        stack = Stack(Path(job_file), own, lambda _line: None, env)
        with started(stack, threading.Event()), Background(stack) as background:
            yield Deployment(
                stack.job,
                stack.cluster,
                stack.api_url,
                lambda: f"logs in {place / 'logs'}",
                stack.api_headers,
                background.raise_error,
            )
            background.raise_error()

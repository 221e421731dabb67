"""Frame of a service's process: settings, log, job file, signals, and exit codes."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from cutwater.adapters.config.settings import Settings, load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.startup_wait import await_brokers
from cutwater.adapters.runtime.clock import now_ms, require_steady_clock
from cutwater.adapters.runtime.log_setup import configure
from cutwater.adapters.topics.alerts import alert_on_error
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.core.errors import CutwaterError, UnexpectedError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.util.printable_text import printable, printable_lines

_NOT_OTHERS = 0o007


class Service(Protocol):
    """A service that runs until it is stopped."""

    def run(self) -> None:
        """Run until stopped. Raises CutwaterError to end the process."""

    def stop(self, *_signal: object) -> None:
        """End `run` soon. Called from a signal handler."""


WorkingFor = Callable[[Job, Settings, Any], tuple[Job, Settings]]
"""Returns the job and settings of the generation to work for: see `topics.generation_jobs.working_for`."""
Build = Callable[[Job, Settings, Any], Service]
"""Creates the service from job, settings and log."""


def listen(service: Service) -> None:
    """Stop the service on SIGTERM and Ctrl-C. Main thread only."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, service.stop)


def promoted_job(job: Job, settings: Settings, log: Any) -> tuple[Job, Settings]:
    """Call `working_for` once the brokers answer. Raises UnavailableError after `wait_ms`."""
    await_brokers(settings.cluster, settings.wait_ms / 1000, log)
    return working_for(job, settings)


def interrupt_on_signals() -> None:
    """End a command on SIGTERM and SIGHUP as on Ctrl-C, so that it removes its folders. Main thread only."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def keep_private() -> None:
    """Deny other users access to files that this process writes, since they hold rows, logs and offsets."""
    os.umask(os.umask(_NOT_OTHERS) | _NOT_OTHERS)


def run_service(
    name: str,
    build: Build,
    found: WorkingFor = promoted_job,
    foreseen: tuple[type[Exception], ...] = (),
) -> int:
    """Build a service for the job file on the command line and run it until SIGTERM or Ctrl-C. Returns the exit
    code. An error is one line on standard error or in the JSON log; unexpected exceptions have a traceback.
    `foreseen`: exceptions that are raised, since the caller reports them."""
    told: Any = None
    keep_private()
    try:
        if len(sys.argv) != 2:
            raise UsageError("give exactly one argument: the job file")
        settings = load_settings()
        log = configure(name, settings.log_json)
        told = log if settings.log_json else None
        require_steady_clock(settings.bootstrap_servers)
        job = load_job(Path(sys.argv[1]))
        with alert_on_error(settings.cluster, job.name, settings.generation, name, now_ms, log):
            service = build(*found(job, settings, log), log)
            listen(service)
            service.run()
    except CutwaterError as error:
        if told is None:
            print(f"cutwater {name}: {printable_lines(str(error))}", file=sys.stderr)
        else:
            told.error("ended", error=str(error), exit_code=error.exit_code)
        return error.exit_code
    except foreseen:
        raise
    except Exception as error:
        code = UnexpectedError.exit_code
        if told is None:
            traceback.print_exc()
            print(f"cutwater {name}: unexpected: {printable(repr(error))}", file=sys.stderr)
        else:
            told.error("ended", error=repr(error), exit_code=code, traceback=traceback.format_exc())
        return code
    return 0

"""The console beside a stack: one process for all of its jobs, which nothing waits for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from cutwater.adapters.config.settings import Settings
from cutwater.local import running_file
from cutwater.local.machine.ports import free_ports, is_free, require_free
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.processes.supervisor import Supervised

NAME = "console"
PORT = 8330
"""The port that is taken if it is free, so that an address in a browser stays the same."""
NICENESS = 5


class ConsoleProcess(NamedTuple):
    """The process, which is not started yet, and its log."""

    log: Path
    member: Supervised


def console_process(settings: Settings, data_dir: Path) -> ConsoleProcess:
    """Return the console of the stack on a data folder. Raises MachineError if the port of the settings is in use.

    Its permanent end does not end the stack. Its memory is bounded by what it keeps (docs/CONSOLE.md).
    """
    port = _port(settings)
    url = f"http://{settings.host}:{port}/"
    log = data_dir / "logs" / f"{NAME}.log"
    words = [NAME, "--host", settings.host, "--port", str(port), "--data-dir", str(data_dir)]
    env = {
        "CUTWATER_API_TOKEN": settings.api_token.get_secret_value(),
        "CUTWATER_TOKENS": settings.tokens.get_secret_value(),
    }
    child = Child(
        NAME,
        [sys.executable, "-m", "cutwater.cli.main", *words],
        env,
        log,
        RestartPolicy(restarts_max=10, window_seconds=300.0),
        before_start=lambda: running_file.write_console(data_dir, url),
        niceness=NICENESS,
    )
    return ConsoleProcess(log, Supervised(child, essential=False))


def _port(settings: Settings) -> int:
    if settings.console_port:
        require_free(settings.console_port, "the console (CUTWATER_CONSOLE_PORT)")
        return settings.console_port
    return PORT if is_free(PORT) else free_ports(1)[0]

"""What a stack's file tells about its processes: kept up to date as long as they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from cutwater.adapters.runtime.clock import now_ms
from cutwater.local import running_file
from cutwater.local.processes.restart_policy import Failure, failed
from cutwater.local.running_file import RunningStack


class StackRecord:
    """Logs, addresses and failures by process."""

    def __init__(
        self, logs: Mapping[str, Path], describe: Callable[[], RunningStack], report: Callable[[str], None]
    ) -> None:
        """`describe`: the whole content of the file now. `report`: is told if the file cannot be written."""
        self.logs = dict(logs)
        self.metrics: dict[str, str] = {}
        self.spark_uis: dict[str, str] = {}
        """By generation: those that run beside the stack's first one."""
        self.failures: dict[str, Failure] = {}
        self._describe, self._report = describe, report

    def note_failure(self, name: str, exit_code: int, said: str) -> None:
        """Note the end of a process, with its last message."""
        self.failures[name] = failed(self.failures.get(name), exit_code, said, now_ms())
        self.update_file()

    def update_file(self) -> None:
        """Write the file again, once everything has answered."""
        described = self._describe()
        folder = Path(described.data_dir)
        if not running_file.find_at(folder):
            return
        try:
            replace(described, ready=True).write()
        except OSError as error:  # a full disk may be the reason of a failure, which must not end the others
            self._report(f"warning: {folder / running_file.FILE} is out of date: {error}")

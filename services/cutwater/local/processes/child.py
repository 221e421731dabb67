"""One child process with all its descendants: started, watched and ended together.

A child leads a session of its own. Its descendants (a Spark driver's JVM, Python workers in their own process
groups) stay in that session: the child has ended when the session has no living process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from cutwater.core.errors import MachineError
from cutwater.core.util.printable_text import printable
from cutwater.local.processes import orphan_guard
from cutwater.local.processes.restart_policy import RestartPolicy

KILL_WAIT_SECONDS = 10.0  # SIGKILL works at once, except on a process stuck in the kernel
POLL_SECONDS = 0.02
LOG_BYTES_MAX = 16 * 1024 * 1024
TAIL_BYTES_MAX = 16 * 1024
LINES_MAX = 1_000
WORDS_MAX = 500
REASON = "cutwater "
"""The prefix of the line in which a service logs why it ends; Spark may log more after it."""


class Child:
    """A supervised process. Not thread-safe: one supervisor owns it.

    `env`: additions to this process's environment. `log_path`: its output is appended there; a log above 16 MiB is
    moved to `<name>.1`, before a start and by `bound_log`. `before_start`: may raise to prevent a start that
    cannot succeed. `terminate_leader_only`: send SIGTERM to the process and not to its descendants, for a driver
    that needs its JVM to shut down. `niceness`: added to that of this process (0 to 19).
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        log_path: Path,
        restart: RestartPolicy,
        *,
        before_start: Callable[[], None] | None = None,
        terminate_leader_only: bool = False,
        niceness: int = 0,
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.env = dict(env)
        self.log_path = log_path
        self.restart = restart
        self._before_start = before_start
        self._terminate_leader_only = terminate_leader_only
        self._niceness = niceness
        self._process: subprocess.Popen[bytes] | None = None
        self._guard_pipe: int | None = None
        self._gone = True
        self._log_begins = 0
        """The log's size at the newest start: older lines are of earlier runs."""

    @property
    def pid(self) -> int | None:
        """The process id of the newest start, also its session's id; None before the first start."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the process, after killing what is left of an earlier start, which could still write. Raise
        MachineError if the log cannot be written, or an earlier process cannot be killed."""
        self.kill()
        try:
            if self._before_start:
                self._before_start()
        except OSError as error:
            raise MachineError(f"{self.name} cannot be started: {error}") from error
        reader, writer = os.pipe()
        try:
            with self._open_log() as log:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-I",
                        "-S",
                        orphan_guard.__file__,
                        str(reader),
                        str(self._niceness),
                        *self.argv,
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **self.env},
                    pass_fds=(reader,),
                    start_new_session=True,
                )
        except OSError as error:
            os.close(writer)
            raise MachineError(f"{self.name} cannot be started: {error} (log: {self.log_path})") from error
        finally:
            os.close(reader)
        self._guard_pipe, self._gone = writer, False

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs or before its start."""
        return self._process.poll() if self._process else None

    def pids(self) -> list[int]:
        """Return the living processes of this child: itself and its descendants."""
        # Once all have ended, the kernel may reuse the session's number: do not query it again.
        return orphan_guard.session_pids(self._process.pid) if self._process and not self._gone else []

    def stop(self, grace_seconds: float) -> int | None:
        """Send SIGTERM, wait at most `grace_seconds` for all processes to end, then kill. Return the exit code."""
        if not self._gone:
            self._terminate()
            self._wait_until_empty(grace_seconds)
            self.kill()
        return self.poll()

    def kill(self) -> None:
        """Send SIGKILL to this child's processes until none is left. Raise MachineError if one does not die."""
        if self._process is None or self._gone:
            return
        deadline = time.monotonic() + KILL_WAIT_SECONDS
        while self.poll() is None or self.pids():
            orphan_guard.kill_session(self._process.pid)
            if time.monotonic() > deadline:
                raise MachineError(
                    f"Processes {self.pids()} of {self.name} do not die on SIGKILL, so continuing is not safe: "
                    f"look for a hanging disk or mount (log: {self.log_path})"
                )
            time.sleep(POLL_SECONDS)
        self._gone = True
        self._release_guard()

    def bound_log(self) -> None:
        """While the process runs, move a log above 16 MiB to `<name>.1`, and truncate it. The process has the file
        open to append, so it is copied and truncated. Lines written between these two steps are lost."""
        with contextlib.suppress(OSError):  # the process itself reports a full disk
            if self.log_path.stat().st_size > LOG_BYTES_MAX:
                shutil.copyfile(self.log_path, self._older_log)
                os.truncate(self.log_path, 0)
                self._log_begins = 0

    @property
    def _older_log(self) -> Path:
        return self.log_path.with_name(self.log_path.name + ".1")

    def log_tail(self, lines: int = 15) -> list[str]:
        """Return the last lines logged since the newest start, for error messages."""
        try:
            with self.log_path.open("rb") as file:
                file.seek(max(self._log_begins, file.seek(0, os.SEEK_END) - TAIL_BYTES_MAX))
                return file.read().decode("utf-8", errors="replace").splitlines()[-lines:]
        except OSError:
            return []

    def last_words(self) -> str:
        """Return why the newest start ended, as logged, else its last log line: one line, escaped."""
        found = [line for line in self.log_tail(LINES_MAX) if line.strip()]
        return printable(_reason(found) or (found or [""])[-1])[:WORDS_MAX]

    def describe_end(self, lines: int = 15) -> str:
        """Return why it ended, as logged, with the log's path and last lines, for the end of an error message."""
        found = self.log_tail(LINES_MAX)
        said = f"{reason}\n" if (reason := _reason(found)) else ""
        tail = "\n".join(f"  | {line}" for line in found[-lines:]) or "  | (the log is empty)"
        return f"{said}Log of {self.name}: {self.log_path}\n{tail}"

    def _terminate(self) -> None:
        assert self._process is not None  # noqa: S101  (for the type checker; stop() has checked)
        if self._terminate_leader_only:
            self._process.send_signal(signal.SIGTERM)  # has no effect on a process that has been reaped
            return
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                continue

    def _wait_until_empty(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (self.poll() is None or self.pids()) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def _release_guard(self) -> None:
        if self._guard_pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # the watcher was killed
                os.write(self._guard_pipe, b".")
            os.close(self._guard_pipe)
            self._guard_pipe = None

    def _open_log(self) -> BinaryIO:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        if self.log_path.exists() and self.log_path.stat().st_size > LOG_BYTES_MAX:
            self.log_path.replace(self._older_log)
        self._log_begins = self.log_path.stat().st_size if self.log_path.exists() else 0
        return self.log_path.open("ab")


def _reason(lines: Sequence[str]) -> str:
    """Return the last line in which a service logs why it ends; empty if there is none."""
    return next((line for line in reversed(lines) if line.startswith(REASON)), "")

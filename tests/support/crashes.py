"""Processes that die at a named crash point, and a table of what came of it."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from support.harness import Flow, kill_session, wait_until


class Outcome(NamedTuple):
    """One line of the table."""

    service: str
    point: str
    outcome: str
    recovery_s: float


class Crashes:
    """Starts a flow's processes with a crash point, waits for their end, and notes how the recovery went."""

    def __init__(self, job: Flow) -> None:
        self._job = job
        self.outcomes: list[Outcome] = []

    def arm(self, module: str, point: str, times: int = 1, victim: str = "process", **env: str) -> Armed:
        """Start a service that will die when it comes to the point for the `times`-th time."""
        mark = self._job.folder / f"crashed-{module}-{point}-{victim}"
        names = {"POINT": f"{point}@{times}", "MARK": str(mark), "VICTIM": victim}
        process = self._job.start(
            module, **{f"CUTWATER_CRASH_{name}": value for name, value in names.items()}, **env
        )
        return Armed(process, mark, point, victim)

    def note(self, service: str, armed: Armed, outcome: str, recovered_s: float | None = None) -> None:
        """What came of it. The recovery counts from the end of the process up to `recovered_s`, by default now."""
        name = armed.point if armed.victim == "process" else f"{armed.point} ({armed.victim})"
        recovered_s = time.time() if recovered_s is None else recovered_s
        self.outcomes.append(Outcome(service, name, outcome, recovered_s - armed.ended_s))

    def table(self) -> str:
        """The outcomes as Markdown."""
        lines = ["| service | crash point | outcome | recovery, s |", "|---|---|---|---|"]
        lines += [
            f"| {one.service} | {one.point} | {one.outcome} | {one.recovery_s:.1f} |" for one in self.outcomes
        ]
        return "\n".join(lines)


class Armed:
    """A process that is about to die."""

    def __init__(self, process: subprocess.Popen[bytes], mark: Path, point: str, victim: str) -> None:
        self.process = process
        self.mark = mark
        self.point = point
        self.victim = victim
        self.ended_s = 0.0

    def wait(self) -> None:
        """Wait for its end; fails where it came to another end, or never to the point."""
        wait_until(lambda: self.mark.exists() or self.process.poll() is not None, f"{self.point} to be reached")
        assert self.mark.exists(), f"{self.point} was not reached; exit code {self.process.poll()}"
        code: Any = self.process.wait(60)
        died = code == -9 if self.victim != "jvm" else code != 0
        assert died, f"at {self.point} the {self.victim} was to die, and the process ended with exit code {code}"
        kill_session(self.process.pid)
        self.ended_s = time.time()

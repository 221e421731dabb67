"""A running `cutwater demo`, for tests that do something to one of its processes in the middle of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import CutwaterError
from cutwater.local import running_file
from support.harness import descendants, wait_until

ROOT = Path(__file__).parents[2]
DAYS = 14
EVENTS = 24_416
PATIENCE_S = 420
EXACT = "0 missing, 0 unexpected, 0 different"


STARTED: list[Demo] = []
"""A test that fails in the middle must not leave a stack to the next one (tests/integration/conftest.py)."""


class Demo:
    """A running `cutwater demo`."""

    def __init__(self, folder: Path, days: int) -> None:
        self.data_dir = folder / "demo"
        self.output = folder / "output.txt"
        STARTED.append(self)
        arguments = ["demo", "--days", str(days), "--data-dir", str(self.data_dir)]
        with self.output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cutwater.cli.main", *arguments],
                cwd=ROOT,
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "COLUMNS": "160"},
            )

    def text(self) -> str:
        """The output with its line breaks folded: a terminal's width is not what is tested."""
        return " ".join(self.output.read_text(encoding="utf-8").split())

    def committed(self) -> int:
        """How many events the newest milestone holds; 0 while nothing answers."""
        stack = running_file.find(self.data_dir)
        try:
            found = commit_stream.milestones(stack.cluster, stack.job, limit=1) if stack else []
        except CutwaterError:
            return 0
        return found[-1][0].source_cut.records if found else 0

    def pids(self, victim: str) -> list[int]:
        """The processes of a member of the stack: by module, by class, or a driver's JVM."""
        marks = {
            "commit-signal": "cutwater.commit_signal",
            "rehydrator": "cutwater.rehydrator",
            "publisher": "cutwater.publisher",
            "broker": "kafka.Kafka",
        }
        member, _, part = victim.partition("-") if victim.startswith("driver") else (victim, "", "")
        mark = marks.get(member, "cutwater_spark.driver")
        leaders = [
            one for one in descendants(self.process.pid, mark) if mark == "kafka.Kafka" or one.name() != "java"
        ]
        jvms = [child for one in leaders for child in one.children() if child.name() == "java"]
        chosen = {"jvm": jvms, "both": leaders + jvms}.get(part, leaders)
        return [one.pid for one in chosen]

    def finish(self) -> int:
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            if self.process.poll() is None:
                self.process.terminate()
                self.process.wait(60)

    def begun(self) -> int:
        """Wait for a first milestone; returns how many events it holds, which are not all."""
        reached = wait_until(lambda: self.committed() or self.process.poll() is not None, "a first milestone")
        assert self.process.poll() is None, self.text()
        assert 0 < reached < EVENTS, "what comes now must come in the middle"
        return int(reached)

    def end(self) -> None:
        """Whatever a test has left of it: its children end with it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

"""The demonstration through a running compose project."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compose import ROOT, Compose

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import CutwaterError
from cutwater.demo import flights
from support.harness import wait_until

EXACT = "0 missing, 0 unexpected, 0 different"
DEMO_S = 600


class Demo:
    """`cutwater demo --view …` on a running project."""

    def __init__(self, on: Compose, folder: Path, days: int, **env: str) -> None:
        self.events = len(flights.events(days))
        self.cluster = Cluster(on.bootstrap)
        self._output = folder / "demo.txt"
        views = [word for url in on.views for word in ("--view", url)]
        command = ["demo", "--days", str(days), "--data-dir", str(folder / "demo"), *views]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cutwater.cli.main", *command, "--bootstrap-servers", on.bootstrap],
                cwd=ROOT,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "COLUMNS": "160", **env},
            )

    @property
    def text(self) -> str:
        return " ".join(self._output.read_text(encoding="utf-8").split())

    def committed(self) -> int:
        """The events in the newest milestone; 0 while nothing answers."""
        try:
            found = commit_stream.milestones(self.cluster, "flights", limit=1)
        except CutwaterError:
            return 0
        return found[-1][0].source_cut.records if found else 0

    def go_on(self) -> None:
        """Wait for a milestone with more events than now; not yet all."""
        before = self.committed()
        wait_until(lambda: self.process.poll() is not None or self.committed() > before, "a milestone", DEMO_S)
        assert self.process.poll() is None, self.text
        assert self.committed() < self.events, "what comes now must come in the middle"

    def require_exact(self) -> None:
        """All views, the output and the milestones are what DuckDB says."""
        assert self.process.wait(DEMO_S) == 0, self.text
        assert self.text.count(EXACT) == 4  # both views, the output, whole milestones


@contextmanager
def demonstration(on: Compose, folder: Path, days: int, **env: str) -> Iterator[Demo]:
    """Started; whatever is left of it ends with the block. `env`: settings of its own."""
    demo = Demo(on, folder, days, **env)
    try:
        yield demo
    except BaseException:
        print(on("logs", "--no-color", "--timestamps", "--tail", "300"))  # pytest shows it beside the failure
        raise
    finally:
        demo.process.kill()
        demo.process.wait(30)

"""`cutwater` as a user runs it: a process of its own on one data folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.cli.jsonshapes import parsed

TIMEOUT_S = 300


class Cli:
    """Runs `cutwater`; `env` is added to the environment of every run."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder = folder
        self.env = {**os.environ, "CUTWATER_DATA_DIR": str(folder / "data"), "COLUMNS": "250", **env}

    @property
    def job_file(self) -> str:
        return str(self.folder / "job.yaml")

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cutwater.cli.main", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, env={**self.env, **env}, check=False
        )

    def json(self, *arguments: str) -> Any:
        """What a verb prints with --json; it must succeed, and be of the declared shape."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return parsed([*arguments], done.stdout)

"""The verbs of the command line, as an operator runs them, against the demonstration's stack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

from cutwater.core.errors import UnavailableError

LIMIT_S = 600.0
"""The time after which a verb counts as stuck."""
LOOK_S = 0.2


class VerbInterrupted(Exception):
    """Raised after Ctrl-C or SIGTERM."""


class Verbs:
    def __init__(self, data_dir: Path, stop: threading.Event) -> None:
        self._data_dir, self._stop = data_dir, stop

    def run(self, *words: str, codes: Collection[int] = (0,)) -> Any:
        """Run `cutwater WORDS --json` and return what it prints.

        Raise UnavailableError, with the verb's own message, if its exit code is not one of `codes`;
        VerbInterrupted if the demonstration is interrupted.
        """
        argv = [sys.executable, "-m", "cutwater.cli.main", *words, "--data-dir", str(self._data_dir), "--json"]
        verb = f"cutwater {' '.join(words)}"
        with (
            (self._data_dir / "verb.json").open("w+", encoding="utf-8") as printed,
            (self._data_dir / "verb.txt").open("w+", encoding="utf-8") as errors,
            subprocess.Popen(argv, stdout=printed, stderr=errors, env=dict(os.environ)) as process,
        ):
            code = self._wait(process, verb)
            printed.seek(0)
            errors.seek(0)
            if code not in codes:
                last = (errors.read().strip() or printed.read().strip()).splitlines()[-1:]
                raise UnavailableError(f"{verb} ended with exit code {code}: {' '.join(last)}")
            text = printed.read()
        return json.loads(text) if text.strip() else None

    def _wait(self, process: subprocess.Popen[bytes], verb: str) -> int:
        for _ in range(int(LIMIT_S / LOOK_S)):
            if self._stop.is_set():
                process.terminate()
                process.wait()
                raise VerbInterrupted
            try:
                return process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                continue
        process.kill()
        raise UnavailableError(f"{verb} has not ended within {LIMIT_S:.0f} s")

"""A CLI command that runs in the background while its owner does other work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cutwater.core.errors import UnavailableError

ERROR_CHARS_MAX = 2_000
KILL_S = 10.0


class Verb:
    """One running command with JSON output. Its messages go to its log."""

    def __init__(self, process: subprocess.Popen[bytes], words: Sequence[str], said: Path, log: Path) -> None:
        self._process = process
        self._words = words
        self._said, self._log = said, log

    def answer(self) -> dict[str, Any] | None:
        """Return its JSON answer; None while it runs. Raise UnavailableError, with its messages, if it failed."""
        code = self._process.poll()
        if code is None:
            return None
        if code:
            raise UnavailableError(
                f"'cutwater {' '.join(self._words)}' ended with exit code {code}: "
                f"{self._log.read_text(encoding='utf-8', errors='replace').strip()[-ERROR_CHARS_MAX:]}"
            )
        told: dict[str, Any] = json.loads(self._said.read_text(encoding="utf-8"))
        return told

    def is_running(self) -> bool:
        return self.answer() is None


@contextmanager
def start_command(words: Sequence[str], env: Mapping[str, str], logs: Path) -> Iterator[Verb]:
    """Start a command with additions to this process's environment. At the block's end, kill it if it still runs.
    After a kill the same command may be started again: commands are idempotent."""
    logs.mkdir(parents=True, exist_ok=True)
    said, log = logs / f"{words[0]}.json", logs / f"{words[0]}.log"
    with said.open("wb") as out, log.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "cutwater.cli.main", *words, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **env},
        )
    try:
        yield Verb(process, words, said, log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(KILL_S)

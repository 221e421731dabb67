"""`cutwater` as a user runs it: a process of its own on one data folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from cutwater.local import running_file
from support.cli.jsonshapes import parsed
from support.events import counting

TIMEOUT_S = 300


class Cli:
    """Runs `cutwater`; `env` is added to the environment of every run."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder = folder
        self.env = {**os.environ, "CUTWATER_DATA_DIR": str(folder / "data"), "COLUMNS": "250", **env}
        self._events_by_token: dict[str, int] = {}

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

    def produce(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Produce events with a field `at` in ms since 1970; each must be delivered."""
        lines = ({**one, "at": datetime.fromtimestamp(one["at"] / 1000, UTC).isoformat()} for one in events)
        file = self.folder / "events.jsonl"
        file.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
        assert self.json("produce", str(file))["delivered"] == len(events)

    def events_shown(self) -> int:
        """How many events the view's newest milestone holds; 0 while it shows none, or an older one.

        `status` is asked once for each milestone that the view comes to: for who waits, a verb at each look would
        take the machine from what it waits for.
        """
        stack = running_file.find(self.folder / "data")
        try:
            answer = httpx.get(f"{stack.api_url}/v1/milestone", timeout=5.0) if stack else None
        except httpx.HTTPError:
            return 0
        token = answer.json().get("token") if answer is not None else None
        if token is not None and token not in self._events_by_token:
            newest = self.json("status")["milestone"]
            self._events_by_token[token] = sum(newest["source_cut"].values()) if newest["token"] == token else 0
        return self._events_by_token.get(token, 0)


@contextmanager
def running_stack(
    folder: Path, text: str, *options: str, schema: str = counting.SCHEMA, **env: str
) -> Iterator[Cli]:
    """A stack of a job file, until the block ends. `options`: of `up`. `env`: as of `Cli`."""
    (folder / "job.yaml").write_text(text)
    (folder / "event.avsc").write_text(schema)
    made = Cli(folder, **env)
    done = made.run("up", made.job_file, "--detach", *options)
    assert done.returncode == 0, done.stderr
    try:
        yield made
    finally:
        made.run("down")

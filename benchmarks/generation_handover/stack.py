"""A stack of `cutwater up` with a large state, and what is done to it as its operator would do it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.failover import EVENT, JOB, SPREAD_MS, START_MS, events
from benchmarks.generation_handover.readers import Load, OfTheApi, OfTheOutput, Running
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.topics import commit_stream
from cutwater.adapters.topics.candidates import promoted
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.local import running_file

PATIENCE_S, POLL_S = 900.0, 0.1
T = TypeVar("T")


class Stack:
    """Of one job with one row a key. `end` it."""

    def __init__(self, folder: Path, keys: int, partitions: int) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._keys = keys
        self._job_file, self._data_dir = folder.resolve() / "job.yaml", folder.resolve() / "data"
        self._job_file.write_text(JOB.replace("\npartitions: 2", f"\npartitions: {partitions}"), encoding="utf-8")
        (folder / "event.avsc").write_text(json.dumps(EVENT), encoding="utf-8")
        self.job = load_job(self._job_file)
        self._at_work: list[Running] = []

    def begin(self) -> Milestone:
        """It runs, and each key's event is in a milestone that is published."""
        self._run("up", str(self._job_file), "--detach")
        self._found = running_file.require(self._data_dir)
        self.cluster = self._found.cluster
        EventWriter(self.cluster, self.job).write_all(events(self._keys))
        return self.wait(self.drained, "the milestone of all events, on the output")

    def put_to_work(self, rate: int, last: Milestone) -> tuple[OfTheApi, OfTheOutput, Load]:
        """Readers, and events that come. They end with the stack, if not before."""
        api = OfTheApi(
            f"{self._found.api_url}/v1/state/{later(0, self._keys)['key']}", load_settings().api_headers
        )
        output = OfTheOutput(self.job, self.cluster, last.token)
        load = Load(EventWriter(self.cluster, self.job), rate, lambda number: later(number, self._keys))
        for one in (api, output, load):
            one.start()
            self._at_work.append(one)
        return api, output, load

    def drained(self) -> Milestone | None:
        """The newest milestone, once it holds all events and the output holds it."""
        last = promoted(self.cluster, self.job.name)
        if last is None or not last.source_cut.covers(commit_stream.source_end(self.cluster, self.job.topic)):
            return None
        return last if commit_stream.published(self.cluster, self.job.name) == last.token else None

    def verb(self, *words: str) -> Any:
        """What a verb tells as JSON. Raises UnavailableError with its last line where it fails."""
        return json.loads(self._run(*words, "--json"))

    def milestones(self) -> list[Milestone]:
        return [one for one, _ in commit_stream.milestones(self.cluster, self.job.name)]

    def logged_ms(self, service: str, words: str, generation: Generation) -> float | None:
        """When a service first said that of a generation in its log; None where it has not."""
        file = self._data_dir / "logs" / f"{service}.log"
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        said = next((one for one in lines if f"] {words} " in one and str(generation) in one), None)
        return None if said is None else datetime.fromisoformat(said.split(maxsplit=1)[0]).timestamp() * 1000

    def wait(self, asked: Callable[[], T | None], what: str) -> T:
        until = time.monotonic() + PATIENCE_S
        while not (found := asked()):
            self.look()
            if time.monotonic() > until:
                raise UnavailableError(f"{what}: not within {PATIENCE_S:.0f} s; logs in {self._data_dir / 'logs'}")
            time.sleep(POLL_S)
        return found

    def let_time_pass(self, seconds: float) -> None:
        """Let time pass."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(POLL_S)

    def look(self) -> None:
        """Raise UnavailableError where it has ended, or who reads or writes."""
        if not self._found.alive:
            raise UnavailableError(f"the stack has ended by itself; logs in {self._data_dir / 'logs'}")
        for one in self._at_work:
            one.check()

    def end(self) -> None:
        for one in self._at_work:
            one.stop()
        if running_file.find(self._data_dir):
            self._run("down")

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cutwater.cli.main", *words],
            env={**os.environ, "CUTWATER_DATA_DIR": str(self._data_dir)},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        if done.returncode:
            raise UnavailableError(f"cutwater {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout


def later(number: int, keys: int) -> Mapping[str, Any]:
    """The events that come while the readers read: of one key after the other, each a millisecond newer."""
    return {
        "key": f"key-{number * 7_919 % keys:08d}",
        "at": START_MS + SPREAD_MS + number,
        "value": number % 1_000,
    }

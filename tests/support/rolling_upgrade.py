"""A job whose processes are of two releases: each is replaced while events flow."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import httpx

from cutwater.adapters.http.client_options import no_authorities
from cutwater.client import committed
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import TOMBSTONE
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.records import Milestone
from cutwater.local.machine.ports import free_ports
from support.events import counting
from support.harness import Flow, kill_session
from support.releases import Release, installed
from support.waits import PATIENCE_S, wait_until

MODULES = {
    "driver": "cutwater_spark.driver",
    "signal": "cutwater.commit_signal",
    "publisher": "cutwater.publisher",
    "rehydrator": "cutwater.rehydrator",
}
KEYS, ASKED_MAX = 30, 20
BATCH, PAUSE_S = 20, 0.2
"""Of the load: so many events, and so long between two batches."""
ORACLE = """
SELECT key, at_ms - at_ms % 60000 AS start, count(*) AS ticks, sum(value) AS total FROM events GROUP BY ALL
"""
Rows = dict[tuple[str, int], dict[str, Any]]


class Load(threading.Thread):
    """Writes events steadily until it is stopped."""

    def __init__(self, flow: Flow) -> None:
        super().__init__(daemon=True)
        self._flow, self._ended = flow, threading.Event()
        self._random = random.Random(40)
        self.written: list[dict[str, Any]] = []

    def run(self) -> None:
        while not self._ended.wait(PAUSE_S):
            made = [self._event() for _ in range(BATCH)]
            self._flow.produce(made)
            self.written += made

    def _event(self) -> dict[str, Any]:
        at_ms = counting.START_MS + len(self.written) * 40 + self._random.randrange(30_000)
        return {"key": f"k{self._random.randrange(KEYS)}", "at": at_ms, "value": self._random.randrange(-999, 999)}

    def stop(self) -> None:
        self._ended.set()
        self.join(60)

    def state(self) -> Rows:
        """What the events say, by DuckDB."""
        with duckdb.connect() as oracle:
            oracle.execute("CREATE TABLE events (key TEXT, at_ms BIGINT, value BIGINT)")
            oracle.executemany("INSERT INTO events VALUES ($key, $at, $value)", self.written)
            found = oracle.execute(ORACLE).fetchall()
        return {(key, start): {"ticks": ticks, "total": int(total)} for key, start, ticks, total in found}


class Rolling:
    """The processes of one job; each part has one, of either release."""

    def __init__(self, flow: Flow, before: Release) -> None:
        self.flow, self._before = flow, before
        self._live: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = {"rehydrator": free_ports(1)[0]}
        self._snapshots = flow.folder / "snapshots"
        self.logs: list[Path] = []
        self._token: Token | None = None
        """The newest milestone on the output, as far as it was read."""

    def start(self, part: str, old: bool, folder: str = "") -> None:
        """`folder`: of the rehydrator's view; that of the one before it by default."""
        module, release = MODULES[part], "old" if old else "new"
        name = f"{part}-{release}-{len(self.logs)}"
        env = {"CUTWATER_DATA_DIR": str(self.flow.folder / (folder or part))}
        if old:
            env["PYTHONPATH"] = str(installed(self._before))
        if part == "rehydrator":
            env |= {
                "CUTWATER_PORT": str(self._ports[part]),
                "CUTWATER_SNAPSHOTS": str(self._snapshots),
                "CUTWATER_SNAPSHOT_EVERY_MS": "2000",
            }
        self.logs.append(self.flow.log(name))
        command = [sys.executable, "-m", module, str(self.flow.job_file)]
        self._live[part] = self.flow.start_command(name, command, **env)

    def stop(self, part: str) -> None:
        """As an operator's upgrade does it: a signal, and the process ends by itself."""
        process = self._live.pop(part)
        process.terminate()
        code = process.wait(120)
        kill_session(process.pid)
        assert code == 0, f"the {part} ended with {code}; logs in {self.flow.folder}"

    def ended(self, part: str) -> int:
        """The exit code of a process that ends by itself."""
        return self._live.pop(part).wait(PATIENCE_S)

    def replace(self, part: str, old: bool, folder: str = "") -> None:
        self.stop(part)
        self.start(part, old, folder)

    def require_alive(self) -> None:
        ended = {part: one.poll() for part, one in self._live.items() if one.poll() is not None}
        assert not ended, f"ended: {ended}; logs in {self.flow.folder}"

    # --- what readers see

    def shown(self) -> int:
        """The sequence that the rehydrator shows; 0 while it does not answer."""
        try:
            found = self._get("/v1/milestone")
        except httpx.HTTPError:
            return 0
        return int(found.json()["sequence"]) if found.is_success else 0

    def _get(self, path: str) -> httpx.Response:
        url = f"http://127.0.0.1:{self._ports['rehydrator']}{path}"
        return httpx.get(url, timeout=40, verify=no_authorities())

    def served(self) -> Rows:
        """Every window of every key, as the API has it."""
        found: Rows = {}
        for number in range(KEYS):
            for row in self._get(f"/v1/state/k{number}").json()["rows"]:
                start = round(datetime.fromisoformat(row["window_start"]).timestamp() * 1000)
                found[row["key"], start] = {"ticks": row["ticks"], "total": row["total"]}
        return found

    def published(self, last: Milestone) -> tuple[Rows, list[int]]:
        """The output as `committed()` gives it, and the sequences that it came in."""
        state, sequences = {}, []
        for one in committed(self.flow.job_file, self.flow.cluster, idle_s=60):
            sequences += range(one.first_sequence, one.token.sequence + 1)
            for change in one.changes:
                assert change.kind != TOMBSTONE
                state[change.key, change.window_start_ms] = dict(change.values)
            if one.token.sequence >= last.sequence:
                break
        return state, sequences

    def wait_flows(self, what: str) -> None:
        """Until two more milestones are written, and readers have come to them."""
        begun = self._newest()

        def flows() -> bool:
            self.require_alive()
            return min(self._newest(), self.shown(), self._published()) >= begun + 2

        wait_until(
            flows, lambda: f"{what}: {begun}, {self._newest()}, {self.shown()}; {self.flow.folder}", pause_s=0.5
        )

    def wait_shown(self, last: Milestone) -> None:
        wait_until(lambda: self.shown() >= last.sequence, f"{last.token} is served; {self.flow.folder}")

    def errors(self) -> list[str]:
        """Lines of the logs at level error, or of a traceback."""
        found = []
        for log in self.logs:
            for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
                if "[error" in line or '"level": "error"' in line or line.startswith("Traceback"):
                    found.append(f"{log.name}: {line}")
        return found

    def _newest(self) -> int:
        found = _patiently(self.flow.milestones)
        return found[-1][0].sequence if found else 0

    def _published(self) -> int:
        with suppress(UnavailableError):
            for one in committed(self.flow.job_file, self.flow.cluster, after=self._token, idle_s=1):
                self._token = one.token
        return self._token.sequence if self._token else 0


def _patiently(ask: Callable[[], Any]) -> Any:
    """The answer of brokers that a busy machine starves."""
    for _ in range(ASKED_MAX):
        with suppress(UnavailableError):
            return ask()
    return ask()


@contextmanager
def under_load(flow: Flow) -> Iterator[Load]:
    load = Load(flow)
    load.start()
    try:
        yield load
    finally:
        load.stop()

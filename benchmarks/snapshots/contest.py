"""One run: a view follows a steady job, catches up, loses its disk twice, and is looked through."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
import psutil

from benchmarks.harness.measurement import Sampler, cpu_between
from benchmarks.latency.readers import Visible
from benchmarks.reading.tail import Tail
from benchmarks.rehydrate.contest import Contents
from benchmarks.rehydrate.log import GENERATION, Log
from benchmarks.rehydrate.view import contents_at
from benchmarks.snapshots.rehydrator import ASYNCHRONOUS, SYNCHRONOUS
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.records import Milestone
from cutwater.local.machine.ports import free_ports
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy

PATIENCE_S, STOP_S, POLL_S = 180.0, 30.0, 0.02
EPOCH_S = 0.2
NEVER_MS = 86_400_000
CATCH_UP_EPOCHS, CATCH_UP_ROWS = 20, 20_000
"""What comes while the view's process is suspended."""
_VALUE = re.compile(r"^cutwater_view_(\w+) (\S+)$", re.MULTILINE)


class Way(NamedTuple):
    """When snapshots are taken, and whether applying waits for them."""

    how: str
    eager: bool


NONE = "no-snapshots"
WAYS = {
    "asynchronous-eager": Way(ASYNCHRONOUS, True),
    "synchronous-eager": Way(SYNCHRONOUS, True),
    "asynchronous-lazy": Way(ASYNCHRONOUS, False),
    "synchronous-lazy": Way(SYNCHRONOUS, False),
}
CONTENDERS = (*WAYS, NONE)


@dataclass(frozen=True)
class Stage:
    """What all runs share."""

    cluster: Cluster
    folder: Path
    log: Log
    rows_per_s: int
    seconds: int
    every_s: int
    """From one eager snapshot to the next."""
    recovery_s: int
    """A lazy one is taken before a restore would take longer than this."""
    mb_per_s: int
    """Of the store."""


@dataclass(frozen=True)
class SnapshotRun:
    """What a run gave. `delays`: from a milestone's commit until the view shows it, ms."""

    contender: str
    pair: int
    delays: dict[str, dict[str, float]]
    milestones: int
    apply_rows_per_s: float
    """While rows are applied, at the steady rate."""
    catch_up_rows_per_s: float
    """From the backlog's first row until the view shows its last, with all that happens meanwhile."""
    snapshots: int
    uploaded_mb: float
    cpu_s: float
    """Of the view's process in the steady part."""
    killed_restore_s: float
    """From the start of a process without a disk until it shows the newest milestone, behind a kill -9."""
    stopped_restore_s: float
    """The same behind a snapshot that was asked for at the end; 0 without snapshots."""
    exact: bool
    fault: str | None = None


class SnapshotContest:
    """`run` once."""

    def __init__(self, stage: Stage, contender: str, pair: int) -> None:
        self._stage, self._contender, self._pair = stage, contender, pair
        self._way = WAYS.get(contender)
        self._folder = stage.folder / f"{contender}-{pair}"
        self._folder.mkdir(parents=True)
        self._port = free_ports(1)[0]
        self._url = f"http://127.0.0.1:{self._port}"

    def run(self) -> SnapshotRun:
        """Raises UnavailableError with the end of a log when it does not get there."""
        child = self._child("first")
        with Sampler(child.pids) as sampler:
            child.start()
            try:
                self._shown(child)
                if self._way is not None:
                    self._uploaded(child, 1)
                first, sequence, began_s = self._metrics(), self._stage.log.milestones, time.time()
                seen = self._steady(child)
                steady, cpu_s = self._metrics(), cpu_between(sampler.samples, began_s, time.time())
                milestones = self._stage.log.since(sequence)
                catch_up = self._catch_up(child)
                last = self._metrics()
            finally:
                child.kill()
        killed_s, stopped_s = self._restores()
        fault = self._fault()
        applied = steady["records_applied_total"] - first["records_applied_total"]
        return SnapshotRun(
            self._contender,
            self._pair,
            {"view": delays_ms(milestones, seen)},
            len(milestones),
            applied / (steady["apply_seconds_sum"] - first["apply_seconds_sum"]),
            catch_up,
            int(last.get("snapshots_uploaded_total", 0)),
            last.get("snapshot_uploaded_bytes_total", 0) / 1e6,
            cpu_s,
            killed_s,
            stopped_s,
            fault is None,
            fault,
        )

    def _child(self, disk: str) -> Child:
        stage, way = self._stage, self._way
        env = {
            "CUTWATER_BOOTSTRAP_SERVERS": stage.cluster.bootstrap,
            "CUTWATER_DATA_DIR": str(self._folder / disk),
            "CUTWATER_REGION": GENERATION.region,
            "CUTWATER_PORT": str(self._port),
            "CUTWATER_SNAPSHOTS": str(self._folder / "store") if way else "",
            "CUTWATER_SNAPSHOT_EVERY_MS": str(stage.every_s * 1000 if way and way.eager else NEVER_MS),
        }
        how = way.how if way else ASYNCHRONOUS
        program = ["benchmarks.snapshots.rehydrator", how, str(stage.mb_per_s)]
        argv = [sys.executable, "-m", *program, str(self._job_file())]
        log = self._folder / f"{disk}.log"
        return Child(disk, argv, env, log, RestartPolicy(), terminate_leader_only=True)

    def _job_file(self) -> Path:
        """The log's own, or a copy with an objective, by which the cadence controller decides."""
        own = self._stage.log.job_file
        if self._way is None or self._way.eager:
            return own
        lazy = own.with_name("lazy.yaml")
        objective = f"objectives: {{recovery: {self._stage.recovery_s}s}}\n"
        lazy.write_text(own.read_text(encoding="utf-8") + objective, encoding="utf-8")
        return lazy

    def _steady(self, child: Child) -> list[tuple[int, int]]:
        """The job goes on; returns when the view showed which sequence."""
        stage = self._stage
        visible = Visible(self._url, GENERATION)
        with visible:
            with Tail(stage.log, stage.rows_per_s, EPOCH_S).running():
                time.sleep(stage.seconds)
            self._shown(child)
            self._wait(lambda: bool(visible.seen) and visible.seen[-1][1] >= stage.log.last.sequence, child)
            return visible.seen

    def _catch_up(self, child: Child) -> float:
        """Rows per second of a backlog."""
        processes = [psutil.Process(pid) for pid in child.pids()]
        for one in processes:
            one.suspend()
        for _ in range(CATCH_UP_EPOCHS):
            self._stage.log.add_epoch(CATCH_UP_ROWS)
        for one in processes:
            one.resume()
        began_s = time.monotonic()
        self._shown(child)
        return CATCH_UP_EPOCHS * CATCH_UP_ROWS / (time.monotonic() - began_s)

    def _restores(self) -> tuple[float, float]:
        """Seconds of a restore behind a kill, and of one behind a snapshot at the end."""
        killed = self._child("killed")
        try:
            killed_s = self._restore(killed)
            if self._way is None:
                return killed_s, 0.0
            before = self._metrics().get("snapshots_uploaded_total", 0)
            answer = httpx.post(f"{self._url}/v1/snapshots", timeout=PATIENCE_S).raise_for_status()
            if answer.json()["sequence"] > self._metrics().get("snapshot_sequence", 0):
                self._uploaded(killed, int(before) + 1)
        finally:
            killed.kill()
        stopped = self._child("stopped")
        try:
            stopped_s = self._restore(stopped)
        finally:
            stopped.stop(STOP_S)
        return killed_s, stopped_s

    def _restore(self, child: Child) -> float:
        began_s = time.monotonic()
        child.start()
        self._shown(child)
        return time.monotonic() - began_s

    def _fault(self) -> str | None:
        """What the view holds that was restored last, beside what it should."""
        disk = "stopped" if self._way is not None else "killed"
        found, right = contents_at(self._stage.log, self._folder / disk), Contents(*self._stage.log.state())
        return None if found == right else f"the view holds {found}, and the log's state is {right}"

    def _shown(self, child: Child) -> None:
        """Wait until the newest milestone is shown."""
        wanted = self._stage.log.last.sequence

        def shown() -> bool:
            answer = httpx.get(f"{self._url}/v1/milestone", timeout=10)
            return answer.is_success and int(answer.json()["sequence"]) >= wanted

        self._wait(shown, child)

    def _uploaded(self, child: Child, snapshots: int) -> None:
        self._wait(lambda: self._metrics()["snapshots_uploaded_total"] >= snapshots, child)

    def _wait(self, done: Callable[[], bool], child: Child) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                if done():
                    return
            except httpx.TransportError:
                pass  # it does not listen yet
            if child.poll() is not None or time.monotonic() > deadline:
                raise UnavailableError(f"{self._contender} did not get there. {child.describe_end()}")
            time.sleep(POLL_S)

    def _metrics(self) -> dict[str, float]:
        """By the name behind `cutwater_view_`; those without labels."""
        text = httpx.get(f"{self._url}/metrics", timeout=30).raise_for_status().text
        return {name: float(value) for name, value in _VALUE.findall(text)}


def delays_ms(milestones: Sequence[Milestone], seen: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Percentiles over milestones. `seen`: (ns since 1970, the sequence shown), in order; each milestone is shown
    with the first sequence that is its own or a later one."""
    at_ns, sequences = np.array(seen, dtype=np.int64).reshape(-1, 2).T
    shown = np.searchsorted(sequences, [one.sequence for one in milestones])
    delays = at_ns[shown] / 1e6 - np.array([one.committed_ms for one in milestones])
    p50, p99, most = np.percentile(delays, (50, 99, 100))
    return {"p50": round(float(p50), 1), "p99": round(float(p99), 1), "max": round(float(most), 1)}

"""One run: a rehydrator from nothing to the newest milestone, its job going on, and the load."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.measurement import Sampler, cpu_between
from benchmarks.reading.tail import Tail
from benchmarks.rehydrate.log import GENERATION, Log
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.local.machine.ports import free_ports
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy

RESTORE_S_MAX = 300.0
LOAD_S_MAX = 120.0
"""Beyond the load's own seconds."""
STOP_S = 20.0


@dataclass(frozen=True)
class Stage:
    """What all runs share."""

    cluster: Cluster
    folder: Path
    log: Log
    tail: int
    """Rows per second."""
    seed: int

    def state(self, contender: str) -> Path:
        return self.folder / f"reads-{contender}" / "state"


@dataclass(frozen=True)
class ReadRun:
    """What a run gave. Times of due counts from when a request should have been sent."""

    contender: str
    rate: int
    requests: int
    waited_ms: dict[str, float]
    served_ms: dict[str, float]
    served_mean_us: float
    cpu_s: float
    """Of the rehydrator, warm-up included."""
    milestones: int
    """Different ones that the answers named."""
    exact: bool
    fault: str | None = None
    layers_us: dict[str, float] = field(default_factory=dict)


class Contest:
    """`contender`: plain, the process as shipped; timed, with clocks in it."""

    def __init__(self, stage: Stage, contender: str, rate: int, seconds: int, warm_s: int) -> None:
        self._stage, self._contender, self._rate = stage, contender, rate
        self._seconds, self._warm_s = seconds, warm_s
        self._folder = stage.folder / f"reads-{contender}"
        self._folder.mkdir(parents=True)
        self._port = free_ports(1)[0]

    def run(self) -> ReadRun:
        """Raises UnavailableError with the end of a log when it does not get there."""
        child, tail = self._child(), Tail(self._stage.log, self._stage.tail)
        with Sampler(child.pids) as sampler:
            child.start()
            try:
                self._wait(child)
                began_s = time.time()
                if self._stage.tail:
                    with tail.running():
                        self._load()
                else:
                    self._load()
                sampler.sample()
                cpu_s = cpu_between(sampler.samples, began_s, time.time())
                self._wait(child)  # it has followed: the last epoch of the tail is shown
            finally:
                child.stop(STOP_S)
        return self._result(cpu_s)

    def _child(self) -> Child:
        env = {
            "CUTWATER_BOOTSTRAP_SERVERS": self._stage.cluster.bootstrap,
            "CUTWATER_DATA_DIR": str(self._stage.state(self._contender)),
            "CUTWATER_REGION": GENERATION.region,
            "CUTWATER_PORT": str(self._port),
        }
        program = ["cutwater.rehydrator"]
        if self._contender == "timed":
            program = ["benchmarks.reading.timed_rehydrator", str(self._layers)]
        argv = [sys.executable, "-m", *program, str(self._stage.log.job_file)]
        name = f"reads-{self._contender}"
        return Child(name, argv, env, self._folder / "log.txt", RestartPolicy(), terminate_leader_only=True)

    @property
    def _layers(self) -> Path:
        return self._folder / "layers.json"

    @property
    def _times(self) -> Path:
        return self._folder / "times.npz"

    def _wait(self, child: Child) -> None:
        wanted, deadline = self._stage.log.last.sequence, time.monotonic() + RESTORE_S_MAX
        while True:
            try:
                answer = httpx.get(f"http://127.0.0.1:{self._port}/v1/milestone", timeout=10)
                if answer.is_success and answer.json()["sequence"] >= wanted:
                    return
            except httpx.TransportError:
                pass  # it does not listen yet
            if child.poll() is not None or time.monotonic() > deadline:
                raise UnavailableError(f"the view did not come to sequence {wanted}. {child.describe_end()}")
            time.sleep(0.1)

    def _load(self) -> None:
        stage = self._stage
        numbers = (self._port, self._rate, self._seconds, self._warm_s, stage.log.groups, stage.seed)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.reading.load", *map(str, numbers), str(self._times)],
            capture_output=True,
            text=True,
            timeout=self._seconds + self._warm_s + LOAD_S_MAX,
            check=False,
        )
        if done.returncode:
            raise UnavailableError(f"the load ended with {done.returncode}: {done.stderr[-1000:]}")

    def _result(self, cpu_s: float) -> ReadRun:
        found = np.load(self._times)
        sequences, faults = found["sequences"].tolist(), found["faults"].tolist()
        fault = faults[0] if faults else None
        layers = json.loads(self._layers.read_text("utf-8"))["layers"] if self._layers.exists() else {}
        return ReadRun(
            self._contender,
            self._rate,
            len(found["waited_s"]),
            percentiles(found["waited_s"]),
            percentiles(found["served_s"]),
            round(float(found["served_s"].mean()) * 1e6, 1),
            round(cpu_s, 2),
            len(sequences),
            fault is None,
            fault,
            layers,
        )


PERCENTILES = (50.0, 99.0, 99.9)


def percentiles(seconds: NDArray[np.float64]) -> dict[str, float]:
    """In ms."""
    return {f"p{one:g}": round(float(np.percentile(seconds, one)) * 1000, 4) for one in PERCENTILES}

"""One contender beside so many open rows: the rows are made, then batches are given to it one by one."""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.harness.measurement import Sampler, cpu_between
from benchmarks.state.events import Feed, expected_rows
from benchmarks.state.outcome import LARGE, SMALL, Batches
from benchmarks.windows.columns import PARTITIONS, Ints
from benchmarks.windows.exactness import fault
from benchmarks.windows.oracle import State
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy

JOBS = Path(__file__).parents[1] / "jobs"


class Plan(NamedTuple):
    """Batches of one size: so many warm up, so many are measured."""

    events: int
    warm: int
    measured: int


PLANS = (Plan(SMALL, 10, 40), Plan(LARGE, 2, 8))
_PATIENCE_S, _EVENTS_PER_S_MIN = 180.0, 5_000
_LOOK_S = 0.005
_STOP_S = 60.0


class Durable(NamedTuple):
    """The results of all events up to a point are durable."""

    at_s: float
    """Seconds since 1970."""
    epoch_ms: float | None
    """What the epoch with the last of them took, where there are epochs."""


@dataclass(frozen=True)
class Stage:
    """What all contenders share."""

    cluster: Cluster
    folder: Path
    java: Path


class StateContest(ABC):
    """`run` once. What differs between contenders is in the abstract methods."""

    def __init__(self, stage: Stage, contender: str, rows: int, pair: int, job_text: str) -> None:
        self.stage, self.contender, self.rows, self.pair = stage, contender, rows, pair
        self.name = f"b7-{contender}-{rows}-{pair}"
        self.folder = stage.folder / self.name
        self.folder.mkdir(parents=True)
        self.job_file = self.folder / "job.yaml"
        self.job_file.write_text(job_text.replace("b7", self.name), encoding="utf-8")
        shutil.copy(JOBS / "tick.avsc", self.folder)
        self.job: Job = load_job(self.job_file)
        self._offsets = Offsets(stage.cluster)

    @abstractmethod
    def command(self) -> list[str]:
        """The contender's command line."""

    def environment(self) -> dict[str, str]:
        """Its environment besides ours."""
        return {}

    @property
    @abstractmethod
    def output(self) -> topics.TopicSpec:
        """The topic of its rows."""

    @abstractmethod
    def owned(self) -> list[topics.TopicSpec]:
        """Topics that must be there before it starts."""

    @abstractmethod
    def durable(self, ends: Cut) -> Durable | None:
        """What holds once results of all events below these ends are durable; None before."""

    @abstractmethod
    def state(self, records: Mapping[bytes, bytes]) -> State:
        """Rows as readers see them, of the newest record of each key."""

    def run(self) -> list[Batches]:
        """Raises UnavailableError with the end of the contender's log if it ends, or takes too long."""
        ensure_topics(self.stage.cluster, [*self.owned(), topics.events(self.job.topic, PARTITIONS)])
        writer = TransactionalWriter(
            self.stage.cluster, f"feed-{self.name}", **{"compression.type": "lz4", "linger.ms": 5}
        )
        feed = Feed(writer, self.job.topic, Codec(self.job.event_schema).header)
        feed.write_rows(self.rows)
        log = self.folder / "log.txt"
        child = Child(
            self.name, self.command(), self.environment(), log, RestartPolicy(), terminate_leader_only=True
        )
        rng = np.random.default_rng(self.pair)
        with Sampler(child.pids) as sampler:
            child.start()
            try:
                self._wait(child)
                began = self._offsets.topic_ends(self.output.name, PARTITIONS)
                hits = np.zeros(self.rows, dtype=np.int64)
                found = [self._measure(child, sampler, feed, plan, rng, hits) for plan in PLANS]
            finally:
                child.stop(_STOP_S)
        wrong = fault(self.state(self._newest(began)), expected_rows(hits))
        disk_mb = self._disk_bytes() / 1e6
        return [Batches(self.contender, self.pair, self.rows, *one, disk_mb, wrong) for one in found]

    def _measure(
        self,
        child: Child,
        sampler: Sampler,
        feed: Feed,
        plan: Plan,
        rng: np.random.Generator,
        hits: Ints,
    ) -> tuple[int, tuple[float, ...], tuple[float, ...], float]:
        epochs, times = list[float](), list[float]()
        for number in range(plan.warm + plan.measured):
            if number == plan.warm:
                sampler.sample()
                since_s = time.time()
            keys = rng.integers(0, self.rows, plan.events)
            feed.write(keys)
            written_s = time.time()
            np.add.at(hits, keys, 1)
            done = self._wait(child)
            if number >= plan.warm:
                times.append((done.at_s - written_s) * 1000)
                epochs += [] if done.epoch_ms is None else [done.epoch_ms]
        sampler.sample()
        cpu_s = cpu_between(sampler.samples, since_s, time.time()) / plan.measured
        return plan.events, tuple(epochs), tuple(times), cpu_s

    def _wait(self, child: Child) -> Durable:
        places = [TopicPartition(self.job.topic, number) for number in range(PARTITIONS)]
        ends = Cut.of(self._offsets.committed_ends(places))
        deadline = time.monotonic() + _PATIENCE_S + self.rows / _EVENTS_PER_S_MIN
        while time.monotonic() < deadline:
            if (done := self.durable(ends)) is not None:
                return done
            if child.poll() is not None:
                break
            time.sleep(_LOOK_S)
        raise UnavailableError(f"{self.name} did not read its events in time. {child.describe_end()}")

    def _newest(self, began: Mapping[int, int]) -> dict[bytes, bytes]:
        found = dict[bytes, bytes]()
        consumer = make_consumer(self.stage.cluster)
        for partition, first in began.items():
            for message in read_range(consumer, self.output.name, partition, first):
                found[bytes(message.key() or b"")] = bytes(message.value() or b"")
        consumer.close()
        return found

    def _disk_bytes(self) -> int:
        """Of the contender's folder; files that are linked to each other count once."""
        stats = [one.stat() for one in self.folder.rglob("*") if one.is_file()]
        return sum({(one.st_dev, one.st_ino): one.st_size for one in stats}.values())

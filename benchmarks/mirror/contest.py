"""One contender copies the origin's topics, as a process that is watched from outside, and its copy is checked."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from benchmarks.harness.figures import Run
from benchmarks.harness.measurement import Sampler, cpu_at, cpu_between
from benchmarks.mirror import mirrormaker
from benchmarks.mirror.copies import contents, difference
from benchmarks.mirror.origin import Origin, Topic
from benchmarks.publishing.contender import GENERATION
from cutwater.adapters.kafka.client import make_consumer, read_tail
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.mirror_records import target
from cutwater.local.machine.ports import free_ports
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy

CUTWATER = "cutwater"
CONTENDERS = (CUTWATER, *mirrormaker.SETTINGS)
JOB_FILE = Path(__file__).parents[1] / "jobs" / "b2.yaml"
POLL_S, STOP_S, GONE_S = 0.05, 60.0, 30.0
PATIENCE_S, RECORDS_PER_S_MIN = 120.0, 2_000


@dataclass(frozen=True)
class Copy(Run):
    """A run: `events` are the records copied; `drain_s` is from the first one here until the copy is whole."""

    size: int = 0
    """Bytes of their keys, values and headers."""

    @property
    def mb_per_cpu_s(self) -> float:
        return self.size / 1e6 / max(self.cpu_s, 1e-3)


@dataclass(frozen=True)
class Stage:
    """What all contenders share. The target cluster is emptied before each run."""

    origin: Origin
    own: Cluster
    broker_pids: Callable[[], list[int]]
    """Of both brokers."""
    folder: Path
    java: Path
    peer_jars: Sequence[Path]


class Contest:
    """One contender in one pair."""

    def __init__(self, stage: Stage, contender: str, pair: int) -> None:
        self._stage, self._contender, self._pair = stage, contender, pair
        self._folder = stage.folder / f"{contender}-{pair}"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)

    def run(self) -> Copy:
        """Raises UnavailableError with the end of the contender's log when it ends early or does not end."""
        stage = self._stage
        empty(stage.own, ())
        empty(stage.origin.cluster, [one for one in _names(stage.origin.cluster) if not one.startswith("mm2-")])
        child = self._child()
        with Sampler(child.pids) as sampler, Sampler(stage.broker_pids) as broker:
            started_s = time.time()
            child.start()
            try:
                first_s, last_s = self._follow(child)
                sampler.sample()
                broker.sample()
            finally:
                child.stop(STOP_S)
        wrong = self._fault()
        return Copy(
            contender=self._contender,
            pair=self._pair,
            events=stage.origin.records,
            start_s=first_s - started_s,
            drain_s=last_s - first_s,
            cpu_s=cpu_between(sampler.samples, first_s, last_s),
            start_cpu_s=cpu_at(sampler.samples, first_s),
            broker_cpu_s=cpu_between(broker.samples, first_s, last_s),
            memory_mb_peak=max(sample.memory_mb for sample in sampler.samples),
            exact=wrong is None,
            fault=wrong,
            size=stage.origin.size,
        )

    def _child(self) -> Child:
        argv, env = self._ours() if self._contender == CUTWATER else (self._peer(), {})
        return Child(self._contender, argv, env, self._folder / "log.txt", RestartPolicy())

    def _ours(self) -> tuple[list[str], dict[str, str]]:
        return mirror(self._stage.origin.cluster, self._stage.own, self._folder)

    def _peer(self) -> list[str]:
        stage, names = self._stage, [one.name for one in self._stage.origin.topics]
        return mirrormaker.program(
            self._contender, stage.java, stage.peer_jars, stage.origin.cluster, stage.own, names, self._folder
        )

    def _targets(self) -> dict[str, Topic]:
        """Where each topic of the origin is copied to."""
        job, ours = self._stage.origin.job.name, self._contender == CUTWATER
        return {
            target(job, one.name, GENERATION.region) if ours else one.name: one
            for one in self._stage.origin.topics
        }

    def _follow(self, child: Child) -> tuple[float, float]:
        """When the first record stood here, and when all did; seconds since 1970."""
        stage, first_s = self._stage, 0.0
        deadline = time.monotonic() + PATIENCE_S + stage.origin.records / RECORDS_PER_S_MIN
        progress = Progress(stage.own, self._targets())
        while True:
            written = progress.look()
            now_s = time.time()
            first_s = first_s or (now_s if written else 0.0)
            if progress.is_complete():
                return first_s, now_s
            if child.poll() is not None:
                raise UnavailableError(
                    f"{self._contender} ended before its copy was whole. {child.describe_end()}"
                )
            if time.monotonic() > deadline:
                raise UnavailableError(f"{self._contender} did not end within its time. {child.describe_end()}")
            time.sleep(POLL_S)

    def _fault(self) -> str | None:
        for name, topic in self._targets().items():
            found = contents(self._stage.own, name, len(topic.partitions))
            if wrong := difference(name, found, topic.partitions):
                return wrong
        return None


class Progress:
    """How far a copy has come, by the offsets at which its partitions end: nothing that costs the brokers much."""

    def __init__(self, own: Cluster, targets: Mapping[str, Topic]) -> None:
        self._own, self._targets = own, targets
        self._admin = AdminClient(own.librdkafka())
        self._ends = Offsets(own)
        self._open = {
            TopicPartition(name, number): one
            for name, topic in targets.items()
            for number, one in enumerate(topic.partitions)
            if one.records
        }
        self._known: set[str] = set()
        self._written: dict[TopicPartition, int] = {}

    def look(self) -> bool:
        """Does any record stand there?"""
        if len(self._known) < len(self._targets):
            self._known = set(self._admin.list_topics(timeout=20).topics) & set(self._targets)
        places = [one for one in self._open if one.topic in self._known]
        self._written = self._ends.committed_ends(places)
        return any(self._written.values())

    def is_complete(self) -> bool:
        """Are all there? Where transactions leave markers the end alone does not tell: the last record does."""
        for place, wanted in list(self._open.items()):
            if self._written.get(place, 0) >= wanted.records and self._newest(place) == wanted.last:
                del self._open[place]
        return not self._open

    def _newest(self, place: TopicPartition) -> bytes | None:
        consumer = make_consumer(self._own)
        try:
            found = read_tail(consumer, *place, bool)
            return found[-1] if found else None
        finally:
            consumer.close()


def mirror(origin: Cluster, own: Cluster, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Cutwater's mirror as shipped: command, and what its environment has on top."""
    return [sys.executable, "-m", "cutwater.mirror", str(JOB_FILE)], {
        "CUTWATER_BOOTSTRAP_SERVERS": own.bootstrap,
        "CUTWATER_REGION": "copy",
        "CUTWATER_ORIGIN_BOOTSTRAP_SERVERS": origin.bootstrap,
        "CUTWATER_ORIGIN_REGION": GENERATION.region,
        "CUTWATER_DATA_DIR": str(folder),
        "CUTWATER_MIRROR_PORT": str(free_ports(1)[0]),
    }


def empty(cluster: Cluster, kept: Sequence[str]) -> None:
    """Delete all topics but Kafka's own and these, and wait until they are gone."""
    admin = AdminClient(cluster.librdkafka())
    if names := [one for one in _names(cluster) if one not in kept]:
        for future in admin.delete_topics(names).values():
            future.result(GONE_S)
    deadline = time.monotonic() + GONE_S
    while set(_names(cluster)) - set(kept):
        if time.monotonic() > deadline:
            raise UnavailableError(f"topics of {cluster.bootstrap} are not deleted within {GONE_S:g} s")
        time.sleep(POLL_S)


def _names(cluster: Cluster) -> list[str]:
    return [one for one in AdminClient(cluster.librdkafka()).list_topics(timeout=20).topics if one[0] != "_"]

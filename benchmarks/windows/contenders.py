"""The contenders of B2. Each run is a fresh process on the same topic, watched from outside."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import flink_program, streams_program
from benchmarks.harness.figures import DURABLE, Run
from benchmarks.harness.measurement import Sampler, cpu_at, cpu_between
from benchmarks.harness.streams_program import AT_LEAST_ONCE, HEAP
from benchmarks.windows.exactness import (
    changelog_state,
    fault,
    newest,
    noop_fault,
    records,
    streams_state,
    written_once,
)
from benchmarks.windows.oracle import State
from benchmarks.windows.shapes import CUTWATER, JAVA_PEERS, NOOP, STREAMS, THREE, Shape
from benchmarks.windows.timeline import Timeline, from_checkpoint, from_streams
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.spark_runtime import spark_environment

NOOP_PROGRAM = Path(__file__).with_name("noop_job.py")
GENERATION = Generation(1, "local")
_POLL_S = 0.02
_STOP_S = 60.0
_PATIENCE_S, _EVENTS_PER_S_MIN = 180.0, 2_000


@dataclass(frozen=True)
class Stage:
    """What all contenders share: broker, topic, jars, the right answer."""

    cluster: Cluster
    broker_pids: Callable[[], list[int]]
    folder: Path
    java: Path
    spark_jars: Sequence[Path]
    spark_classes: Path
    """The archive of Spark's classes, which a stack makes and uses by default."""
    peer_jars: Mapping[str, Sequence[Path]]
    """Of each contender that is a Java program."""
    job: Job
    events: int
    expected: State = field(repr=False)
    shape: Shape = THREE


class Contest:
    """One contender in one pair: `run` starts it, follows it to the end of the backlog, and checks its output."""

    BENCHMARK = "b2"
    UNTIL = DURABLE
    """What of the results ends the drain."""
    GUARANTEE = AT_LEAST_ONCE
    """Of Kafka Streams."""

    def __init__(self, stage: Stage, contender: str, pair: int) -> None:
        self._stage = stage
        self._contender = contender
        self._pair = pair
        self._name = f"{self.BENCHMARK}-{stage.shape.name}-{contender}-{pair}"
        self._folder = stage.folder / self._name
        self._checkpoint = self._folder / "checkpoint"
        self._result = self._folder / "result.json"
        self._reader_cpu_s: float | None = None
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)

    def run(self) -> Run:
        """Raises UnavailableError with the end of the contender's log when it ends early or does not end."""
        children = self._children()
        with (
            Sampler(lambda: [pid for child in children for pid in child.pids()]) as sampler,
            Sampler(self._stage.broker_pids) as broker,
        ):
            started_s = time.time()
            try:
                for child in children:
                    child.start()
                timeline = self._follow(children)
                sampler.sample()
                broker.sample()
            finally:
                for child in reversed(children):
                    child.stop(_STOP_S)
        wrong = self._fault()
        drain = (timeline.first_s, timeline.last_s)
        return Run(
            contender=self._contender,
            pair=self._pair,
            events=self._stage.events,
            start_s=timeline.first_s - started_s,
            drain_s=timeline.last_s - timeline.first_s,
            cpu_s=cpu_between(sampler.samples, *drain),
            start_cpu_s=cpu_at(sampler.samples, timeline.first_s),
            broker_cpu_s=cpu_between(broker.samples, *drain),
            memory_mb_peak=max(sample.memory_mb for sample in sampler.samples),
            exact=wrong is None,
            fault=wrong,
            warm_events_per_s=timeline.warm_events_per_s,
            shape=self._stage.shape.name,
            until=self.UNTIL,
            reader_cpu_s=self._reader_cpu_s,
        )

    @property
    def written_topics(self) -> list[str]:
        """Topics that this run wrote, to be deleted after it."""
        if self._contender == STREAMS:
            store = f"{self._name}-totals-changelog"
            return [self._output, store]
        if self._contender in JAVA_PEERS:
            return [self._output]
        if self._contender == CUTWATER:
            return [one.name for one in self._owned()]
        return []

    @property
    def _output(self) -> str:
        return f"{self._name}.output"

    def _owned(self) -> list[topics.TopicSpec]:
        return topics.generation_topics(self._name, GENERATION, self._stage.job.shards.partitions)

    def _children(self) -> list[Child]:
        """The processes whose CPU and memory count; the first one drains the backlog."""
        return [self._child()]

    def _child(self) -> Child:
        argv, env = (self._java(), {}) if self._contender in JAVA_PEERS else self._spark()
        # SIGTERM to the leader alone: a Spark driver needs its JVM in order to end well.
        return Child(self._name, argv, env, self._folder / "log.txt", RestartPolicy(), terminate_leader_only=True)

    def _spark(self) -> tuple[list[str], dict[str, str]]:
        self._stage.shape.write_job(self._folder, self._name)
        if self._contender == CUTWATER:
            ensure_topics(self._stage.cluster, self._owned())
        return [sys.executable, *self._program()], self._env()

    def _program(self) -> list[str]:
        """What Python runs, for a contender of Spark's kind."""
        if self._contender == CUTWATER:
            return ["-m", "cutwater_spark.driver", str(self._job_file)]
        return [str(NOOP_PROGRAM), str(self._job_file), str(self._result)]

    @property
    def _job_file(self) -> Path:
        return self._folder / self._stage.shape.job_file

    def _env(self) -> dict[str, str]:
        stage = self._stage
        return {
            "CUTWATER_BOOTSTRAP_SERVERS": stage.cluster.bootstrap,
            "CUTWATER_DATA_DIR": str(self._folder),
            "CUTWATER_CHECKPOINT": str(self._checkpoint),
            "CUTWATER_SPARK_JARS": ",".join(map(str, stage.spark_jars)),
            "CUTWATER_SPARK_CLASSES": str(stage.spark_classes),
            "CUTWATER_SPARK_DRIVER_MEMORY": HEAP,
            "CUTWATER_REGION": GENERATION.region,
            **spark_environment(stage.java),
        }

    def _java(self) -> list[str]:
        stage = self._stage
        ensure_topics(stage.cluster, [topics.events(self._output, stage.job.shards.partitions)])
        jars, peer = stage.peer_jars[self._contender], stage.shape.peers[self._contender]
        where = (self._output, self._name, self._folder, stage.events)
        if self._contender == STREAMS:
            return streams_program.program(
                stage.java, jars, stage.cluster, stage.job, stage.job.topic, *where, self.GUARANTEE, peer
            )
        return flink_program.program(stage.java, jars, stage.cluster, stage.job, peer, *where)

    def _follow(self, children: list[Child]) -> Timeline:
        child = children[0]
        deadline = time.monotonic() + _PATIENCE_S + self._stage.events / _EVENTS_PER_S_MIN
        while True:
            if self._contender in JAVA_PEERS:
                timeline = from_streams(self._result)
            else:
                timeline = from_checkpoint(self._checkpoint, self._stage.events)
            if timeline is not None:
                return timeline
            if child.poll() is not None:
                raise UnavailableError(f"{self._name} ended before the backlog did. {child.describe_end()}")
            if time.monotonic() > deadline:
                raise UnavailableError(f"{self._name} did not end within its time. {child.describe_end()}")
            time.sleep(_POLL_S)

    def _fault(self) -> str | None:
        stage, partitions, shape = self._stage, self._stage.job.shards.partitions, self._stage.shape
        if self._contender == NOOP:
            if not self._result.exists():
                raise UnavailableError(f"{self._name} told no result; its log: {self._folder / 'log.txt'}")
            result = json.loads(self._result.read_text(encoding="utf-8"))
            return noop_fault(result, stage.events, stage.expected, load_job(self._job_file), shape.equal)
        if self._contender == CUTWATER:
            return self._rows_fault(topics.changelog(self._name, GENERATION))
        if self._contender == STREAMS:
            found, again = newest(stage.cluster, self._output, partitions), None
        else:
            found, again = written_once(records(stage.cluster, self._output, partitions))
        return again or fault(streams_state(found, shape.read_row), stage.expected, shape.equal)

    def _rows_fault(self, topic: str) -> str | None:
        """What is wrong with the rows that Spark wrote to a topic."""
        stage = self._stage
        job = load_job(self._job_file)  # the state's schema has the job's name in it
        found = newest(stage.cluster, topic, stage.job.shards.partitions)
        return fault(changelog_state(found, job), stage.expected, stage.shape.equal)

"""The contenders of B7: the driver as shipped, the same with Spark's own eviction, Kafka Streams."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import TopicPartition as Asked

from benchmarks.harness import streams_program
from benchmarks.harness.streams_program import EXACTLY_ONCE, HEAP
from benchmarks.state.contest import JOBS, Durable, Stage, StateContest
from benchmarks.state.outcome import WALK
from benchmarks.windows.columns import PARTITIONS
from benchmarks.windows.exactness import changelog_state, streams_state
from benchmarks.windows.oracle import State
from cutwater.adapters.kafka.client import TIMEOUT_S, make_consumer
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.local.jars import jars
from cutwater.local.spark_runtime import spark_environment
from cutwater_spark.checkpoint import parse_plan

GENERATION = Generation(1, "local")
_JOB = (JOBS / "b7.yaml").read_text(encoding="utf-8")
_MARKER = 1
"""Record of a transaction's end, behind its last event: a consumer of Kafka Streams need not have passed it."""


class DriverContest(StateContest):
    """The driver alone: its checkpoint says what is durable, and how long an epoch took."""

    def __init__(self, stage: Stage, contender: str, rows: int, pair: int) -> None:
        text = _JOB.replace("late: {amend_for: 1h}\n", "") if contender == WALK else _JOB
        super().__init__(stage, contender, rows, pair, text)
        self._checkpoint = self.folder / "checkpoint"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "cutwater_spark.driver", str(self.job_file)]

    def environment(self) -> dict[str, str]:
        return {
            "CUTWATER_BOOTSTRAP_SERVERS": self.stage.cluster.bootstrap,
            "CUTWATER_DATA_DIR": str(self.folder),
            "CUTWATER_CHECKPOINT": str(self._checkpoint),
            "CUTWATER_SPARK_JARS": ",".join(map(str, jars("spark"))),
            "CUTWATER_SPARK_DRIVER_MEMORY": HEAP,
            "CUTWATER_TRIGGER_MS": "0",
            **spark_environment(self.stage.java),
        }

    @property
    def output(self) -> topics.TopicSpec:
        name = topics.changelog(self.job.name, GENERATION)
        return next(one for one in self.owned() if one.name == name)

    def owned(self) -> list[topics.TopicSpec]:
        return topics.generation_topics(self.job.name, GENERATION, PARTITIONS)

    def durable(self, ends: Cut) -> Durable | None:
        for epoch in _newest_epochs(self._checkpoint / "commits"):
            plan, done = (self._checkpoint / part / str(epoch) for part in ("offsets", "commits"))
            cut = parse_plan(plan.read_text(encoding="utf-8"), str(plan)).source_cut
            if cut.covers(ends):
                began_ns, ended_ns = plan.stat().st_mtime_ns, done.stat().st_mtime_ns
                return Durable(ended_ns / 1e9, (ended_ns - began_ns) / 1e6)
        return None

    def state(self, records: Mapping[bytes, bytes]) -> State:
        return changelog_state(records, self.job)


class StreamsContest(StateContest):
    """Kafka Streams, exactly once: what its group has committed is durable, with the transaction that holds it."""

    def __init__(self, stage: Stage, contender: str, rows: int, pair: int, peer_jars: Sequence[Path]) -> None:
        super().__init__(stage, contender, rows, pair, _JOB)
        self._jars = peer_jars
        self._group = make_consumer(stage.cluster, **{"group.id": self.name})

    def command(self) -> list[str]:
        endless = 2**62  # the harness ends it
        where = (self.job.topic, self.output.name, self.name, self.folder, endless)
        return streams_program.program(
            self.stage.java, self._jars, self.stage.cluster, self.job, *where, EXACTLY_ONCE
        )

    @property
    def output(self) -> topics.TopicSpec:
        return topics.events(f"{self.name}.output", PARTITIONS)

    def owned(self) -> list[topics.TopicSpec]:
        return [self.output]

    def durable(self, ends: Cut) -> Durable | None:
        asked = [Asked(place.topic, place.partition) for place, _ in ends]
        found = self._group.committed(asked, TIMEOUT_S)
        at_s = time.time()
        reached = {TopicPartition(one.topic, one.partition): max(0, one.offset) + _MARKER for one in found}
        return Durable(at_s, None) if Cut.of(reached).covers(ends) else None

    def state(self, records: Mapping[bytes, bytes]) -> State:
        self._group.close()
        return streams_state(records)


def _newest_epochs(folder: Path) -> list[int]:
    names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    return sorted((int(one) for one in names if one.isdecimal()), reverse=True)[:2]

"""Kafka Streams at a steady rate, exactly once and at least once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.harness.streams_program import Guarantee, program
from benchmarks.latency.contest import Contest, Evidence, Stage
from benchmarks.latency.delays import Ints, Sightings
from benchmarks.latency.load import Plan
from benchmarks.latency.readers import Output
from benchmarks.latency.steps import NS_PER_MS
from benchmarks.windows.columns import PARTITIONS
from benchmarks.windows.exactness import records, streams_state
from benchmarks.windows.workload import Events
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol import topics
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy

_STOP_S = 10.0
_STORE_KEY_TAIL = 12
"""Behind the key in a window store's changelog: the start (8 bytes) and a number (4)."""


class StreamsContest(Contest):
    def __init__(self, stage: Stage, contender: str, pair: int, plan: Plan, guarantee: Guarantee) -> None:
        super().__init__(stage, contender, pair, plan)
        self._output = f"{self.name}.output"
        self._store = f"{self.name}-totals-changelog"
        self._result, self._ready = self.folder / "result.json", self.folder / "ready"
        argv = program(
            stage.java, stage.streams_jars, stage.cluster, stage.job, self.topic, self._output, self.name,
            self.folder, self.events, guarantee,
        )  # fmt: skip
        self._child = Child(self.name, argv, {}, self.folder / "log.txt", RestartPolicy())
        self._reader = Output(stage.cluster, self._output)

    @contextmanager
    def running(self) -> Iterator[None]:
        ensure_topics(self.stage.cluster, [topics.events(self._output, PARTITIONS)])
        self._child.start()
        try:
            self.wait(self._is_ready, "start")
            with self._reader:
                yield
        finally:
            self._child.stop(_STOP_S)

    def _is_ready(self) -> bool:
        self._require_alive()
        return self._ready.exists()

    def pids(self) -> list[int]:
        return self._child.pids()

    def primed(self) -> bool:
        self._require_alive()
        return bool(self._reader.seen)

    def done(self) -> bool:
        self._require_alive()
        return self._result.exists()

    def _require_alive(self) -> None:
        if self._child.poll() is not None:
            raise UnavailableError(f"{self.name}: {self._child.describe_end()}")

    def written_topics(self) -> list[str]:
        return [self._output, self._store]

    def evidence(self, events: Events, due_ns: Ints) -> Evidence:
        changelog = [
            (*_store_key(message.key()), _count(message.value()), message.timestamp()[1] * NS_PER_MS)
            for message in records(self.stage.cluster, self._store, PARTITIONS)
            if message.value() is not None
        ]
        readable = [(*_output_key(key), _count(value), at_ns) for at_ns, key, value in self._reader.seen]
        told = json.loads(self._result.read_text(encoding="utf-8"))
        state = streams_state({key: value for _, key, value in self._reader.seen})
        return Evidence(
            Sightings.of(changelog), Sightings.of(readable), {"output": state}, commits=told.get("commits", {})
        )


def _output_key(key: bytes) -> tuple[int, int]:
    """(number of the key, window start in ms): the text, then the start."""
    return int(key[4:-8]), int.from_bytes(key[-8:], "big")


def _store_key(key: bytes) -> tuple[int, int]:
    return _output_key(key[: _STORE_KEY_TAIL * -1 + 8])


def _count(value: bytes) -> int:
    return int.from_bytes(value[:8], "big")

"""The contenders of B2 until others can read: a `read_committed` consumer has received the last row of the output.

Cutwater runs with commit-signal and publisher beside its driver, Kafka Streams exactly once, Flink as ever.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

from benchmarks.harness.figures import READABLE
from benchmarks.harness.streams_program import EXACTLY_ONCE
from benchmarks.windows.contenders import Contest
from benchmarks.windows.exactness import fault, streams_state
from benchmarks.windows.oracle import State
from benchmarks.windows.output_reader import ALL, NEWEST, OutputRead, OutputReader
from benchmarks.windows.shapes import CUTWATER, JAVA_PEERS, STREAMS
from benchmarks.windows.timeline import Timeline
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy

READABLE_CONTENDERS = (CUTWATER, *JAVA_PEERS)
"""Those that have an output."""
_SERVICES = ("cutwater.commit_signal", "cutwater.publisher")
_PATIENCE_S, _ROWS_PER_S_MIN, _LOOK_S = 180.0, 2_000, 0.2


class ReadableContest(Contest):
    """The same drain, whose end is the moment at which the last row can be read."""

    BENCHMARK = "b2-readable"
    UNTIL = READABLE
    GUARANTEE = EXACTLY_ONCE

    def _children(self) -> list[Child]:
        children = super()._children()
        if self._contender == CUTWATER:
            children += [self._service(module) for module in _SERVICES]
        return children

    def _service(self, module: str) -> Child:
        name = module.rpartition(".")[2]
        argv = [sys.executable, "-m", module, str(self._job_file)]
        return Child(f"{self._name}-{name}", argv, self._env(), self._folder / f"{name}.txt", RestartPolicy())

    @property
    def _output(self) -> str:
        return topics.output(self._name) if self._contender == CUTWATER else super()._output

    def _follow(self, children: list[Child]) -> Timeline:
        stage = self._stage
        # Rows of Cutwater's output have the group's key; peers' keys name the window, too.
        hold = ALL if self._contender == CUTWATER else NEWEST
        with OutputReader(stage.cluster, self._output, stage.job.shards.partitions, self._folder, hold) as reader:
            durable = super()._follow(children)
            if self._contender == CUTWATER:
                self._wait_for_publisher(children)
            self._read = reader.read_to_end()
        self._reader_cpu_s = self._read.cpu_s
        return Timeline(durable.first_s, self._read.last_s)

    def _wait_for_publisher(self, children: list[Child]) -> None:
        """Return once a milestone of all source events is published."""
        deadline = time.monotonic() + _PATIENCE_S + len(self._stage.expected) / _ROWS_PER_S_MIN
        while not self._is_published():
            for child in children:
                if child.poll() is not None:
                    raise UnavailableError(f"{child.name} ended by itself. {child.describe_end()}")
            if time.monotonic() > deadline:
                raise UnavailableError(f"{self._name} is not published. {children[-1].describe_end()}")
            time.sleep(_LOOK_S)

    def _is_published(self) -> bool:
        found = commit_stream.published_milestone(self._stage.cluster, self._name)
        return found is not None and found.source_cut.records >= self._stage.events

    def _fault(self) -> str | None:
        read, expected, shape = self._read, self._stage.expected, self._stage.shape
        if self._contender == CUTWATER:
            values = (value for _, value in read.rows)
            return fault(output_state(values, load_job(self._job_file)), expected, shape.equal)
        again = None if self._contender == STREAMS else repeats(read)
        return again or fault(streams_state(dict(read.rows), shape.read_row), expected, shape.equal)


def output_state(values: Iterable[bytes], job: Job) -> State:
    """Return the windows of our output's rows, decoded with the generic Avro library. The newest row counts."""
    rows, names = Codec(job.output_schema), [measure.name for measure in job.measures]
    state: State = {}
    for value in values:
        row = rows.decode(value)
        state[row["key"], round(row["window_start"].timestamp() * 1000)] = tuple(row[name] for name in names)
    return state


def repeats(read: OutputRead) -> str | None:
    """Return what is wrong if a window was written more than once, by the newest row per key."""
    again = read.received - len(read.rows)
    return f"{again} rows were written for windows that had one" if again else None

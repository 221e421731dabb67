"""Cutwater as shipped, at a steady rate: driver, commit-signal, publisher, rehydrator, two kinds of readers."""

from __future__ import annotations

import shutil
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from benchmarks.latency.contest import Contest, Evidence, Stage
from benchmarks.latency.delays import Ints, Sightings, first_row
from benchmarks.latency.load import Plan
from benchmarks.latency.outcome import VIEW
from benchmarks.latency.readers import CheckpointFiles, Committed, Visible
from benchmarks.latency.steps import NS_PER_MS, Moments, epoch_ms, per_event
from benchmarks.windows.columns import PARTITIONS
from benchmarks.windows.exactness import records
from benchmarks.windows.oracle import State
from benchmarks.windows.workload import Events
from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.kafka.client import headers_of
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import ProtocolError, UnavailableError
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.output.position import End
from cutwater.core.protocol import topics
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, Writer
from cutwater.core.protocol.records import Committed as Hint
from cutwater.local.stack.stack import Stack
from cutwater.local.stack.stack_lifecycle import start_stack

JOB_FILE = Path(__file__).parents[1] / "jobs" / "b3.yaml"
TUNED_DRIVER = "benchmarks.latency.tuned_driver"


class CutwaterContest(Contest):
    """`settings`: environment variables (CUTWATER_...) and Spark settings (spark....) that differ from ours."""

    def __init__(
        self, stage: Stage, contender: str, pair: int, plan: Plan, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(stage, contender, pair, plan)
        self._stack = self._prepare(settings or {})
        self._job, self._generation = self._stack.job, load_settings().generation
        checkpoint = self.folder / "checkpoints" / self._job.name / str(self._generation)
        self._files = CheckpointFiles(checkpoint)
        self._committed = Committed(self._job, stage.cluster)
        self._visible = Visible(self._stack.api_url, self._generation)

    def _prepare(self, settings: Mapping[str, str]) -> Stack:
        job_file = self.folder / JOB_FILE.name
        job_file.write_text(self.job_text(), encoding="utf-8")
        shutil.copy(JOB_FILE.with_name("tick.avsc"), self.folder)
        found = load_settings().model_copy(
            update={"data_dir": self.folder, "bootstrap_servers": self.stage.cluster.bootstrap}
        )
        ours = {name: value for name, value in settings.items() if name.startswith("CUTWATER_")}
        sparks = [f"{name}={value}" for name, value in settings.items() if name not in ours]
        stack = Stack(job_file, found, lambda _line: None, ours, own_cluster=True)
        if sparks:
            driver = next(one.child for one in stack.supervisor.members if one.child.name == "driver")
            driver.argv = [sys.executable, "-m", TUNED_DRIVER, *sparks, str(job_file.resolve())]
        return stack

    def job_text(self) -> str:
        """B3's job over this run's topic."""
        text = JOB_FILE.read_text(encoding="utf-8").replace("b3.events", self.topic)
        return text.replace("job: b3\n", f"job: {self.name}\n")

    @contextmanager
    def running(self) -> Iterator[None]:
        with start_stack(self._stack, threading.Event()), ExitStack() as readers:
            for one in (self._files, self._committed, self._visible):
                readers.enter_context(one)
            yield

    def pids(self) -> list[int]:
        return [pid for member in self._stack.supervisor.members for pid in member.child.pids()]

    def primed(self) -> bool:
        for member in self._stack.supervisor.members:
            if member.child.poll() is not None:
                raise UnavailableError(f"{self.name}: {member.child.describe_end()}")
        return any(milestone.changes for _, milestone in self._committed.seen)

    def done(self) -> bool:
        if not self.primed():
            return False
        found = commit_stream.milestones(self.stage.cluster, self._job.name, limit=1)
        if not found or found[0][0].source_cut.records < self.events:
            return False
        sequence, seen, shown = found[0][0].sequence, self._committed.seen, self._visible.seen
        return bool(seen and shown) and seen[-1][1].token.sequence >= sequence <= shown[-1][1]

    def written_topics(self) -> list[str]:
        owned = topics.generation_topics(self._job.name, self._generation, PARTITIONS, self._job.output)
        return [one.name for one in owned]

    def evidence(self, events: Events, due_ns: Ints) -> Evidence:
        changelog, changelog_state, rows_ns = self._changelog()
        readable, sequences, state = self._readable()
        of_event = first_row(events, self.stage.window_ms, readable)
        found = Evidence(changelog, readable, {"changelog": changelog_state, "committed()": state})
        if (of_event < 0).any():
            return found  # the run is not exact: it has no steps either
        visible = self._visible_ns(int(sequences.max()))
        found.more[VIEW] = visible[sequences[of_event]]
        epochs, epoch_of = self._moments(visible, rows_ns)
        read_by = epoch_of[sequences[of_event]]
        found.steps = per_event(epochs, read_by, due_ns)
        found.epoch_ms = epoch_ms(epochs, read_by[self.measured])
        return found

    def _changelog(self) -> tuple[Sightings, State, dict[int, int]]:
        """Every row with the broker's time; what stands there in the end; each epoch's last row."""
        keys, values = Codec(WINDOW_KEY_SCHEMA), Codec(self._job.state_schema)
        names = [measure.name for measure in self._job.measures]
        rows, state, last = [], State(), defaultdict[int, int](int)
        for message in records(self.stage.cluster, topics.changelog(self._job.name, self._generation), PARTITIONS):
            at, value = keys.decode(message.key()), values.decode(message.value())
            start_ms, at_ns = protocol_records.millis(at["window_start"]), message.timestamp()[1] * NS_PER_MS
            count, total, highest = (value[name] for name in names)
            state[at["key"], start_ms] = (count, int(total), highest)
            rows.append((int(at["key"][4:]), start_ms, count, at_ns))
            writer = Writer.of_header(headers_of(message).get(WRITER_HEADER))
            if writer is None:
                raise ProtocolError(f"{message.topic()}@{message.offset()} names no writer")
            epoch = writer.epoch
            last[epoch] = max(last[epoch], at_ns)
        return Sightings.of(rows), state, last

    def _readable(self) -> tuple[Sightings, Ints, State]:
        """What `committed()` yielded: rows, the sequence of each, and what they come to."""
        rows, sequences, state = [], [], State()
        names = [measure.name for measure in self._job.measures]
        for at_ns, milestone in self._committed.seen:
            for change in milestone.changes:
                count, total, highest = (change.values[name] for name in names)
                state[change.key, change.window_start_ms] = (count, int(total), highest)
                rows.append((int(change.key[4:]), change.window_start_ms, count, at_ns))
                sequences.append(milestone.token.sequence)
        return Sightings.of(rows), np.array(sequences, dtype=np.int64), state

    def _visible_ns(self, newest: int) -> Ints:
        """When the view showed each sequence or a later one."""
        found = np.zeros(newest + 1, dtype=np.int64)
        after = 0
        for at_ns, sequence in self._visible.seen:
            found[after : sequence + 1] = at_ns
            after = sequence + 1
        return found

    def _moments(self, visible_ns: Ints, rows_ns: Mapping[int, int]) -> tuple[dict[int, Moments], Ints]:
        """Each epoch's moments, and the epoch of each sequence."""
        cluster, job = self.stage.cluster, self._job.name
        hints = {
            record.epoch: record.at_ms
            for record in (
                protocol_records.decode(message.value()) for message in records(cluster, topics.barriers(job), 1)
            )
            if isinstance(record, Hint)
        }
        published = _published(self.stage, self._job)
        readable = {milestone.token.sequence: at_ns for at_ns, milestone in self._committed.seen}
        found: dict[int, Moments] = {}
        epoch_of = np.zeros(len(visible_ns), dtype=np.int64)
        planned, committed = self._files.offsets, self._files.commits
        for one, _ in commit_stream.milestones(cluster, job):
            if one.sequence >= len(epoch_of) or one.epoch not in planned or one.epoch not in committed:
                continue
            epoch_of[one.sequence] = one.epoch
            proved_ns = one.written_ms * NS_PER_MS
            found[one.epoch] = Moments(
                planned=planned[one.epoch],
                began=one.epoch_started_ms * NS_PER_MS,
                rows=rows_ns.get(one.epoch, proved_ns),
                proved=proved_ns,
                committed=committed[one.epoch],
                hint=hints.get(one.epoch, one.committed_ms) * NS_PER_MS,
                milestone=one.committed_ms * NS_PER_MS,
                published=published[one.sequence] * NS_PER_MS,
                readable=readable[one.sequence],
                visible=int(visible_ns[one.sequence]),
            )
        return found, epoch_of


def _published(stage: Stage, job: Job) -> dict[int, int]:
    """When the publisher wrote each sequence, by its end markers, ms since 1970."""
    ends = (
        protocol_records.decode(message.value())
        for message in records(stage.cluster, topics.output(job.name), PARTITIONS)
        if message.key() is None
    )
    return {
        sequence: end.published_ms
        for end in ends
        if isinstance(end, End)
        for sequence in range(end.first_sequence, end.sequence + 1)
    }

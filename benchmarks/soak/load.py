"""A whole stack with its own broker, under load whose event time runs far faster than the clock."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.latency.load import send
from benchmarks.soak.sizes import STATE, TOPICS, VIEW, Sizes, size_mb
from benchmarks.windows import oracle, workload
from benchmarks.windows.exactness import changelog_state, fault, newest
from benchmarks.windows.workload import Events
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Milestone
from cutwater.local.stack.stack import Stack

RATE = 5_000
"""Events a second of the clock, at most."""
EVENTS_MAX = 20_000_000
"""Of a soak of hours: all are in memory, about 4 GB. A longer soak has fewer a second."""
FASTER = 600
"""Seconds of event time in one of the clock: ten minutes are a hundred hours."""
_DISORDER_MS = 30_000
_LOOK_S, _PATIENCE_S = 2.0, 180.0


def load_of(hours: float) -> tuple[int, float]:
    """Return how many events a soak of so many hours has, and how many a second."""
    seconds = hours * 3_600
    size = int(min(seconds * RATE, EVENTS_MAX))
    return size, size / seconds


def generate(size: int, seed: int, end_ms: int, rate: float = RATE) -> Events:
    """Return `size` events whose event time ends at `end_ms`; keys and values as in B2."""
    drawn = workload.generate(size, seed)
    behind = (size - 1 - np.arange(size, dtype=np.int64)) * 1000 * FASTER
    due_ms = end_ms - (behind / rate).astype(np.int64)
    return Events(drawn.key, due_ms - np.random.default_rng(seed).integers(0, _DISORDER_MS, size), drawn.value)


@dataclass
class Soak:
    """One run; the stack is running."""

    stack: Stack
    events: Events
    rate: float = RATE
    """Events a second."""
    sizes: list[Sizes] = field(default_factory=list)

    def run(self) -> None:
        """Send all events, each when it is due. Return once a milestone has the last of them.

        Raises UnavailableError if a process ends for good, or if the milestones do not follow.
        """
        began_s, load = time.time(), self._load()
        load.start()
        deadline_s = time.monotonic() + len(self.events) / self.rate + _PATIENCE_S
        while (done := self._done()) < len(self.events):
            if time.monotonic() > deadline_s:
                raise UnavailableError(f"only {done:,} events are in milestones; logs: {self.stack.data_dir}")
            for member in self.stack.supervisor.members:
                if member.essential and member.child.poll() is not None:
                    raise UnavailableError(member.child.describe_end())
            self.sizes.append(Sizes(time.time() - began_s, self._measure()))
            time.sleep(_LOOK_S)
        load.join(_PATIENCE_S)

    def fault(self) -> str | None:
        """Say what is wrong with the rows above the horizon, by DuckDB over the same events; None if nothing."""
        job, milestone = self.stack.job, self._milestone()
        if milestone is None:
            return "there is no milestone"
        above_ms = job.shown_above_ms(milestone.horizon_ms)
        topic = topics.changelog(job.name, milestone.generation)
        records = newest(self.stack.cluster, topic, job.shards.partitions)
        found = changelog_state({key: value for key, value in records.items() if value is not None}, job)
        sizes = job.window.size_ms, job.window.slide_ms
        expected, _ = oracle.expected(self.events.backlog, oracle.TICKS, *sizes)
        shown, wanted = (
            {place: row for place, row in rows.items() if place[1] + job.window.size_ms > above_ms}
            for rows in (found, expected)
        )
        return fault(shown, wanted)

    def _load(self) -> threading.Thread:
        """Prepare the thread that sends the events from now on."""
        job = self.stack.job
        values = list(workload.encode(self.events, Codec(job.event_schema).header))
        due_ns = time.time_ns() + (np.arange(len(self.events)) * 1e9 / self.rate).astype(np.int64)
        sent = self.stack.cluster, job.topic, values, self.events.key.tolist(), due_ns.tolist()
        return threading.Thread(target=send, args=sent, name="load", daemon=True)

    def _milestone(self) -> Milestone | None:
        found = commit_stream.milestones(self.stack.cluster, self.stack.job.name, limit=1)
        return found[0][0] if found else None

    def _done(self) -> int:
        milestone = self._milestone()
        return milestone.source_cut.records if milestone else 0

    def _measure(self) -> dict[str, float]:
        folder: Path = self.stack.data_dir
        places = {STATE: folder / "checkpoints", VIEW: folder / "views", TOPICS: folder / "broker" / "log"}
        return {name: size_mb(place) for name, place in places.items()}

"""One contender at one rate: started, fed, watched, ended, checked. What differs between contenders is below."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from confluent_kafka.admin import AdminClient

from benchmarks.harness.measurement import Sampler, cpu_between
from benchmarks.latency.delays import Floats, Ints, Sightings, curve, first_seen, summary
from benchmarks.latency.load import Plan
from benchmarks.latency.outcome import APPENDED_READABLE, CHANGELOG, READABLE, LatencyRun
from benchmarks.latency.steps import NS_PER_MS, step_statistics
from benchmarks.windows import oracle
from benchmarks.windows.columns import PARTITIONS
from benchmarks.windows.exactness import fault
from benchmarks.windows.oracle import State
from benchmarks.windows.workload import Events
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics

_PREPARE_S, _ENCODED_PER_S = 2.0, 150_000
_PATIENCE_S = 120.0
PRIME_RATE, PRIME_EVENTS = 1_000, 200
"""What comes before all else: the warm-up begins when its first results are out."""
_LOOK_S = 0.1


@dataclass(frozen=True)
class Stage:
    """What all contenders share."""

    cluster: Cluster
    broker_pids: Callable[[], list[int]]
    folder: Path
    java: Path
    streams_jars: Sequence[Path]
    job: Job
    window_ms: int


@dataclass
class Evidence:
    """What a run left behind."""

    changelog: Sightings
    readable: Sightings
    states: dict[str, State] = field(repr=False)
    """By place: what stands there in the end."""
    more: dict[str, Ints] = field(default_factory=dict)
    """Moments of further places by event, ns."""
    steps: dict[str, Floats] = field(default_factory=dict)
    """Of every event, ms."""
    epoch_ms: float | None = None
    commits: dict[str, float] = field(default_factory=dict)


class Contest(ABC):
    """`run` once."""

    def __init__(self, stage: Stage, contender: str, pair: int, plan: Plan) -> None:
        self.stage = stage
        self.contender = contender
        self.pair = pair
        self.plan = plan
        self.name = f"b3-{contender}-{plan.rate}-{pair}"
        self.topic = f"{self.name}.events"
        self.folder = stage.folder / self.name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    @abstractmethod
    def running(self) -> AbstractContextManager[None]:
        """The contender with its readers; entered once it takes events."""

    @abstractmethod
    def pids(self) -> list[int]:
        """Its living processes."""

    @abstractmethod
    def primed(self) -> bool:
        """Has anything come out? Raises UnavailableError when the contender has ended."""

    @abstractmethod
    def done(self) -> bool:
        """Has every event come out? Raises UnavailableError when the contender has ended."""

    @abstractmethod
    def evidence(self, events: Events, due_ns: Ints) -> Evidence:
        """After its end: what was seen when."""

    @abstractmethod
    def written_topics(self) -> list[str]:
        """To be deleted after the run."""

    def run(self) -> LatencyRun:
        """Raises UnavailableError with the place of the log when the contender ends early or does not end."""
        ensure_topics(self.stage.cluster, [topics.events(self.topic, PARTITIONS)])
        try:
            return self._run()
        finally:
            admin = AdminClient(self.stage.cluster.librdkafka())
            for future in admin.delete_topics([self.topic, *self.written_topics()]).values():
                future.exception(30)

    def _run(self) -> LatencyRun:
        began, sent = time.monotonic(), Sent()
        with self.running(), Sampler(self.pids) as sampler, Sampler(self.stage.broker_pids) as broker:
            self._send(sent, Plan(PRIME_RATE, PRIME_EVENTS, 0, 0, self.plan.seed), self.primed)
            start_s = time.monotonic() - began
            late = self._send(sent, self.plan, self.done)
            load = round(os.getloadavg()[0], 1)
        events, due_ns, measured = sent.events, sent.due_ns, self.measured
        found = self.evidence(events, due_ns)
        delays, wrong = self._delays(events, due_ns, found)
        first_s, last_s = (due_ns[number] / 1e9 for number in (measured.start, measured.stop - 1))
        return LatencyRun(
            contender=self.contender,
            pair=self.pair,
            rate=self.plan.rate,
            events=self.plan.measured,
            delays={place: summary(one) for place, one in delays.items()},
            curves={place: curve(one) for place, one in delays.items()},
            start_s=round(start_s, 2),
            cpu_s=round(cpu_between(sampler.samples, first_s, last_s), 2),
            broker_cpu_s=round(cpu_between(broker.samples, first_s, last_s), 2),
            memory_mb_peak=round(max(sample.memory_mb for sample in sampler.samples)),
            load=load,
            generator_late_ms=late,
            exact=wrong is None,
            fault=wrong,
            epoch_ms=found.epoch_ms,
            steps=step_statistics({name: one[measured] for name, one in found.steps.items()}),
            commits=found.commits,
        )

    def _delays(self, events: Events, due_ns: Ints, found: Evidence) -> tuple[dict[str, Floats], str | None]:
        """Each place's latencies of the measured events; and what is wrong with the output."""
        moments = {
            CHANGELOG: first_seen(events, self.stage.window_ms, found.changelog),
            READABLE: first_seen(events, self.stage.window_ms, found.readable),
            **found.more,
        }
        expected, _ = oracle.expected(events.backlog, oracle.TICKS, self.stage.window_ms, self.stage.window_ms)
        faults = [
            f"{place}: {fault(state, expected)}" for place, state in found.states.items() if state != expected
        ]
        faults += [
            f"{place}: {int((at < 0).sum())} events never came" for place, at in moments.items() if (at < 0).any()
        ]
        delays = {place: ((at - due_ns) / NS_PER_MS)[self.measured] for place, at in moments.items()}
        delays[APPENDED_READABLE] = ((moments[READABLE] - moments[CHANGELOG]) / NS_PER_MS)[self.measured]
        return delays, "; ".join(faults) or None

    @property
    def events(self) -> int:
        """How many are sent in all."""
        return PRIME_EVENTS + self.plan.events

    @property
    def measured(self) -> slice:
        """Which of them count."""
        first = PRIME_EVENTS + self.plan.warm
        return slice(first, first + self.plan.measured)

    def _send(self, sent: Sent, plan: Plan, done: Callable[[], bool]) -> dict[str, float]:
        """Have a plan's events sent by a process, and wait until `done`. Returns how late the process was, ms."""
        start_ns = time.time_ns() + int((_PREPARE_S + plan.events / _ENCODED_PER_S) * 1e9)
        late = self.folder / f"generator-{start_ns}.json"
        header = Codec(self.stage.job.event_schema).header.hex()
        numbers = [str(one) for one in (plan.pace, plan.events, plan.seed, start_ns)]
        where = [self.stage.cluster.bootstrap, self.topic, header]
        sender = subprocess.Popen([sys.executable, "-m", "benchmarks.latency.load", *where, *numbers, str(late)])
        try:
            allowed_s = plan.seconds + (start_ns - time.time_ns()) / 1e9
            self.wait(lambda: sender.poll() is not None, "get its events", allowed_s)
        finally:
            sender.kill()
            sender.wait()
        if sender.returncode:
            raise UnavailableError(f"the generator of {self.name} ended with an error, shown above")
        self.wait(done, "come to an end")
        sent.add(plan, start_ns)
        return dict(json.loads(late.read_text(encoding="utf-8")))

    def wait(self, done: Callable[[], bool], what: str, expected_s: float = 0.0) -> None:
        """Look until it is done; raises UnavailableError after the expected time and two minutes."""
        deadline = time.monotonic() + expected_s + _PATIENCE_S
        while not done():
            if time.monotonic() > deadline:
                raise UnavailableError(f"{self.name} does not {what}; its logs: {self.folder}")
            time.sleep(_LOOK_S)


class Sent:
    """The events of a run so far, and when each was due."""

    def __init__(self) -> None:
        none = np.array([], dtype=np.int64)
        self.events, self.due_ns = Events(none, none, none), none

    def add(self, plan: Plan, start_ns: int) -> None:
        more, known = plan.made(start_ns), self.events
        self.events = Events(
            np.r_[known.key, more.key], np.r_[known.time_ms, more.time_ms], np.r_[known.value, more.value]
        )
        self.due_ns = np.r_[self.due_ns, plan.due_ns(start_ns)]

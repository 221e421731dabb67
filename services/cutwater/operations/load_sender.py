"""Sends the events of a load to a job's source topic, each when it is due."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.events.event_producer import Encoded, EventWriter
from cutwater.adapters.events.registry import Registry
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UsageError
from cutwater.core.events.rejection import Flaw
from cutwater.core.job.job import Job
from cutwater.core.load.load_draw import Drawn, Events
from cutwater.core.load.rate_profile import RateProfile
from cutwater.core.load.recorded_draw import Recorded
from cutwater.operations.event_sample import judge_records
from cutwater.operations.topic_sample import sample

STEP_S = 0.005
BATCH_MAX = 1_000
"""Events between two looks at the clock."""


@dataclass(frozen=True)
class LoadPlan:
    profile: RateProfile
    seconds: float
    events_max: int | None = None

    @property
    def events(self) -> int:
        """How many events the load has."""
        by_time = int(self.profile.sent_by(self.seconds))
        return by_time if self.events_max is None else min(by_time, self.events_max)


class Delivery(NamedTuple):
    """What a load has sent. Every event is acknowledged."""

    kinds: dict[str, int]
    """Events by kind."""
    seconds: float
    behind_s: float
    """How far the sending was behind the plan at most."""

    @property
    def events(self) -> int:
        return sum(self.kinds.values())


class Clock(NamedTuple):
    now_s: Callable[[], float] = time.monotonic
    since_1970_ns: Callable[[], int] = time.time_ns
    sleep: Callable[[float], None] = time.sleep


def send_load(
    writer: EventWriter, events: Events, plan: LoadPlan, report: Callable[[int], None], clock: Clock | None = None
) -> Delivery:
    """Send the load and wait for its acknowledgements; Ctrl-C ends it early. Raises as `EventWriter.send`."""
    clock = clock or Clock()
    sent, kinds, behind_s, whole = 0, Counter[str](), 0.0, plan.events
    began_s = clock.now_s()
    try:
        while sent < whole:
            at_s = clock.now_s() - began_s
            due = min(int(plan.profile.sent_by(at_s)), whole)
            behind_s = max(behind_s, (due - sent) / plan.profile.rate_at(at_s))
            at_ms = clock.since_1970_ns() // 1_000_000
            for _ in range(min(due - sent, BATCH_MAX)):
                drawn = events.next(at_s, at_ms)
                _send(writer, drawn)
                kinds[drawn.kind] += 1
                sent += 1
            report(sent)
            writer.poll(0)
            if sent == due < whole:
                clock.sleep(STEP_S)
    except KeyboardInterrupt:
        pass
    writer.flush()
    return Delivery(dict(kinds), clock.now_s() - began_s, behind_s)


def _send(writer: EventWriter, drawn: Drawn) -> None:
    if drawn.event is None:
        writer.send_encoded(Encoded(None, drawn.value))
    else:
        writer.send(drawn.event)


def read_recorded(
    cluster: Cluster, job: Job, registry: Registry | None, topic: str, records_max: int
) -> list[Recorded]:
    """Return the newest usable events of a topic in the job's format, in the order of their timestamps.

    Raises UsageError if there is none, the topic does not exist, or only Spark can tell which records are events.
    """
    found = sample(cluster, topic, records_max)
    found.sort(key=lambda one: one.timestamp_ms or 0)
    fields = {one["name"] for one in job.event_schema["fields"]}
    made = [
        Recorded({name: value for name, value in event.items() if name in fields}, event[job.time_field])
        for _, event in judge_records(job, found, known_schemas(job, registry))
        if not isinstance(event, Flaw)
    ]
    if not made:
        raise UsageError(f"none of the {len(found):,} newest records of {topic} is an event of job {job.name}")
    return made

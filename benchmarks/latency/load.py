"""Events at a steady rate, by a process of its own: whoever measures shall not slow it down.

An event is *due* at `start + number / rate`, or as its second's number says. Its latency counts from that moment,
whenever it was sent: a generator that stalls together with the machine would hide the stall. Everything follows
from the plan, so that nothing has to be told back but how late the generator itself was.

python -m benchmarks.latency.load BOOTSTRAP TOPIC HEADER_HEX PACE EVENTS SEED START_NS RESULT
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, Message, Producer
from numpy.typing import NDArray

from benchmarks.windows import workload
from benchmarks.windows.columns import PARTITIONS
from benchmarks.windows.workload import Events, key_name
from cutwater.adapters.kafka.client_config import Cluster

LINGER_MS = 5
_STEP_S = 0.001
_NS_PER_S = 1_000_000_000
_FLUSH_S = 60.0


@dataclass(frozen=True)
class Plan:
    """What is sent in a run: events of a warm-up, the measured ones, and a tail after which nothing counts."""

    rate: int
    """Events per second."""
    warm: int
    measured: int
    tail: int
    seed: int
    profile: tuple[int, ...] = ()
    """If not empty: the events of each second, which come evenly within it. `rate` is then only a name."""

    @classmethod
    def of_pace(cls, pace: str, events: int, seed: int) -> Plan:
        """What a sender has to know of a plan. `pace`: as of a plan."""
        profile = tuple(map(int, pace.split(",")))
        return cls(profile[0], 0, events, 0, seed, profile if len(profile) > 1 else ())

    @property
    def pace(self) -> str:
        """The rate, or the profile's numbers."""
        return ",".join(map(str, self.profile)) or str(self.rate)

    @property
    def events(self) -> int:
        return self.warm + self.measured + self.tail

    @property
    def seconds(self) -> float:
        return len(self.profile) or self.events / self.rate

    def due_ns(self, start_ns: int) -> NDArray[np.int64]:
        """When each event is due, ns since 1970."""
        if not self.profile:
            return start_ns + np.arange(self.events, dtype=np.int64) * _NS_PER_S // self.rate
        counts = np.array(self.profile, dtype=np.int64)
        second = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        within = np.arange(len(second), dtype=np.int64) - (np.cumsum(counts) - counts)[second]
        due = start_ns + second * _NS_PER_S + within * _NS_PER_S // counts[second]
        return due.astype(np.int64)

    def made(self, start_ns: int) -> Events:
        """The events, with the moment at which each is due as its event time."""
        drawn = workload.generate(self.events, self.seed)
        return Events(drawn.key, self.due_ns(start_ns) // 1_000_000, drawn.value)


def send(
    cluster: Cluster, topic: str, values: Sequence[bytes], keys: Sequence[int], due_ns: Sequence[int]
) -> dict[str, Any]:
    """Send each event when it is due. Returns how late this process was, ms; raises SystemExit on a failure."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    settings = {"enable.idempotence": True, "linger.ms": LINGER_MS, "compression.type": "lz4", "log_level": 3}
    producer = Producer({**cluster.librdkafka(), **settings, "queue.buffering.max.messages": 1_000_000})
    producer.list_topics(topic, timeout=20)  # connections and leaders before the first event
    names = [key_name(number).encode() for number in range(workload.KEYS)]
    late_ns, number, events = [], 0, len(values)
    while number < events and not failures:
        now = time.time_ns()
        first = number
        while number < events and due_ns[number] <= now:
            key = keys[number]
            producer.produce(
                topic, value=values[number], key=names[key], partition=key % PARTITIONS, on_delivery=delivered
            )
            number += 1
        if number > first:
            late_ns.append(now - due_ns[first])
        producer.poll(_STEP_S)
    left = producer.flush(_FLUSH_S)
    if failures or left:
        raise SystemExit(f"{topic}: {left or len(failures)} events were not acknowledged: {failures[:1]}")
    p50, p99, most = (float(one) / 1e6 for one in np.percentile(late_ns, (50, 99, 100)))
    return {"p50": round(p50, 3), "p99": round(p99, 3), "max": round(most, 3)}


def main(arguments: Sequence[str]) -> None:
    bootstrap, topic, header = arguments[:3]
    events, seed, start_ns = map(int, arguments[4:7])
    plan = Plan.of_pace(arguments[3], events, seed)
    made, due_ns = plan.made(start_ns), plan.due_ns(start_ns)
    values = list(workload.encode(made, bytes.fromhex(header)))
    late = send(Cluster(bootstrap), topic, values, made.key.tolist(), due_ns.tolist())
    Path(arguments[7]).write_text(json.dumps(late), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

"""One contender of `publish`, in a process of its own: it says "ready", waits for a line, works, says its figures.

python -m benchmarks.publishing.contender cutwater|bare-loop BOOTSTRAP LAST_SEQUENCE
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from confluent_kafka import Producer

from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.publisher.handover.state_stores import StateStores
from cutwater.publisher.metrics import Metrics
from cutwater.publisher.publisher import Publisher
from cutwater.publisher.sources.changed_rows import Changed
from cutwater.views.changelog.milestone_rows import Updates
from cutwater.views.changelog.range_reader import Ranges

CUTWATER, BARE = "cutwater", "bare-loop"
GENERATION = Generation(1, "local")
JOB_FILE = Path(__file__).parents[1] / "jobs" / "publish.yaml"

Records = list[tuple[int, bytes | None, bytes]]
"""(partition, key, value) of one transaction."""


class ReadyLog:
    """A publisher's log: notes when it is ready. To take over an id takes librdkafka 0.06 s, or 0.5."""

    began = cpu = 0.0

    def info(self, event: str, **_: object) -> None:
        if event == "ready":
            self.began, self.cpu = time.monotonic(), time.process_time()

    def warning(self, event: str, **details: object) -> None:
        print(f"{event}: {details}", file=sys.stderr, flush=True)


class LastMilestoneMetrics(Metrics):
    """Tells when the last milestone is published: to ask the broker all the time would slow what is measured."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.reached = threading.Event()
        self._last = last

    def published(self, milestone: Milestone, now_ms: int) -> None:
        super().published(milestone, now_ms)
        if milestone.sequence == self._last:
            self.reached.set()


def publisher(cluster: Cluster, job: Job, last: int, go: Callable[[], None]) -> tuple[float, float]:
    """Seconds and CPU seconds from the moment it knows its position to the end of the last milestone."""
    metrics, log = LastMilestoneMetrics(last), ReadyLog()

    def source(ranges: Ranges, _generation: Generation) -> Changed:
        return Changed(Updates(job, ranges, now_ms))

    go()
    states = StateStores(Path("no-hand-over"), job)
    one = Publisher(cluster, job, GENERATION, source, states, metrics, log)
    thread = threading.Thread(target=one.run)
    thread.start()
    while thread.is_alive() and not metrics.reached.wait(0.1):
        pass
    assert metrics.reached.is_set(), "the publisher ended by itself"
    figures = time.monotonic() - log.began, time.process_time() - log.cpu
    one.stop()
    thread.join(30)
    return figures


def bare(cluster: Cluster, job: Job, last: int, go: Callable[[], None]) -> tuple[float, float]:
    """The records that stand on the output, in the same transactions, from memory: produce, commit, no more."""
    transactions, topic = records(cluster, job, last)[1:], topics.output(job.name)  # the first has no rows
    settings = {"transactional.id": "bare", "acks": "all", "linger.ms": 5, "compression.type": "lz4"}
    go()
    producer = Producer({**cluster.librdkafka(), **settings, "queue.buffering.max.messages": 200_000})
    producer.init_transactions(20)
    cpu, began = time.process_time(), time.monotonic()
    for transaction in transactions:
        producer.begin_transaction()
        for partition, key, value in transaction:
            producer.produce(topic, value=value, key=key, partition=partition)
        producer.commit_transaction(20)
    return time.monotonic() - began, time.process_time() - cpu


def records(cluster: Cluster, job: Job, transactions: int) -> list[Records]:
    """The output by transaction: an end marker closes each, in every partition."""
    found: list[Records] = [[] for _ in range(transactions)]
    consumer, topic = make_consumer(cluster), topics.output(job.name)
    for partition in range(job.shards.partitions):
        number = 0
        low, high = bounds(consumer, topic, partition)
        for message in read_range(consumer, topic, partition, low, high):
            found[number].append((partition, message.key(), message.value()))
            number += message.key() is None
    consumer.close()
    return found


def _go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def main(contender: str, bootstrap: str, last: str) -> None:
    """Prints one line of JSON."""
    work = publisher if contender == CUTWATER else bare
    took_s, cpu_s = work(Cluster(bootstrap), load_job(JOB_FILE), int(last), _go)
    memory_mb = psutil.Process().memory_info().rss / 1e6
    print(json.dumps({"took_s": took_s, "cpu_s": cpu_s, "memory_mb": memory_mb}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

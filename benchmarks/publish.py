"""Publishing: milestones from changelog to output, beside a bare transactional producer of the same records.

python -m benchmarks.publish --pairs 5 --size 1000000
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import psutil
import structlog
from confluent_kafka import Producer

from benchmarks import machine
from benchmarks.changelog import Changelog
from benchmarks.command import Command, Options, order, ratio_lines, say
from benchmarks.figures import Figure, Run, document, ratios
from cutwater.adapters import wire
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.hashing import row_hash
from cutwater.adapters.kafka import bounds, make_consumer, read_range
from cutwater.adapters.process import now_ms
from cutwater.core import topics
from cutwater.core.digest import fold
from cutwater.core.job import Job
from cutwater.core.output import End
from cutwater.core.records import Milestone
from cutwater.local.broker import Broker
from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.supervisor import Supervisor
from cutwater.publisher.metrics import Metrics
from cutwater.publisher.rows import Changed
from cutwater.publisher.service import Publisher
from cutwater.views.ranges import Ranges
from cutwater.views.updates import Updates

TITLE = "Publishing: changed rows of milestones to the output, a transaction each"
CUTWATER, BARE = "cutwater", "bare-loop"
CONTENDERS = (CUTWATER, BARE)
FIGURES = (
    Figure("rows", BARE, lambda run: run.events_per_s),
    Figure("cpu", BARE, lambda run: run.events_per_cpu_s),
)
MILESTONE_ROWS = 20_000
COMMAND = Command("publish", TITLE, CONTENDERS, size=1_000_000, size_max=5_000_000, of="rows", seeded=False)

Records = list[tuple[int, bytes | None, bytes]]
"""(partition, key, value) of one transaction."""


@dataclass
class Stage:
    """What both contenders work on."""

    cluster: Cluster
    job: Job
    changelog: Changelog
    expected: list[Records] | None = None
    """The output's records, transaction by transaction, as the publisher wrote them first."""


def run_publisher(stage: Stage, pair: int) -> Run:
    """From the first milestone after the seeded position to the end of the last."""
    stage.changelog.restart()
    job, metrics = stage.job, Watched(stage.changelog.milestones)

    def source(ranges: Ranges) -> Changed:
        return Changed(Updates(job, ranges, now_ms))

    generation = stage.changelog.generation
    publisher = Publisher(stage.cluster, job, generation, source, metrics, structlog.get_logger())
    thread = threading.Thread(target=publisher.run)
    cpu, began = time.process_time(), time.monotonic()
    thread.start()
    while thread.is_alive() and not metrics.reached.wait(0.1):
        pass
    took, cpu = time.monotonic() - began, time.process_time() - cpu
    publisher.stop()
    thread.join(30)
    written = records(stage.cluster, job, stage.changelog.milestones - 1)
    stage.expected = stage.expected or written
    return result(CUTWATER, pair, rows_in(written), took, cpu, fault(stage, written))


class Watched(Metrics):
    """Tells when the last milestone is published: to ask the broker all the time would slow what is measured."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.reached = threading.Event()
        self._last = last

    def published(self, milestone: Milestone, now_ms: int) -> None:
        super().published(milestone, now_ms)
        if milestone.sequence == self._last:
            self.reached.set()


def run_bare(stage: Stage, pair: int) -> Run:
    """The same records in the same transactions, from memory: produce, commit, and nothing else."""
    stage.changelog.restart()
    transactions = stage.expected or []
    topic = topics.output(stage.job.name)
    settings = {"transactional.id": f"bare-{pair}", "acks": "all", "linger.ms": 5, "compression.type": "lz4"}
    cpu, began = time.process_time(), time.monotonic()
    producer = Producer({**stage.cluster.librdkafka(), **settings, "queue.buffering.max.messages": 200_000})
    producer.init_transactions(20)
    for transaction in transactions:
        producer.begin_transaction()
        for partition, key, value in transaction:
            producer.produce(topic, value=value, key=key, partition=partition)
        producer.commit_transaction(20)
    took, cpu = time.monotonic() - began, time.process_time() - cpu
    written = records(stage.cluster, stage.job, len(transactions))
    wrong = fault(stage, written) or (None if written == transactions else "records differ from the publisher's")
    return result(BARE, pair, rows_in(written), took, cpu, wrong)


def fault(stage: Stage, written: list[Records]) -> str | None:
    """What is wrong with the output: count and digest of its rows, and the rows that each end marker says."""
    rows = without_times(written)
    digest = fold(row_hash(key or b"", value) for one in rows for _, key, value in one)
    if (sum(map(len, rows)), digest) != (stage.changelog.rows, stage.changelog.output_digest):
        return "count or digest of the rows differs from what was put on the changelog"
    for number, transaction in enumerate(written, 2):
        counts = Counter(partition for partition, key, _ in transaction if key is not None)
        ends = {partition: wire.decode(value) for partition, key, value in transaction if key is None}
        told = {at: (end.sequence, end.rows) for at, end in ends.items() if isinstance(end, End)}
        if told != {at: (number, counts[at]) for at in range(stage.job.shards.partitions)}:
            return f"the end markers of milestone {number} do not tell its rows"
    return None


def result(contender: str, pair: int, rows: int, took_s: float, cpu_s: float, wrong: str | None) -> Run:
    memory = psutil.Process().memory_info().rss / 1e6
    return Run(contender, pair, rows, 0.0, took_s, cpu_s, 0.0, 0.0, memory, wrong is None, wrong)


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


def without_times(transactions: list[Records]) -> list[Records]:
    """The rows alone: an end marker says when it was written."""
    return [[record for record in one if record[1] is not None] for one in transactions]


def rows_in(transactions: list[Records]) -> int:
    return sum(map(len, without_times(transactions)))


def bench(options: Options) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    about = machine.describe()
    work = options.out / "publish-work"
    shutil.rmtree(work, ignore_errors=True)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    broker = Broker(work.resolve() / "broker", find_java(), jars("kafka"))
    with Supervisor([broker.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        changelog = Changelog(broker.cluster, options.size, MILESTONE_ROWS)
        stage = Stage(broker.cluster, changelog.job, changelog)
        say(f"{changelog.rows:,} rows in {changelog.milestones - 1} milestones are on the changelog")
        run_publisher(stage, 0)  # warms the broker, and makes the records that the other contender writes
        runs: list[Run] = []
        for pair in range(1, options.pairs + 1):
            for name in order(options.contenders, pair):
                run = (run_publisher if name == CUTWATER else run_bare)(stage, pair)
                runs.append(replace(run, pair=pair))
                say(
                    f"pair {pair} {name:10} {run.events_per_s:9,.0f} rows/s, {run.events_per_cpu_s:,.0f} per CPU-s"
                )
            written = document("publish", about, runs, ratios(runs, CUTWATER, FIGURES))
            COMMAND.write(options.out, written, runs, [])
    shutil.rmtree(work, ignore_errors=True)
    return written


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, ratio_lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

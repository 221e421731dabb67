"""Publishing: milestones from changelog to output, beside a bare transactional producer of the same records.

python -m benchmarks.publish --pairs 5 --size 1000000
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
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
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.kafka import bounds, make_consumer, read_range
from cutwater.adapters.process import now_ms
from cutwater.core import topics
from cutwater.core.job import Job
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
    position, job = stage.changelog.restart(), stage.job

    def source(ranges: Ranges) -> Changed:
        return Changed(Updates(job, ranges, now_ms))

    generation = stage.changelog.generation
    publisher = Publisher(stage.cluster, job, generation, source, Metrics(), structlog.get_logger())
    thread = threading.Thread(target=publisher.run)
    cpu, began = time.process_time(), time.monotonic()
    thread.start()
    while not position.reached():
        time.sleep(0.01)
    took, cpu = time.monotonic() - began, time.process_time() - cpu
    publisher.stop()
    thread.join(30)
    written = records(stage.cluster, job, stage.changelog.milestones - 1)
    exact = stage.expected is None or without_times(written) == without_times(stage.expected)
    stage.expected = stage.expected or written
    fault = None if exact and stage.changelog.rows == rows_in(written) else "the output differs"
    return result(CUTWATER, pair, rows_in(written), took, cpu, fault)


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
    fault = None if written == transactions else "the output differs"
    return result(BARE, pair, rows_in(written), took, cpu, fault)


def result(contender: str, pair: int, rows: int, took_s: float, cpu_s: float, fault: str | None) -> Run:
    memory = psutil.Process().memory_info().rss / 1e6
    return Run(contender, pair, rows, 0.0, took_s, cpu_s, 0.0, 0.0, memory, fault is None, fault)


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

"""B2, windows: drain a backlog of events through sliding windows, beside bare Spark, Kafka Streams and Flink.

python -m benchmarks.b2 --pairs 5 --size 2000000 --shapes three-windows

Each contender drains it until its results are durable, and once more until they are readable.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka.admin import AdminClient

from benchmarks.harness import limits, machine
from benchmarks.harness.command import Command, Options, order, print_line, ratio_lines, write_results
from benchmarks.harness.figures import DURABLE, READABLE, Figure, Run, document, markdown, ratios
from benchmarks.windows import columns, oracle
from benchmarks.windows.contenders import Contest, Stage
from benchmarks.windows.readable_contest import READABLE_CONTENDERS, ReadableContest
from benchmarks.windows.shapes import CUTWATER, JAVA_PEERS, NOOP, SHAPED, SHAPES, STREAMS, THREE, WIDE, Shape
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.protocol import topics
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor
from cutwater.local.spark_runtime import archive_of, write_classes

TITLE = "B2: windows of a minute that slide, drained from a backlog"
CONTENDERS = (CUTWATER, NOOP, *JAVA_PEERS)
CONTESTS = {DURABLE: Contest, READABLE: ReadableContest}
"""By what ends the drain."""
BY_DEFAULT = (CUTWATER, NOOP, STREAMS)
"""Five pairs of all of them may take more than ten minutes on two cores."""


def figures(shape: str) -> tuple[Figure[Run], ...]:
    return (
        Figure(f"{shape}-durable", NOOP, lambda run: run.events_per_s),
        Figure(f"{shape}-warm", NOOP, lambda run: run.warm_events_per_s),
        Figure(f"{shape}-durable-cpu", NOOP, lambda run: run.events_per_cpu_s),
        *_beside_peers(f"{shape}-durable", f"{shape}-memory"),
    )


def readable_figures(shape: str) -> tuple[Figure[Run], ...]:
    return _beside_peers(f"{shape}-readable", f"{shape}-readable-memory")


def _beside_peers(rate: str, memory: str) -> tuple[Figure[Run], ...]:
    """`rate`, `memory`: names of figures; that of CPU follows from the first."""
    return tuple(
        Figure(name, peer, of)
        for peer in JAVA_PEERS
        for name, of in (
            (rate, lambda run: run.events_per_s),
            (f"{rate}-cpu", lambda run: run.events_per_cpu_s),
            (memory, lambda run: 1 / run.memory_mb_peak),
        )
    )


SIZE_MAX = 10_000_000
"""Spark keeps the plans of a hundred epochs; the first one is the drain's beginning."""
SHAPE_NAMES = tuple(one.name for one in SHAPES)


@dataclass(frozen=True)
class WindowOptions(Options):
    shapes: tuple[str, ...]
    until: tuple[str, ...]

    @property
    def entries(self) -> list[tuple[str, str]]:
        """The runs of a pair, in the order of the first one: (contender, what ends the drain)."""
        return [
            (name, until)
            for until in self.until
            for name in self.contenders
            if until == DURABLE or name in READABLE_CONTENDERS
        ]


@dataclass(frozen=True)
class WindowCommand(Command):
    """Has several shapes of windows over the same events, and two moments that may end a drain."""

    options: type[Options] = WindowOptions

    def add(self, add: Callable[..., Any]) -> None:
        add("--shapes", nargs="+", choices=SHAPE_NAMES, default=(THREE.name,), help=f"default: {THREE.name}")
        add("--until", nargs="+", choices=tuple(CONTESTS), default=tuple(CONTESTS), help="default: both")

    def wrong(self, options: WindowOptions) -> str:
        return "" if options.entries else f"{NOOP} has no output that becomes readable"


COMMAND = WindowCommand("b2", TITLE, CONTENDERS, size=2_000_000, size_max=SIZE_MAX, by_default=BY_DEFAULT)


def bench(options: Any) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    about = machine.describe()
    work = options.out / "b2-work"
    shutil.rmtree(work, ignore_errors=True)
    java = find_java()
    print_line("jars (fetched the first time only) …")
    kafka_jars = jars("kafka")
    broker = Broker(work.resolve() / "broker", java, kafka_jars)
    member = broker.supervised()
    with Supervisor([member]) as supervisor:
        supervisor.start(threading.Event())
        runs: list[Run] = []
        notes: list[str] = []
        filled: list[str] = []
        for shape in (one for one in SHAPES if one.name in options.shapes):
            stage, said = prepare(options, java, broker.cluster, member.child.pids, work.resolve(), shape, filled)
            notes += said
            if stage.job.topic not in filled:
                filled.append(stage.job.topic)
                rate = limits.consumer_rate(java, kafka_jars, broker.cluster, stage.job.topic, options.size)
                notes.append(f"Reading {stage.job.topic} and no more (ConsumerPerformance): {rate:,.0f} events/s.")
                print_line(notes[-1])
            for pair in range(1, options.pairs + 1):
                runs += contest(options, stage, pair)
                # After each pair: an interrupted run has results too.
                written = write(options.out, about, runs, notes)
    shutil.rmtree(work / "broker", ignore_errors=True)
    return written


def write(out: Path, about: dict[str, Any], runs: Sequence[Run], notes: Sequence[str]) -> dict[str, Any]:
    """The result files of the runs so far."""
    found: dict[str, dict[str, float]] = {}
    for shape in dict.fromkeys(str(run.shape) for run in runs):
        mine = [run for run in runs if run.shape == shape]
        found |= ratios([run for run in mine if run.until != READABLE], CUTWATER, figures(shape))
        found |= ratios([run for run in mine if run.until == READABLE], CUTWATER, readable_figures(shape))
    found |= of_shaping(runs)
    written = document("b2", about, runs, found)
    write_results(out, written, markdown(TITLE, written, runs, notes, of=name_of))
    return written


def of_shaping(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """What a condition, computed columns and a key of two columns cost: `wide` with and without them."""
    ours = [run for run in runs if run.contender == CUTWATER and run.until != READABLE]
    by_shape = [replace(run, contender=str(run.shape)) for run in ours]
    rates: tuple[Figure[Run], ...] = (
        Figure(f"{SHAPED.name}-durable", WIDE.name, lambda run: run.events_per_s),
        Figure(f"{SHAPED.name}-durable-cpu", WIDE.name, lambda run: run.events_per_cpu_s),
    )
    return ratios(by_shape, SHAPED.name, rates)


def name_of(run: Run) -> str:
    """Return what the runs of one line of the table have in common."""
    return f"{run.shape} {run.contender}{', readable' if run.until == READABLE else ''}"


class Wanted(Protocol):
    """What of a benchmark's options says which backlog is drained."""

    @property
    def size(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def contenders(self) -> tuple[str, ...]: ...


def prepare(
    options: Wanted,
    java: Path,
    cluster: Cluster,
    broker_pids: Any,
    folder: Path,
    shape: Shape = THREE,
    filled: Container[str] = (),
) -> tuple[Stage, list[str]]:
    """Generate the events, compute the right answer, and produce the events unless their topic is `filled`."""
    job, made = shape.job(), shape.generate(options.size, options.seed)
    size_ms, slide_ms = job.window.size_ms, job.window.slide_ms
    found, took_s = oracle.expected(made, shape.measures, size_ms, slide_ms, shape.where)
    expected = {(shape.key_text(key), start_ms): row for (key, start_ms), row in found.items()}
    notes = [
        f"{shape.name}: {options.size:,} events of seed {options.seed}, {len(expected):,} rows (key, window).",
        f"DuckDB over the same rows in memory, no stream: {options.size / took_s:,.0f} events/s.",
    ]
    print_line(" ".join(notes))
    if job.topic not in filled:
        ensure_topics(cluster, [topics.events(job.topic, columns.PARTITIONS)])
        seconds = columns.produce(cluster, job.topic, made, Codec(job.event_schema).header)
        print_line(f"produced in {seconds:.1f} s")
    peers = {name: one for name, one in shape.peers.items() if name in options.contenders}
    stage = Stage(
        cluster=cluster,
        broker_pids=broker_pids,
        folder=folder,
        java=java,
        spark_jars=jars("spark"),
        spark_classes=spark_classes(java),
        peer_jars={name: one.jars(print_line) for name, one in peers.items()},
        job=job,
        events=options.size,
        expected=expected,
        shape=shape,
    )
    return stage, notes


def spark_classes(java: Path) -> Path:
    """The archive of Spark's classes; it is written the first time."""
    archive = archive_of(java)
    if not archive.exists():
        print_line("the archive of Spark's classes (written the first time only) …")
        write_classes(archive)
    return archive


def contest(options: WindowOptions, stage: Stage, pair: int) -> list[Run]:
    """Every contender once until its results are durable, and once until they are readable."""
    runs = []
    entries = [one for one in options.entries if one[0] in stage.shape.contenders]
    for name, until in order(entries, pair):
        one = CONTESTS[until](stage, name, pair)
        runs.append(one.run())
        print_line(describe(runs[-1], options.pairs))
        forget(stage.cluster, one.written_topics)
    return runs


def forget(cluster: Cluster, names: Sequence[str]) -> None:
    """Delete the topics of a run that is over."""
    admin = AdminClient(cluster.librdkafka())
    for future in admin.delete_topics(list(names)).values() if names else ():
        future.exception(30)


def describe(run: Run, pairs: int) -> str:
    warm = f" (warm {run.warm_events_per_s:,.0f})" if run.warm_events_per_s else ""
    verdict = "exact" if run.exact else f"NOT EXACT: {run.fault}"
    return (
        f"{run.shape}, pair {run.pair}/{pairs} {run.contender:13} {run.until}: "
        f"{run.events_per_s:9,.0f} events/s{warm}, "
        f"{run.events_per_cpu_s:,.0f} per CPU-s, {run.memory_mb_peak:,.0f} MB, "
        f"started in {run.start_s:.1f} s, {verdict}"
    )


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, ratio_lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""B2, windows: drain a backlog of events through sliding windows, beside Spark without a sink and Kafka Streams.

python -m benchmarks.b2 --pairs 5 --size 2000000
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from benchmarks import contenders, limits, machine, oracle, workload
from benchmarks.contenders import CUTWATER, NOOP, STREAMS, Contest, Stage
from benchmarks.figures import Figure, Run, document, markdown, ratios
from cutwater.adapters.admin import ensure_topics
from cutwater.adapters.avro import Codec
from cutwater.adapters.cluster import Cluster
from cutwater.core import topics
from cutwater.core.errors import CutwaterError
from cutwater.local.broker import Broker
from cutwater.local.jars import jars, jars_from
from cutwater.local.java import find_java
from cutwater.local.supervisor import Supervisor

TITLE = "B2: windows of a minute sliding by 20 seconds, drained from a backlog"
CONTENDERS = (CUTWATER, NOOP, STREAMS)
FIGURES = (
    Figure("drain", NOOP, lambda run: run.events_per_s),
    Figure("warm", NOOP, lambda run: run.warm_events_per_s),
    Figure("cpu", NOOP, lambda run: run.events_per_cpu_s),
    Figure("drain", STREAMS, lambda run: run.events_per_s),
    Figure("cpu", STREAMS, lambda run: run.events_per_cpu_s),
    Figure("memory", STREAMS, lambda run: 1 / run.memory_mb_peak),
)
STREAMS_JARS = Path(__file__).with_name("jars") / "kafka-streams.toml"
SIZE_MAX = 10_000_000
"""Spark keeps the plans of a hundred epochs; the first one is the drain's beginning."""


@dataclass(frozen=True)
class Options:
    pairs: int
    size: int
    seed: int
    contenders: tuple[str, ...]
    out: Path


def parse(arguments: Sequence[str]) -> Options:
    """Exits with code 2 and the allowed values when an argument does not fit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.b2", description=TITLE)
    parser.add_argument("--pairs", type=between(1, 100), default=5, help="runs of each contender (default 5)")
    parser.add_argument(
        "--size", type=between(1_000, SIZE_MAX), default=2_000_000, help="events (default 2,000,000)"
    )
    parser.add_argument("--seed", type=int, default=7, help="of the generated events")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=CONTENDERS, help="default: all")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for results and logs")
    found = parser.parse_args(arguments)
    return Options(found.pairs, found.size, found.seed, tuple(found.contenders), found.out)


def between(least: int, most: int) -> Any:
    def number(text: str) -> int:
        if text.isdecimal() and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from {least:,} to {most:,}")

    return number


def order(names: Sequence[str], pair: int) -> list[str]:
    """The contenders of a pair, turned by one each time: none always runs on a machine that is warm or tired."""
    turn = (pair - 1) % len(names)
    return [*names[turn:], *names[:turn]]


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def bench(options: Options) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    about = machine.describe()
    work = options.out / "b2-work"
    shutil.rmtree(work, ignore_errors=True)
    java = find_java()
    if STREAMS in options.contenders:
        machine.require_compiler(java)
    say("jars (fetched the first time only) …")
    kafka_jars = jars("kafka")
    broker = Broker(work.resolve() / "broker", java, kafka_jars)
    member = broker.supervised()
    with Supervisor([member]) as supervisor:
        supervisor.start(threading.Event())
        stage, notes = prepare(options, java, broker.cluster, member.child.pids, work.resolve())
        rate = limits.consumer_rate(java, kafka_jars, broker.cluster, stage.job.topic, options.size)
        notes.append(f"Reading the topic and no more (ConsumerPerformance): {rate:,.0f} events/s.")
        say(notes[-1])
        runs: list[Run] = []
        for pair in range(1, options.pairs + 1):
            runs += contest(options, stage, pair)
            written = write(options.out, about, runs, notes)  # after each pair: an interrupted run has results too
    shutil.rmtree(work / "broker", ignore_errors=True)
    return written


def write(out: Path, about: dict[str, Any], runs: Sequence[Run], notes: Sequence[str]) -> dict[str, Any]:
    """The result files of the runs so far."""
    written = document("b2", about, runs, ratios(runs, CUTWATER, FIGURES))
    (out / "b2.json").write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    (out / "b2.md").write_text(markdown(TITLE, written, runs, notes), encoding="utf-8")
    return written


def prepare(
    options: Options, java: Path, cluster: Cluster, broker_pids: Any, folder: Path
) -> tuple[Stage, list[str]]:
    """Generate and produce the events once, and compute the right answer."""
    job = contenders.load()
    made = workload.generate(options.size, options.seed)
    expected, took_s = oracle.expected(made, job.window.size_ms, job.window.slide_ms)
    notes = [
        f"{options.size:,} events of seed {options.seed}, {len(expected):,} rows (key, window).",
        f"DuckDB over the same rows in memory, no stream: {options.size / took_s:,.0f} events/s.",
    ]
    ensure_topics(cluster, [topics.events(job.topic, workload.PARTITIONS)])
    seconds = workload.produce(cluster, job.topic, made, Codec(job.event_schema).header)
    say(f"{notes[0]} Produced in {seconds:.1f} s. {notes[1]}")
    stage = Stage(
        cluster=cluster,
        broker_pids=broker_pids,
        folder=folder,
        java=java,
        spark_jars=jars("spark"),
        streams_jars=jars_from(STREAMS_JARS) if STREAMS in options.contenders else (),
        job=job,
        events=options.size,
        expected=expected,
    )
    return stage, notes


def contest(options: Options, stage: Stage, pair: int) -> list[Run]:
    """Every contender once."""
    runs = []
    admin = AdminClient(stage.cluster.librdkafka())
    for name in order(options.contenders, pair):
        one = Contest(stage, name, pair)
        runs.append(one.run())
        say(describe(runs[-1], options.pairs))
        for future in admin.delete_topics(one.written_topics).values() if one.written_topics else ():
            future.exception(30)
    return runs


def describe(run: Run, pairs: int) -> str:
    warm = f" (warm {run.warm_events_per_s:,.0f})" if run.warm_events_per_s else ""
    verdict = "exact" if run.exact else f"NOT EXACT: {run.fault}"
    return (
        f"pair {run.pair}/{pairs} {run.contender:13} {run.events_per_s:9,.0f} events/s{warm}, "
        f"{run.events_per_cpu_s:,.0f} per CPU-s, {run.memory_mb_peak:,.0f} MB, "
        f"started in {run.start_s:.1f} s, {verdict}"
    )


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 1 when a run was not exact."""
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        written = bench(options)
    except CutwaterError as error:
        print(f"b2: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("b2: interrupted; broker and contenders have ended", file=sys.stderr)
        return 130
    for name, one in written["ratios"].items():
        say(f"{name}: {one['median']} ({one['min']} to {one['max']}, {one['pairs']} pairs)")
    say(f"written: {options.out / 'b2.json'}, {options.out / 'b2.md'}")
    return 0 if written["exact"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

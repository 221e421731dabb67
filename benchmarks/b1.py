"""B1, rehydrate: a changelog is restored to a RocksDB that can be asked, beside Kafka Streams on the same topic.

python -m benchmarks.b1 --pairs 5 --size 2000000
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import limits, machine, streams_program
from benchmarks.harness.command import Command, Options, order, print_line, ratio_lines, write_results
from benchmarks.harness.figures import Column, Figure, document, markdown, ratios
from benchmarks.latency.runs import broker
from benchmarks.rehydrate.contest import Contest, Restore, Stage
from benchmarks.rehydrate.ingest import ingest_rate
from benchmarks.rehydrate.log import Log
from benchmarks.rehydrate.streams import SETTINGS, StreamsContest
from benchmarks.rehydrate.view import NATIVE, ViewContest
from benchmarks.rehydrate.workloads import WORKLOADS
from cutwater.adapters.fetch.native_rows import usable
from cutwater.local.jars import jars, jars_from
from cutwater.local.java import find_java

TITLE = "B1: a changelog restored to a RocksDB that can be asked"
CUTWATER = "cutwater"
CONTENDERS = (CUTWATER, NATIVE, *SETTINGS)
DEFAULT_CONTENDERS = (CUTWATER, *((NATIVE,) if usable() else ()), *list(SETTINGS)[:2])
BY_NAME = {one.name: one for one in WORKLOADS}
DEFAULT_WORKLOADS = ("log-unique", "log-16-updates")
SIZE, SIZE_MAX = 2_000_000, 20_000_000


@dataclass(frozen=True)
class RestoreOptions(Options):
    workloads: tuple[str, ...]


@dataclass(frozen=True)
class RestoreCommand(Command):
    """Has workloads beside contenders."""

    options: type[Options] = RestoreOptions

    def add(self, add: Callable[..., Any]) -> None:
        add("--workloads", nargs="+", choices=sorted(BY_NAME), default=DEFAULT_WORKLOADS,
            help=f"default: {' '.join(DEFAULT_WORKLOADS)}")  # fmt: skip

    def wrong(self, options: Any) -> str:
        lacking = NATIVE in options.contenders and not usable()
        return f"{NATIVE} needs the optional module: make native" if lacking else ""


COMMAND = RestoreCommand(
    "b1", TITLE, CONTENDERS, SIZE, SIZE_MAX, of="records of each log, about", by_default=DEFAULT_CONTENDERS
)


COLUMNS: tuple[Column[Restore], ...] = (
    ("records/s", lambda run: run.events_per_s, ",.0f"),
    ("restore s", lambda run: run.drain_s, ".2f"),
    ("first read s", lambda run: run.first_read_s, ".2f"),
    ("start s", lambda run: run.start_s, ".2f"),
    ("CPU-s", lambda run: run.cpu_s, ".1f"),
    ("owed s", lambda run: run.settle_s, ".1f"),
    ("owed CPU-s", lambda run: run.settle_cpu_s, ".1f"),
    ("start CPU-s", lambda run: run.start_cpu_s, ".1f"),
    ("broker CPU-s", lambda run: run.broker_cpu_s, ".1f"),
    ("peak MB", lambda run: run.memory_mb_peak, ",.0f"),
    ("bound MB", lambda run: run.memory_mb_bound, ",.0f"),
)
FIGURES: tuple[tuple[str, Callable[[Restore], float]], ...] = (
    ("", lambda run: run.events_per_s),
    ("-first-read", lambda run: 1 / run.first_read_s),
    ("-cpu", lambda run: run.events / max(run.all_cpu_s, 1e-3)),
    ("-memory", lambda run: 1 / run.memory_mb_peak),
)
"""What follows the workload's name in that of a ratio, and the figure that is compared."""


def place(run: Restore) -> str:
    """What a line of the table is about."""
    return f"{run.workload}: {run.contender}"


def compared(runs: Sequence[Restore]) -> dict[str, dict[str, float]]:
    """Every figure of every workload beside every peer, without the optional module and with it."""
    found: dict[str, dict[str, float]] = {}
    for workload in dict.fromkeys(run.workload for run in runs):
        same = [run for run in runs if run.workload == workload]
        for ours, how in ((CUTWATER, ""), (NATIVE, "-native")):
            peers = [peer for peer in (*SETTINGS, CUTWATER) if peer != ours]
            figures = [Figure(f"{workload}{how}{name}", peer, value) for name, value in FIGURES for peer in peers]
            found |= ratios(same, ours, figures)
    return found


def bench(options: Any) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    about, java = machine.describe(), find_java()
    peers = any(name in SETTINGS for name in options.contenders)
    streams_jars = jars_from(streams_program.JARS) if peers else ()
    runs: list[Restore] = []
    notes: list[str] = []
    with broker(options.out / "b1-work") as (started, pids, folder):
        stage = Stage(started.cluster, pids, folder, java, streams_jars)
        logs = list(prepare(options, stage, notes))
        for pair in range(1, options.pairs + 1):
            for log in logs:
                for name in order(options.contenders, pair):
                    runs.append(contest(stage, log, name, pair).run())
                    print_line(describe(runs[-1], options.pairs))
            written = write(options.out, about, runs, notes)  # an interrupted run has results too
    return written


def write(out: Path, about: Mapping[str, Any], runs: Sequence[Restore], notes: Sequence[str]) -> dict[str, Any]:
    """The result files of the runs so far."""
    written = document("b1", about, runs, compared(runs))
    write_results(out, written, markdown(TITLE, written, runs, notes, COLUMNS, place))
    return written


def prepare(options: RestoreOptions, stage: Stage, notes: list[str]) -> Iterator[Log]:
    """Write each log once; notes what it holds, and how fast it could be read, and rows be stored, at best."""
    for name in options.workloads:
        log = Log(stage.cluster, BY_NAME[name], options.size, options.seed, stage.folder)
        if log.workload.tail:
            place = stage.folder / "snapshots" / name
            ViewContest(stage, log, "snapshot", 0).take_snapshot(place)
            log.add_tail(place)
        rate = limits.consumer_rate(stage.java, jars("kafka"), stage.cluster, log.topic, log.records)
        notes.append(
            f"{name}: {log.records:,} records, {log.rows:,} rows at the end, {log.milestones} milestones. "
            f"Reading them and no more (ConsumerPerformance): {rate:,.0f} records/s."
        )
        print_line(f"{notes[-1]} Written in {log.seconds:.1f} s.")
        yield log
    rate = ingest_rate(log.job, stage.folder / "ingest")
    notes.append(f"Sorted rows into a file that RocksDB takes in, one thread of Python: {rate:,.0f} rows/s.")
    print_line(notes[-1])


def contest(stage: Stage, log: Log, name: str, pair: int) -> Contest:
    return (StreamsContest if name in SETTINGS else ViewContest)(stage, log, name, pair)


def describe(run: Restore, pairs: int) -> str:
    verdict = "exact" if run.exact else f"NOT EXACT: {run.fault}"
    return (
        f"pair {run.pair}/{pairs} {run.workload:14} {run.contender:19} {run.events_per_s:9,.0f} records/s, first "
        f"read after {run.first_read_s:.1f} s, {run.cpu_s:.1f} + {run.settle_cpu_s:.1f} CPU-s, "
        f"{run.memory_mb_peak:,.0f} MB, {verdict}"
    )


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, ratio_lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

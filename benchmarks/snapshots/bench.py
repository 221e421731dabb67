"""Snapshots: taken while applying waits or beside it, often or only for the recovery objective.

python -m benchmarks.snapshots --size 800000 --seconds 30
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.harness import machine
from benchmarks.harness.command import Command, Options, between, order, print_line, ratio_lines, write_results
from benchmarks.harness.figures import Column, Figure, document, heading, medians, ratios, values_text
from benchmarks.latency.runs import broker
from benchmarks.rehydrate.log import Log
from benchmarks.rehydrate.workloads import Workload
from benchmarks.snapshots.contest import CONTENDERS, NONE, SnapshotContest, SnapshotRun, Stage

TITLE = "Snapshots of a view that applies its milestones"
SIZE, SIZE_MAX, PAIRS = 800_000, 20_000_000, 1
ROWS_PER_S, SECONDS, EVERY_S, RECOVERY_S, MB_PER_S = 10_000, 30, 5, 60, 100
OURS = "asynchronous-eager"
"""The default, but for the interval."""


@dataclass(frozen=True)
class SnapshotOptions(Options):
    rows: int
    seconds: int
    every: int
    store: int


@dataclass(frozen=True)
class SnapshotCommand(Command):
    options: type[Any] = SnapshotOptions

    def add(self, add: Callable[..., Any]) -> None:
        add("--rows", type=between(100, 250_000), default=ROWS_PER_S, help=f"a second (default {ROWS_PER_S:,})")
        add("--seconds", type=between(5, 3_600), default=SECONDS, help=f"of the steady part (default {SECONDS})")
        add("--every", type=between(1, 3_600), default=EVERY_S, help=f"seconds to the next eager one ({EVERY_S})")
        add("--store", type=between(1, 10_000), default=MB_PER_S, help=f"MB/s of the store (default {MB_PER_S})")


COMMAND = SnapshotCommand("snapshots", TITLE, CONTENDERS, SIZE, SIZE_MAX, of="rows of the view", pairs=PAIRS)


_LAZY = "asynchronous-lazy"
_PEERS = ("synchronous-eager", _LAZY, NONE)
RATES: tuple[tuple[str, tuple[str, ...], Callable[[SnapshotRun], float]], ...] = (
    ("delay-p99", _PEERS, lambda run: 1 / run.delays["view"]["p99"]),
    ("apply", _PEERS, lambda run: run.apply_rows_per_s),
    ("catch-up", _PEERS, lambda run: run.catch_up_rows_per_s),
    ("restore-killed", (_LAZY, NONE), lambda run: 1 / run.killed_restore_s),
    ("uploaded", (_LAZY,), lambda run: 1 / run.uploaded_mb),
    ("cpu", _PEERS, lambda run: 1 / run.cpu_s),
)
FIGURES = [Figure(name, peer, of) for name, peers, of in RATES for peer in peers]
COLUMNS: tuple[Column[SnapshotRun], ...] = (
    ("delay p50 ms", lambda run: run.delays["view"]["p50"], ",.0f"),
    ("p99", lambda run: run.delays["view"]["p99"], ",.0f"),
    ("max", lambda run: run.delays["view"]["max"], ",.0f"),
    ("applied rows/s", lambda run: run.apply_rows_per_s, ",.0f"),
    ("caught up rows/s", lambda run: run.catch_up_rows_per_s, ",.0f"),
    ("snapshots", lambda run: run.snapshots, ",.0f"),
    ("uploaded MB", lambda run: run.uploaded_mb, ",.0f"),
    ("restore, killed, s", lambda run: run.killed_restore_s, ".1f"),
    ("restore, stopped, s", lambda run: run.stopped_restore_s, ".1f"),
    ("CPU-s", lambda run: run.cpu_s, ".1f"),
)


def runs_of(options: SnapshotOptions) -> Iterator[SnapshotRun]:
    """Every contender of each pair over one log, which each of them finds longer."""
    with broker(options.out / "snapshots-work") as (started, _, folder):
        log = Log(started.cluster, Workload("snapshots", 1, tail=0.1), options.size, options.seed, folder)
        print_line(f"{log.records:,} rows written in {log.seconds:.1f} s")
        numbers = (options.rows, options.seconds, options.every, RECOVERY_S, options.store)
        stage = Stage(started.cluster, folder, log, *numbers)
        for pair in range(1, options.pairs + 1):
            for name in order(options.contenders, pair):
                yield SnapshotContest(stage, name, pair).run()


def bench(options: Any) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    about, runs, written = machine.describe(), list[SnapshotRun](), dict[str, Any]()
    for run in runs_of(options):
        runs.append(run)
        print_line(describe(run))
        written = write(options, about, runs)  # an interrupted run has results too
    return written


def write(options: SnapshotOptions, about: Mapping[str, Any], runs: Sequence[SnapshotRun]) -> dict[str, Any]:
    """The result files of the runs so far; returns the document."""
    written = document("snapshots", about, runs, ratios(runs, OURS, FIGURES), asdict) | {
        "rows_per_s": options.rows,
        "store_mb_per_s": options.store,
        "every_s": options.every,
    }
    write_results(options.out, written, "\n".join(result_lines(written, runs)) + "\n")
    return written


def describe(run: SnapshotRun) -> str:
    verdict = "exact" if run.exact else f"NOT EXACT: {run.fault}"
    return f"{run.contender:18} {values_text(run, COLUMNS)}, {verdict}"


def result_lines(written: Mapping[str, Any], runs: Sequence[SnapshotRun]) -> list[str]:
    """For people: medians per contender, then the ratios."""
    lines = heading(TITLE, written)
    lines += [
        f"{written['rows_per_s']:,} rows/s; an eager snapshot every {written['every_s']} s at most; a store of "
        f"{written['store_mb_per_s']} MB/s."
    ]
    lines += ["", *medians(runs, COLUMNS)]
    lines += ["", f"A ratio above 1 means that {OURS} is better.", ""]
    return lines + [f"- {one}" for one in ratio_lines(written["ratios"])]


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, ratio_lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

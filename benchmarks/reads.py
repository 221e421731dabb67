"""Reads: point reads at a steady rate of a view that follows its job, beside RocksDB alone on the same rows.

python -m benchmarks.reads --rate 1000 --seconds 60
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import machine
from benchmarks.harness.command import Command, between, print_line, write_results
from benchmarks.latency.runs import broker
from benchmarks.reading import bare
from benchmarks.reading.contest import Contest, ReadRun, Stage, percentiles
from benchmarks.reading.load import choices
from benchmarks.reading.timed_rehydrator import LAYERS
from benchmarks.rehydrate.log import GENERATION, Log
from benchmarks.rehydrate.workloads import Workload
from cutwater.views.store.folders import folder_of

TITLE = "Point reads of a view that follows its job"
SIZE, SIZE_MAX = 1_000_000, 20_000_000
RATE, SECONDS, WARM_S = 1_000, 60, 10
TIMED_SECONDS_MAX, TIMED_SLOWER = 20, 10
"""Layers are timed at a tenth of the rate: where requests queue, the waiting would count as the layers' time."""
BARE_READS = 20_000


@dataclass(frozen=True)
class Options:
    rate: int
    seconds: int
    size: int
    tail: int
    seed: int
    out: Path


@dataclass(frozen=True)
class ReadsCommand(Command):
    """Has a rate and a duration where the others have pairs."""

    def add(self, add: Callable[..., Any]) -> None:
        add("--rate", type=between(1, 100_000), default=RATE, help=f"requests per second (default {RATE:,})")
        add("--seconds", type=between(1, 3_600), default=SECONDS, help=f"that are measured (default {SECONDS})")
        add("--tail", type=between(0, 50_000), default=RATE, help=f"rows a second that come (default {RATE:,})")


COMMAND = ReadsCommand("reads", TITLE, (), SIZE, SIZE_MAX, of="rows of the view", options=Options)


def bench(options: Any) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    about = machine.describe()
    with broker(options.out / "reads-work") as (started, _, folder):
        log = Log(started.cluster, Workload("reads", 1, tail=0.1), options.size, options.seed, folder)
        rows = log.records  # more records come, no more rows
        print_line(f"{rows:,} rows of {log.groups:,} groups written in {log.seconds:.1f} s")
        stage = Stage(started.cluster, folder, log, options.tail, options.seed)
        slow = max(1, options.rate // TIMED_SLOWER)
        runs: list[ReadRun] = []
        for one in (
            Contest(stage, "plain", options.rate, options.seconds, WARM_S),
            Contest(stage, "timed", slow, min(options.seconds, TIMED_SECONDS_MAX), WARM_S),
        ):
            runs.append(one.run())
            print_line(describe(runs[-1]))
        where = folder_of(stage.state("plain"), log.job.name, GENERATION)
        wanted = choices(log.groups, BARE_READS, options.seed).tolist()
        alone = {
            "bare-gets": percentiles(bare.gets(where, log.job, wanted)),
            "bare-seeks": percentiles(bare.seeks(where, log.job, wanted)),
        }
    written = {
        "benchmark": "reads",
        "machine": about,
        "exact": all(run.exact for run in runs),
        "ratios": {},
        "rate": options.rate,
        "seconds": options.seconds,
        "rows": rows,
        "tail_rows_per_s": options.tail,
        "runs": [asdict(run) for run in runs],
        "bare_ms": alone,
    }
    write_results(options.out, written, "\n".join(result_lines(written)) + "\n")
    for line in result_lines(written):
        print_line(line)
    return written


def describe(run: ReadRun) -> str:
    verdict = "exact" if run.exact else f"NOT EXACT: {run.fault}"
    return (
        f"{run.contender}: {run.requests:,} requests at {run.rate:,}/s, due to answered {run.waited_ms}, sent to "
        f"answered {run.served_ms}; {run.milestones} milestones meanwhile, {run.cpu_s:.1f} CPU-s, {verdict}"
    )


def result_lines(written: Mapping[str, Any]) -> list[str]:
    """For people: waiting times, then where a request spends its time, then RocksDB alone."""
    plain, timed = written["runs"]
    head = ", ".join(f"{name} {value}" for name, value in written["machine"].items())
    lines = [f"# {TITLE}", "", f"{head}; every answer right: {'yes' if written['exact'] else '**no**'}.", ""]
    cores = plain["cpu_s"] / (WARM_S + written["seconds"])
    lines += [
        f"{written['rate']:,} requests/s of {written['rows']:,} rows, {written['tail_rows_per_s']:,} new rows/s; "
        f"the view's process used {cores:.2f} cores."
    ]
    lines += ["", "| ms | p50 | p99 | p99.9 |", "|---|---:|---:|---:|"]
    rows = {
        "due to answered": plain["waited_ms"],
        "sent to answered": plain["served_ms"],
        "RocksDB: 8 gets": written["bare_ms"]["bare-gets"],
        "RocksDB: seeks and 8 rows": written["bare_ms"]["bare-seeks"],
    }
    lines += [
        f"| {name} | {one['p50']:.3f} | {one['p99']:.3f} | {one['p99.9']:.3f} |" for name, one in rows.items()
    ]
    inside = sum(timed["layers_us"].values())
    whole = max(inside, timed["served_mean_us"])
    lines += ["", f"At {timed['rate']:,} requests/s:"]
    lines += ["", "| layer (mean of a request) | µs | share |", "|---|---:|---:|"]
    lines += [f"| HTTP: socket, server, queue, client | {whole - inside:,.0f} | {(whole - inside) / whole:.0%} |"]
    lines += [
        f"| {LAYERS[name]} | {spent:,.0f} | {spent / whole:.0%} |" for name, spent in timed["layers_us"].items()
    ]
    return lines


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, lambda _ratios: [])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

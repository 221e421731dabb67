"""Cadence: a job with an objective for readers through a spike, beside fixed intervals and bounds.

python -m benchmarks.cadence --size 4000 --seconds 60
python -m benchmarks.cadence --profile flights --seconds 300 --contenders controller
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.cadence.contest import FIXED, OBJECTIVE_MS, CadenceContest
from benchmarks.cadence.outcome import CONTROLLER, CadenceRun, best_fixed, ratios, verdict
from benchmarks.cadence.profiles import FLIGHTS, SPIKE, day_of_flights, plan_of, spike
from benchmarks.harness import machine
from benchmarks.harness.command import Command, Options, between, order, print_line, ratio_lines, write_results
from benchmarks.harness.figures import Column, document, heading, medians, values_text
from benchmarks.latency.runs import stage

TITLE = "Cadence: an objective for readers, beside fixed settings"
RATE, RATE_MAX, SECONDS, PAIRS = 4_000, 20_000, 60, 1
CONTENDERS = (CONTROLLER, *FIXED)
PROFILES = {SPIKE: spike, FLIGHTS: day_of_flights}
TRACE = "cadence-trace.json"
"""Of the controller's last run; tests/support/cadence has one that is kept."""


@dataclass(frozen=True)
class CadenceOptions(Options):
    seconds: int
    profile: str


@dataclass(frozen=True)
class CadenceCommand(Command):
    options: type[Any] = CadenceOptions

    def add(self, add: Callable[..., Any]) -> None:
        add("--seconds", type=between(30, 3_600), default=SECONDS, help=f"that are measured (default {SECONDS})")
        add("--profile", choices=PROFILES, default=SPIKE, help="what comes when (default: a spike)")


COMMAND = CadenceCommand(
    "cadence", TITLE, CONTENDERS, RATE, RATE_MAX, of="events a second, besides the spike of ten times as many",
    pairs=PAIRS,
)  # fmt: skip
COLUMNS: tuple[Column[CadenceRun], ...] = (
    ("missed s", lambda run: run.missed_s, ".0f"),
    ("p99 ms", lambda run: run.p99_ms, ",.0f"),
    ("epochs", lambda run: run.epochs, ",.0f"),
    ("CPU-s", lambda run: run.cpu_s, ".1f"),
)


def runs_of(options: CadenceOptions) -> Iterator[CadenceRun]:
    """Every contender of each pair; the controller's newest run is kept as a trace."""
    plan = plan_of(PROFILES[options.profile](options.size, options.seconds), options.seed)
    about = f"{options.profile}, {options.size:,} events/s on the mean or besides a spike, {options.seconds} s"
    with stage(options.out / "cadence-work", ()) as on:
        for pair in range(1, options.pairs + 1):
            for name in order(options.contenders, pair):
                contest = CadenceContest(on, name, pair, plan)
                yield contest.run_cadence()
                if (found := contest.recorded(about)) is not None:
                    (options.out / TRACE).write_text(json.dumps(found) + "\n", encoding="utf-8")


def bench(options: Any) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    about, runs, written = machine.describe(), list[CadenceRun](), dict[str, Any]()
    for run in runs_of(options):
        runs.append(run)
        print_line(describe(run))
        written = write(options, about, runs)  # an interrupted run has results too
    for line in written["verdicts"]:
        print_line(line)
    return written


def write(options: CadenceOptions, about: Mapping[str, Any], runs: Sequence[CadenceRun]) -> dict[str, Any]:
    """The result files of the runs so far; returns the document."""
    found = ratios(runs, OBJECTIVE_MS)
    written = document("cadence", about, runs, found, asdict) | {
        "profile": options.profile,
        "seconds": options.seconds,
        "verdicts": verdict(found, best_fixed(runs, OBJECTIVE_MS)),
    }
    write_results(options.out, written, "\n".join(result_lines(written, runs)) + "\n")
    return written


def describe(run: CadenceRun) -> str:
    told = "exact" if run.exact else f"NOT EXACT: {run.fault}"
    return f"pair {run.pair} {run.contender:16} {values_text(run, COLUMNS)}, {told}"


def result_lines(written: Mapping[str, Any], runs: Sequence[CadenceRun]) -> list[str]:
    """For people: medians per contender, then the ratios."""
    lines = heading(TITLE, written)
    lines += [f"Readable within {OBJECTIVE_MS} ms; {written['profile']}, {written['seconds']} s.", ""]
    lines += medians(runs, COLUMNS)
    lines += ["", "A ratio above 1 means that the controller is better.", ""]
    return lines + [f"- {one}" for one in (*ratio_lines(written["ratios"]), *written["verdicts"])]


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, ratio_lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

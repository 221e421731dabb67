"""B3, latency: a windowed count at a steady rate, from event to changelog and to readable milestone.

python -m benchmarks.b3 --pairs 2 --size 30000
python -m benchmarks.b3 --rates 1000 10000 50000
python -m benchmarks.b3 --contenders cutwater tuned --set CUTWATER_TRIGGER_MS=0 spark.ui.enabled=false
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.harness import machine
from benchmarks.harness.command import Command, print_line, ratio_lines, write_results
from benchmarks.latency import limits, report
from benchmarks.latency.outcome import CHANGELOG, READABLE, LatencyRun
from benchmarks.latency.plot import draw
from benchmarks.latency.runs import (
    CONTENDERS,
    CUTWATER,
    RATES,
    TUNED,
    WARM_S,
    Options,
    add_arguments,
    contests,
    setting,
    stage,
)

TITLE = "B3: latency of a windowed count at a steady rate"
PAIRS, SIZE = 2, 30_000


@dataclass(frozen=True)
class LatencyCommand(Command):
    """Has rates and settings beside what every benchmark has."""

    def parse(self, arguments: Sequence[str]) -> Any:
        """Exits with code 2 and the allowed values when an argument does not fit."""
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{self.name}", description=self.title)
        add_arguments(parser, PAIRS, SIZE)
        add = parser.add_argument
        add("--rates", nargs="+", type=int, choices=RATES, default=RATES[:1], help="events/s (default 1000)")
        add("--warm", type=float, default=WARM_S, help=f"seconds before the measured events (default {WARM_S:g})")
        add("--contenders", nargs="+", choices=(*CONTENDERS, TUNED), default=CONTENDERS,
            help=f"default: all but {TUNED}, which is ours with other settings")  # fmt: skip
        add("--set", nargs="+", type=setting, default=[], metavar="NAME=VALUE",
            help=f"settings of {TUNED}: CUTWATER_..., spark..., java.options")  # fmt: skip
        one = parser.parse_args(arguments)
        return Options(
            one.pairs,
            one.size,
            one.seed,
            tuple(one.rates),
            one.warm,
            tuple(one.contenders),
            dict(one.set),
            one.out,
        )


COMMAND = LatencyCommand("b3", TITLE, CONTENDERS, SIZE, 10_000_000)


def bench(options: Any) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    about, runs = machine.describe(), list[LatencyRun]()
    written: dict[str, Any] = {}
    with stage(options.out / "b3-work", options.contenders) as on:
        allowed = {"produce to consume ping": limits.ping_ms(on.cluster)}
        print_line(f"limit: {allowed}")
        for run in contests(options, on):
            runs.append(run)
            written = write(options, about, runs, allowed)  # an interrupted run has results too
    return written


def write(
    options: Options, about: Mapping[str, Any], runs: Sequence[LatencyRun], allowed: Mapping[str, Any]
) -> dict[str, Any]:
    """The result files and the picture of the runs so far."""
    found = report.ratios(runs, CUTWATER, (CHANGELOG, READABLE))
    written = report.document("b3", about, runs, found, allowed)
    written["verdicts"] = report.verdicts(runs, CUTWATER)
    if options.settings:
        written["tuned"] = dict(options.settings)
    write_results(options.out, written, report.markdown(TITLE, written, runs, written["verdicts"]))
    draw(runs, CUTWATER, options.out / "b3.png")
    return written


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, ratio_lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""B6, commit: what the protocol costs in throughput, and how long a commit takes until others can read it.

python -m benchmarks.b6 --pairs 3 --size 4000000
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import b2
from benchmarks.harness import machine
from benchmarks.harness.command import Command, Options, order, print_line, ratio_lines, write_results
from benchmarks.harness.figures import Figure, Run, ratios
from benchmarks.harness.figures import document as runs_document
from benchmarks.harness.figures import markdown as runs_markdown
from benchmarks.latency import limits, report
from benchmarks.latency import runs as latency_runs
from benchmarks.latency.outcome import APPENDED_READABLE, LatencyRun
from benchmarks.windows.contenders import Stage
from benchmarks.windows.protocol_contest import BARE, ProtocolContest
from benchmarks.windows.shapes import CUTWATER
from cutwater.local.java import find_java

TITLE = "B6: what the commit protocol costs, and how long a commit takes"
PAIRS, SIZE = 3, 4_000_000
"""With a million events the first epoch, in which the JVM compiles, is a third of the drain."""
FIGURES: tuple[Figure[Run], ...] = (
    Figure("throughput", BARE, lambda run: run.events_per_s),
    Figure("warm-throughput", BARE, lambda run: run.warm_events_per_s),
    Figure("cpu", BARE, lambda run: run.events_per_cpu_s),
)
THROUGHPUT_MIN = 0.9
LATENCY_SIZE, LATENCY_PAIRS_MAX = 20_000, 2
PEERS = (latency_runs.CUTWATER, latency_runs.EXACTLY)


@dataclass(frozen=True)
class CommitOptions(Options):
    parts: tuple[str, ...]

    @property
    def latency(self) -> latency_runs.Options:
        pairs = min(self.pairs, LATENCY_PAIRS_MAX)
        return latency_runs.Options(
            pairs, LATENCY_SIZE, self.seed, (latency_runs.RATE,), latency_runs.WARM_S, PEERS
        )


@dataclass(frozen=True)
class CommitCommand(Command):
    """Has two parts that can be run alone."""

    options: type[Options] = CommitOptions

    def add(self, add: Callable[..., Any]) -> None:
        parts = ("throughput", "latency")
        add("--parts", nargs="+", choices=parts, default=parts, help="default: both")


COMMAND = CommitCommand("b6", TITLE, (CUTWATER, BARE), SIZE, b2.SIZE_MAX, pairs=PAIRS)


class Results:
    """Grows with each run; `write` gives the files of the runs so far."""

    def __init__(self, options: CommitOptions) -> None:
        self._options = options
        self._about = machine.describe()
        self.drains: list[Run] = []
        self.latencies: list[LatencyRun] = []
        self.limits: dict[str, Any] = {}

    def write(self) -> dict[str, Any]:
        found = ratios(self.drains, CUTWATER, FIGURES)
        shown = report.ratios(self.latencies, CUTWATER, (APPENDED_READABLE,))
        latency = report.document("b6", self._about, self.latencies, shown, self.limits)
        drain = runs_document("b6", self._about, self.drains, found)
        exact = all(run.exact for run in self.drains) and all(run.exact for run in self.latencies)
        written = {
            **latency, "exact": exact, "ratios": {**found, **shown}, "runs": [*drain["runs"], *latency["runs"]]
        }  # fmt: skip
        said = verdicts(found)
        parts = []
        if self.drains:
            parts.append(runs_markdown(TITLE, {**drain, "exact": exact}, self.drains, said))
        if self.latencies:
            parts.append(
                report.markdown("A commit, at a steady rate", latency, self.latencies, commits(self.latencies))
            )
        write_results(self._options.out, written, "\n".join(parts))
        return written


def verdicts(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Is the protocol cheap enough?"""
    known = {name: one["median"] for name, one in found.items() if name.startswith("throughput/")}
    return [
        f"{name}: {ratio} (at least {THROUGHPUT_MIN}: {'kept' if ratio >= THROUGHPUT_MIN else 'not kept'})"
        for name, ratio in known.items()
    ]


def commits(runs: Sequence[LatencyRun]) -> list[str]:
    """What contenders tell of their commits themselves."""
    return [
        f"{run.contender}, pair {run.pair}, by its own metrics: "
        + ", ".join(f"{name} {value:g}" for name, value in sorted(run.commits.items()))
        for run in runs
        if run.commits
    ]


def bench(options: Any) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    results, written = Results(options), dict[str, Any]()
    if "throughput" in options.parts:
        for run in drains(options):
            results.drains.append(run)
            written = results.write()  # an interrupted run has results too
    if "latency" in options.parts:
        with latency_runs.stage(options.out / "b6-work", PEERS) as on:
            results.limits = {
                "a transaction of one empty record": limits.transaction_ms(on.cluster),
                "produce to consume ping": limits.ping_ms(on.cluster),
            }
            for one in latency_runs.contests(options.latency, on):
                results.latencies.append(one)
                written = results.write()
    return written


def drains(options: CommitOptions) -> Iterator[Run]:
    """Every contender of the throughput, pair by pair, over one backlog."""
    with latency_runs.broker(options.out / "b6-work") as (broker, pids, work):
        stage, _ = b2.prepare(options, find_java(), broker.cluster, pids, work)
        for pair in range(1, options.pairs + 1):
            for name in order(options.contenders, pair):
                yield drained(stage, name, pair, options.pairs)


def drained(stage: Stage, name: str, pair: int, pairs: int) -> Run:
    one = ProtocolContest(stage, name, pair)
    run = one.run()
    print_line(b2.describe(run, pairs))
    b2.forget(stage.cluster, one.written_topics)
    return run


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, ratio_lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

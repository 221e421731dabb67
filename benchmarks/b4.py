"""B4, mirror: topics copied from one broker to another, beside MirrorMaker 2.

python -m benchmarks.b4 --pairs 5 --size 1000000
python -m benchmarks.b4 --parts lag --seconds 60
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import limits, machine
from benchmarks.harness.command import Command, Options, between, order, print_line, ratio_lines, write_results
from benchmarks.harness.figures import Column, Figure, document, markdown, ratios, table
from benchmarks.mirror import mirrormaker
from benchmarks.mirror.contest import CONTENDERS, CUTWATER, Contest, Copy, Stage
from benchmarks.mirror.lag import ARRIVED, ROUND_TRIP_MS, LagRun, follow, regions
from benchmarks.mirror.origin import Origin
from benchmarks.mirror.steady import PERIOD_S
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import jars, jars_from
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor

TITLE = "B4: topics copied to another region's broker"
PEERS = tuple(mirrormaker.SETTINGS)
RATIO_MIN = 0.7
LAG_MAX_MS = 2_000 + 1_000 * PERIOD_S
"""Of the p99 until a milestone is said to have arrived: two seconds, and what passes between two milestones."""


COLUMNS: tuple[Column[Copy], ...] = (
    ("MB per CPU-s", lambda run: run.mb_per_cpu_s, ",.1f"),
    ("records/s", lambda run: run.events_per_s, ",.0f"),
    ("drain s", lambda run: run.drain_s, ".1f"),
    ("CPU-s", lambda run: run.cpu_s, ".1f"),
    ("broker CPU-s", lambda run: run.broker_cpu_s, ".1f"),
    ("start s", lambda run: run.start_s, ".1f"),
    ("start CPU-s", lambda run: run.start_cpu_s, ".1f"),
    ("peak MB", lambda run: run.memory_mb_peak, ",.0f"),
)
RATES: tuple[tuple[str, Callable[[Copy], float]], ...] = (
    ("mirror-bytes-per-cpu", lambda run: run.mb_per_cpu_s),
    ("mirror-records-per-s", lambda run: run.events_per_s),
    ("mirror-memory", lambda run: 1 / run.memory_mb_peak),
)
FIGURES = [Figure(name, peer, value) for name, value in RATES for peer in PEERS]
PARTS = ("copy", "lag")
PAIRS, SIZE, SIZE_MAX, SECONDS = 3, 1_000_000, 20_000_000, 30
LAG_PAIRS_MAX = 2


@dataclass(frozen=True)
class MirrorOptions(Options):
    parts: tuple[str, ...]
    seconds: int


@dataclass(frozen=True)
class MirrorCommand(Command):
    """Has two parts that can be run alone."""

    options: type[Options] = MirrorOptions

    def add(self, add: Callable[..., Any]) -> None:
        add("--parts", nargs="+", choices=PARTS, default=PARTS, help="default: both")
        add("--seconds", type=between(5, 3_600), default=SECONDS,
            help=f"measured of each run of the part 'lag' (default {SECONDS})")  # fmt: skip


COMMAND = MirrorCommand("b4", TITLE, CONTENDERS, SIZE, SIZE_MAX, pairs=PAIRS, by_default=CONTENDERS[:3])


class Results:
    """Grows with each run; `write` gives the files of the runs so far."""

    def __init__(self, options: MirrorOptions) -> None:
        self._options = options
        self._about = machine.describe()
        self.copies: list[Copy] = []
        self.lags: list[LagRun] = []
        self.notes: list[str] = []

    def write(self) -> dict[str, Any]:
        found = ratios(self.copies, CUTWATER, FIGURES)
        written = document("b4", self._about, self.copies, {**found, **lag_ratios(self.lags)})
        written["exact"] = all(run.exact for run in self.copies) and all(run.exact for run in self.lags)
        written["verdicts"] = [*verdicts(found), *lag_verdicts(self.lags)]
        text = markdown(TITLE, written, self.copies, [*self.notes, *written["verdicts"]], COLUMNS)
        if self.lags:
            written["runs"] += [asdict(run) for run in self.lags]
            text += "\n".join(["", "## Lag", "", *lag_table(self.lags), ""])
        write_results(self._options.out, written, text)
        return written


@contextmanager
def brokers(work: Path, java: Path) -> Iterator[tuple[Broker, Broker, Callable[[], list[int]]]]:
    """Two brokers in a folder that is emptied first, and their processes; ended and cleared at the end."""
    shutil.rmtree(work, ignore_errors=True)
    folder, found = work.resolve(), jars("kafka")
    pair = [Broker(folder / name, java, found) for name in ("origin", "own")]
    members = [one.supervised() for one in pair]
    with Supervisor(members) as supervisor:
        supervisor.start(threading.Event())
        yield pair[0], pair[1], lambda: [pid for one in members for pid in one.child.pids()]
    shutil.rmtree(work, ignore_errors=True)


def bench(options: Any) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    java, results, written = find_java(), Results(options), dict[str, Any]()
    peer_jars = jars_from(mirrormaker.JARS) if set(options.contenders) & set(PEERS) else ()
    if "copy" in options.parts:
        for copy in copies(options, java, peer_jars, results.notes):
            results.copies.append(copy)
            print_line(describe(copy, options.pairs))
            written = results.write()  # an interrupted run has results too
    if "lag" in options.parts:
        for lag in lags(options, java, peer_jars):
            results.lags.append(lag)
            print_line(described(lag))
            written = results.write()
    for line in written["verdicts"]:
        print_line(line)
    return written


def copies(options: MirrorOptions, java: Path, peer_jars: Sequence[Path], notes: list[str]) -> Iterator[Copy]:
    """Every contender, pair by pair, over the same topics."""
    with brokers(options.out / "b4-work", java) as (there, here, pids):
        origin = Origin(there.cluster, options.size, options.seed)
        notes.append(volume_text(origin, java))
        print_line(f"{notes[-1]} Written in {origin.seconds:.0f} s.")
        stage = Stage(origin, here.cluster, pids, options.out / "b4-runs", java, peer_jars)
        for pair in range(1, options.pairs + 1):
            for name in order(options.contenders, pair):
                yield Contest(stage, name, pair).run()


def lags(options: MirrorOptions, java: Path, peer_jars: Sequence[Path]) -> Iterator[LagRun]:
    """Every contender, pair by pair, each between two fresh brokers."""
    for pair in range(1, min(options.pairs, LAG_PAIRS_MAX) + 1):
        for name in order(options.contenders, pair):
            with regions(options.out / "b4-lag-work", java, peer_jars) as on:
                yield follow(on, name, pair, options.seconds)


def volume_text(origin: Origin, java: Path) -> str:
    """What is to be copied, and how fast it could be read."""
    events = origin.topics[0]
    rate = limits.consumer_rate(java, jars("kafka"), origin.cluster, events.name, events.records)
    listed = ", ".join(f"{one.name} {one.records:,} ({one.size / 1e6:,.0f} MB)" for one in origin.topics)
    return f"{listed}. Reading the events and no more (ConsumerPerformance): {rate:,.0f} records/s."


def verdicts(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Does a copy take little enough CPU?"""
    known = {name: one["median"] for name, one in found.items() if name.startswith("mirror-bytes-per-cpu/")}
    return [
        f"{name}: {ratio} (at least {RATIO_MIN}: {'kept' if ratio >= RATIO_MIN else 'not kept'})"
        for name, ratio in known.items()
    ]


def lag_verdicts(runs: Sequence[LagRun]) -> list[str]:
    """Are the milestones of a steady stream said to have arrived soon enough? Peers say nothing of the kind."""
    known = [run.lags_ms[ARRIVED]["p99"] for run in runs if run.contender == CUTWATER]
    if not known:
        return []
    p99 = median(known)
    kept = "kept" if p99 <= LAG_MAX_MS else "not kept"
    return [f"lag behind {ROUND_TRIP_MS} ms, arrived at p99: {p99:,.0f} ms (at most {LAG_MAX_MS:,.0f}: {kept})"]


def describe(run: Copy, pairs: int) -> str:
    verdict = "exact" if run.exact else f"NOT EXACT: {run.fault}"
    return (
        f"pair {run.pair}/{pairs} {run.contender:31} {run.mb_per_cpu_s:6.1f} MB per CPU-s, "
        f"{run.events_per_s:8,.0f} records/s, {run.cpu_s:.1f} CPU-s, {run.memory_mb_peak:,.0f} MB, {verdict}"
    )


def lag_ratios(runs: Sequence[LagRun]) -> dict[str, dict[str, float]]:
    """The peer's p99 until a milestone is held, over ours until it is said to have arrived: above 1 is better."""
    return ratios(
        runs, CUTWATER, [Figure("mirror-lag-p99", peer, lambda run: 1 / run.last["p99"]) for peer in PEERS]
    )


def lag_table(runs: Sequence[LagRun]) -> list[str]:
    """A line for each run."""
    parts = ("p50", "p99", "max")
    rows = [
        [run.contender, str(run.pair), str(run.milestones), place]
        + [f"{told[part]:,.0f}" for part in parts]
        + [f"{run.cpu_s:.1f}"]
        for run in runs
        for place, told in run.lags_ms.items()
    ]
    behind = f"milestones behind {ROUND_TRIP_MS} ms"
    return table([behind, "pair", "milestones", "until", *(f"{part} ms" for part in parts), "CPU-s"], rows)


def described(run: LagRun) -> str:
    verdict = "exact" if run.exact else f"NOT EXACT: {run.fault}"
    told = ", ".join(
        f"{place} p50 {one['p50']:,.0f} p99 {one['p99']:,.0f} ms" for place, one in run.lags_ms.items()
    )
    return f"lag, pair {run.pair} {run.contender:31} {told}, {run.cpu_s:.1f} CPU-s, {verdict}"


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, ratio_lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""B4, mirror: topics copied from one broker to another, beside MirrorMaker 2.

python -m benchmarks.b4 --pairs 5 --size 1000000
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import limits, machine
from benchmarks.command import Command, Options, order, ratio_lines, say
from benchmarks.figures import Column, Figure, Run, document, markdown, ratios
from benchmarks.mirror import mirrormaker
from benchmarks.mirror.contest import CONTENDERS, CUTWATER, Contest, Copy, Stage
from benchmarks.mirror.origin import Origin
from cutwater.local.broker import Broker
from cutwater.local.jars import jars, jars_from
from cutwater.local.java import find_java
from cutwater.local.supervisor import Supervisor

TITLE = "B4: topics copied to another region's broker"
PEERS = tuple(mirrormaker.SETTINGS)
RATIO_MIN = 0.7


def of(value: Callable[[Copy], float]) -> Callable[[Run], float | None]:
    """A figure of a copy."""
    return lambda run: value(run) if isinstance(run, Copy) else None


COLUMNS: tuple[Column, ...] = (
    ("MB per CPU-s", of(lambda run: run.mb_per_cpu_s), ",.1f"),
    ("records/s", lambda run: run.events_per_s, ",.0f"),
    ("drain s", lambda run: run.drain_s, ".1f"),
    ("CPU-s", lambda run: run.cpu_s, ".1f"),
    ("broker CPU-s", lambda run: run.broker_cpu_s, ".1f"),
    ("start s", lambda run: run.start_s, ".1f"),
    ("start CPU-s", lambda run: run.start_cpu_s, ".1f"),
    ("peak MB", lambda run: run.memory_mb_peak, ",.0f"),
)
FIGURES = [
    Figure(name, peer, value)
    for name, value in (
        ("mirror-bytes-per-cpu", of(lambda run: run.mb_per_cpu_s)),
        ("mirror-records-per-s", lambda run: run.events_per_s),
        ("mirror-memory", lambda run: 1 / run.memory_mb_peak),
    )
    for peer in PEERS
]


class MirrorCommand(Command):
    """Has a table of its own."""

    def write(self, out: Path, written: Mapping[str, Any], runs: Sequence[Run], notes: Sequence[str]) -> None:
        (out / "b4.json").write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
        (out / "b4.md").write_text(markdown(TITLE, written, runs, notes, COLUMNS), encoding="utf-8")


COMMAND = MirrorCommand("b4", TITLE, CONTENDERS, size=1_000_000, size_max=20_000_000)


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


def bench(options: Options) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    about, java = machine.describe(), find_java()
    peer_jars = jars_from(mirrormaker.JARS) if set(options.contenders) & set(PEERS) else ()
    runs: list[Copy] = []
    written: dict[str, Any] = {}
    with brokers(options.out / "b4-work", java) as (there, here, pids):
        origin = Origin(there.cluster, options.size, options.seed)
        notes = [told(origin, java)]
        say(f"{notes[0]} Written in {origin.seconds:.0f} s.")
        stage = Stage(origin, here.cluster, pids, options.out / "b4-runs", java, peer_jars)
        for pair in range(1, options.pairs + 1):
            for name in order(options.contenders, pair):
                runs.append(Contest(stage, name, pair).run())
                say(describe(runs[-1], options.pairs))
            found = ratios(runs, CUTWATER, FIGURES)
            written = document("b4", about, runs, found)
            COMMAND.write(options.out, written, runs, [*notes, *verdicts(found)])  # an interrupted run has results
    return written


def told(origin: Origin, java: Path) -> str:
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


def describe(run: Copy, pairs: int) -> str:
    verdict = "exact" if run.exact else f"NOT EXACT: {run.fault}"
    return (
        f"pair {run.pair}/{pairs} {run.contender:31} {run.mb_per_cpu_s:6.1f} MB per CPU-s, "
        f"{run.events_per_s:8,.0f} records/s, {run.cpu_s:.1f} CPU-s, {run.memory_mb_peak:,.0f} MB, {verdict}"
    )


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, ratio_lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

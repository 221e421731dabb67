"""B7, state: what a batch of events costs beside 100,000, a million and ten million open rows.

python -m benchmarks.b7 --size 10000000
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.harness import machine
from benchmarks.harness.command import Command, Options, print_line, ratio_lines, write_results
from benchmarks.harness.streams_program import TICKS
from benchmarks.state.contenders import DriverContest, StreamsContest
from benchmarks.state.contest import Stage, StateContest
from benchmarks.state.outcome import FLOOR, STREAMS, WALK, Batches, line, markdown, ratios, row_counts
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor

TITLE = "B7: batches of 1,000 and of 100,000 events, by the rows that are open"
COMMAND = Command(
    "b7",
    TITLE,
    (FLOOR, STREAMS, WALK),
    10_000_000,
    100_000_000,
    of="open rows at most",
    seeded=False,
    pairs=1,
    by_default=(FLOOR, STREAMS),
)


@cache
def _peer_jars() -> tuple[Path, ...]:
    return tuple(TICKS.jars(print_line))


def contest(stage: Stage, contender: str, rows: int, pair: int) -> StateContest:
    if contender == STREAMS:
        return StreamsContest(stage, contender, rows, pair, _peer_jars())
    return DriverContest(stage, contender, rows, pair)


def bench(options: Options) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote. Each number of rows has a broker of its own."""
    work, about, java = options.out / "b7-work", machine.describe(), find_java()
    runs, written = list[Batches](), dict[str, Any]()
    for pair in range(1, options.pairs + 1):
        for rows in row_counts(options.size):
            shutil.rmtree(work, ignore_errors=True)
            broker = Broker(work.resolve() / "broker", java, jars("kafka"))
            with Supervisor([broker.supervised()]) as supervisor:
                supervisor.start(threading.Event())
                stage = Stage(broker.cluster, work.resolve(), java)
                for contender in options.contenders:
                    found = contest(stage, contender, rows, pair).run()
                    runs += found
                    for one in found:
                        print_line(line(one))
                    written = write(options.out, about, runs)
    shutil.rmtree(work, ignore_errors=True)
    return written


def write(out: Path, about: Mapping[str, Any], runs: Sequence[Batches]) -> dict[str, Any]:
    """The result files of the runs so far."""
    exact = bool(runs) and all(one.exact for one in runs)
    told = [asdict(one) | {"p50_ms": one.p50_ms, "exact": one.exact} for one in runs]
    written = {"benchmark": "b7", "machine": dict(about), "exact": exact, "ratios": ratios(runs), "runs": told}
    write_results(out, written, markdown(TITLE, runs))
    return written


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, ratio_lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

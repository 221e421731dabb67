"""Publishing: milestones from changelog to output, beside a bare transactional producer of the same records.

python -m benchmarks.publish --pairs 5 --size 1000000
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from select import select
from typing import Any

from benchmarks.harness import machine
from benchmarks.harness.command import Command, Options, order, print_line, ratio_lines
from benchmarks.harness.figures import Figure, Run, document, ratios
from benchmarks.publishing.changelog import Changelog
from benchmarks.publishing.contender import BARE, CUTWATER, Records, records
from cutwater.adapters.avro import protocol_records
from cutwater.adapters.hashing import row_hash
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.output.position import End
from cutwater.core.protocol.changelog_rows import fold
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor

TITLE = "Publishing: changed rows of milestones to the output, a transaction each"
CONTENDERS = (CUTWATER, BARE)
FIGURES: tuple[Figure[Run], ...] = (
    Figure("rows", BARE, lambda run: run.events_per_s),
    Figure("cpu", BARE, lambda run: run.events_per_cpu_s),
)
MILESTONE_ROWS = 20_000
RUN_S = 300
COMMAND = Command("publish", TITLE, CONTENDERS, size=1_000_000, size_max=5_000_000, of="rows", seeded=False)


@dataclass
class Stage:
    """What both contenders work on."""

    cluster: Cluster
    job: Job
    changelog: Changelog
    written: list[Records] = field(default_factory=list)
    """The output's records, transaction by transaction, as the run before wrote them."""


def run(stage: Stage, contender: str, pair: int) -> Run:
    """One contender in a process of its own, over an output that is empty."""
    last = stage.changelog.milestones
    command = [
        sys.executable,
        "-m",
        "benchmarks.publishing.contender",
        contender,
        stage.cluster.bootstrap,
        str(last),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            if not select([process.stdout], [], [], RUN_S)[0]:  # ready: what the bare loop writes is there now
                raise UnavailableError(f"{contender} was not ready within {RUN_S} s")
            process.stdout.readline()
            stage.changelog.restart()
            told = process.communicate("go\n", timeout=RUN_S)[0]
        finally:
            process.kill()
    if process.returncode:
        raise UnavailableError(f"{contender} ended with {process.returncode}")
    figures = json.loads(told)
    written = records(stage.cluster, stage.job, last)
    wrong = fault(stage, written)
    if contender == BARE and written != stage.written:
        wrong = wrong or "records differ from the publisher's"
    stage.written = written
    rows = sum(map(len, without_times(written)))
    took_s, cpu_s, memory_mb = figures["took_s"], figures["cpu_s"], figures["memory_mb"]
    return Run(contender, pair, rows, 0.0, took_s, cpu_s, 0.0, 0.0, memory_mb, wrong is None, wrong)


def fault(stage: Stage, written: list[Records]) -> str | None:
    """What is wrong with the output: count and digest of its rows, and the rows that each end marker says."""
    rows = without_times(written)
    digest = fold(row_hash(key or b"", value) for one in rows for _, key, value in one)
    if (sum(map(len, rows)), digest) != (stage.changelog.rows, stage.changelog.output_digest):
        return "count or digest of the rows differs from what was put on the changelog"
    for number, transaction in enumerate(written, 1):
        counts = Counter(partition for partition, key, _ in transaction if key is not None)
        ends = {partition: protocol_records.decode(value) for partition, key, value in transaction if key is None}
        told = {at: (end.sequence, end.rows) for at, end in ends.items() if isinstance(end, End)}
        if told != {at: (number, counts[at]) for at in range(stage.job.shards.partitions)}:
            return f"the end markers of milestone {number} do not tell its rows"
    return None


def without_times(transactions: list[Records]) -> list[Records]:
    """The rows alone: an end marker says when it was written."""
    return [[record for record in one if record[1] is not None] for one in transactions]


def bench(options: Options) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    about = machine.describe()
    work = options.out / "publish-work"
    shutil.rmtree(work, ignore_errors=True)
    broker = Broker(work.resolve() / "broker", find_java(), jars("kafka"))
    with Supervisor([broker.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        changelog = Changelog(broker.cluster, options.size, MILESTONE_ROWS)
        stage = Stage(broker.cluster, changelog.job, changelog)
        print_line(f"{changelog.rows:,} rows in {changelog.milestones - 1} milestones are on the changelog")
        run(stage, CUTWATER, 0)  # warms the broker, and makes the records that the other contender writes
        runs: list[Run] = []
        for pair in range(1, options.pairs + 1):
            for name in order(options.contenders, pair):
                runs.append(one := run(stage, name, pair))
                print_line(
                    f"pair {pair} {name:10} {one.events_per_s:9,.0f} rows/s, {one.events_per_cpu_s:,.0f} per CPU-s"
                )
            written = document("publish", about, runs, ratios(runs, CUTWATER, FIGURES))
            COMMAND.write(options.out, written, runs, [])
    shutil.rmtree(work, ignore_errors=True)
    return written


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, ratio_lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

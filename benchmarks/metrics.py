"""What metrics cost: the drain of B2 by a driver that tells them, read each second, and by one that does not.

python -m benchmarks.metrics --pairs 5 --size 2000000
"""

from __future__ import annotations

import shutil
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from benchmarks.b2 import SIZE_MAX, describe, forget, prepare
from benchmarks.harness import machine
from benchmarks.harness.command import Command, Options, order, print_line, ratio_lines
from benchmarks.harness.figures import Figure, Run, document, ratios
from benchmarks.windows.contenders import Contest, Stage
from benchmarks.windows.shapes import CUTWATER
from cutwater.core.errors import UnavailableError
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.machine.ports import free_ports
from cutwater.local.processes.supervisor import Supervisor

TITLE = "Metrics: the drain of B2 with them, and without"
TOLD, SILENT = "metrics", "no-metrics"
FIGURES: tuple[Figure[Run], ...] = (
    Figure("rate", SILENT, lambda run: run.events_per_s),
    Figure("warm", SILENT, lambda run: run.warm_events_per_s),
    Figure("cpu", SILENT, lambda run: run.events_per_cpu_s),
)
SCRAPE_EVERY_S = 1.0
"""Ten times as often as `deploy/prometheus/prometheus.yml` has it."""
COMMAND = Command("metrics", TITLE, (TOLD, SILENT), size=2_000_000, size_max=SIZE_MAX)


class MetricsContest(Contest):
    """Cutwater in one pair, with a port for its metrics or without."""

    BENCHMARK = "metrics"

    def __init__(self, stage: Stage, label: str, pair: int) -> None:
        self._label = label
        self._port = free_ports(1)[0] if label == TOLD else 0
        # A name of its own: topics and checkpoint of the two must differ.
        super().__init__(stage, CUTWATER, 2 * pair + (label == TOLD))
        self._number = pair

    def run(self) -> Run:
        """Raises UnavailableError as `Contest.run` does, and if the metrics were never read."""
        with self._scraped():
            found = super().run()
        return replace(found, contender=self._label, pair=self._number)

    def _env(self) -> dict[str, str]:
        return super()._env() | {"CUTWATER_DRIVER_PORT": str(self._port)}

    @contextmanager
    def _scraped(self) -> Iterator[None]:
        """Read the metrics every second while the block runs, as Prometheus would."""
        if not self._port:
            yield
            return
        over, read = threading.Event(), [0]

        def scrape() -> None:
            while not over.wait(SCRAPE_EVERY_S):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as told:
                        read[0] += b"cutwater_driver_spark_phase_seconds_total{" in told.read()
                except OSError:
                    continue  # before it listens, and after it has ended

        reader = threading.Thread(target=scrape)
        reader.start()
        try:
            yield
        finally:
            over.set()
            reader.join(10)
        if not read[0]:
            raise UnavailableError(
                "no scrape had Spark's progress: the run was shorter than an epoch and a second"
            )


def bench(options: Options) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    about = machine.describe()
    work = options.out / "metrics-work"
    shutil.rmtree(work, ignore_errors=True)
    java = find_java()
    broker = Broker(work.resolve() / "broker", java, jars("kafka"))
    member = broker.supervised()
    written: dict[str, Any] = {}
    with Supervisor([member]) as supervisor:
        supervisor.start(threading.Event())
        stage, notes = prepare(options, java, broker.cluster, member.child.pids, work.resolve())
        runs: list[Run] = []
        for pair in range(1, options.pairs + 1):
            for label in order(options.contenders, pair):
                one = MetricsContest(stage, label, pair)
                runs.append(one.run())
                print_line(describe(runs[-1], options.pairs))
                forget(stage.cluster, one.written_topics)
            # After each pair: an interrupted run has results too.
            written = document("metrics", about, runs, ratios(runs, TOLD, FIGURES))
            COMMAND.write(options.out, written, runs, notes)
    shutil.rmtree(work / "broker", ignore_errors=True)
    return written


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, ratio_lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

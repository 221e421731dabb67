"""The run of runs that B3 and B6 share: a broker, its limits, every contender in turn at each rate."""

from __future__ import annotations

import argparse
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.command import between, order, print_line
from benchmarks.harness.streams_program import AT_LEAST_ONCE_AT_ONCE, EXACTLY_ONCE
from benchmarks.latency.contest import Contest, Stage
from benchmarks.latency.cutwater import JOB_FILE, CutwaterContest
from benchmarks.latency.load import Plan
from benchmarks.latency.outcome import CHANGELOG, READABLE, VIEW, LatencyRun
from benchmarks.latency.streams import StreamsContest
from cutwater.adapters.job_files.loader import load_job
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import jars, jars_from
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor

CUTWATER, LOW, TUNED = "cutwater", "cutwater-low-latency", "tuned"
LOW_LATENCY = {"CUTWATER_TRIGGER_MS": "300", "CUTWATER_SOURCE_TASKS": "1", "spark.sql.shuffle.partitions": "1"}
"""As docs/CADENCE.md says; there the last one is `shuffle_partitions` of the job file."""
EXACTLY, AT_LEAST = "kafka-streams-exactly-once", "kafka-streams-at-least-once"
CONTENDERS = (CUTWATER, LOW, EXACTLY, AT_LEAST)
RATE = 1_000
RATES = (RATE, 10_000, 50_000)
WARM_S, TAIL_S = 60.0, 3.0
"""In the warm-up JVMs load and compile; after the tail nothing more comes, which the end of a run may shorten."""
STREAMS_JARS = Path(__file__).parents[1] / "jars" / "kafka-streams.toml"


@dataclass(frozen=True)
class Options:
    pairs: int
    size: int
    """Measured events of a run at 1,000 events/s; at another rate a run lasts as long."""
    seed: int
    rates: tuple[int, ...]
    warm_s: float
    contenders: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Those of the contender `tuned`."""
    out: Path = Path("build/bench")

    def plan(self, rate: int) -> Plan:
        seconds = self.size / RATE
        return Plan(rate, int(self.warm_s * rate), int(seconds * rate), int(TAIL_S * rate), self.seed)


def add_arguments(parser: argparse.ArgumentParser, pairs: int, size: int) -> None:
    add = parser.add_argument
    add("--pairs", type=between(1, 100), default=pairs, help=f"runs of each contender (default {pairs})")
    add("--size", type=between(1_000, 10_000_000), default=size,
        help=f"measured events of a run at {RATE:,}/s; another rate runs as long (default {size:,})")  # fmt: skip
    add("--seed", type=int, default=7, help="of the generated events (default 7)")
    add("--out", type=Path, default=Path("build/bench"), help="folder for results and logs")


def setting(text: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


@contextmanager
def stage(work: Path, contenders: Sequence[str]) -> Iterator[Stage]:
    """A broker and what all contenders need; ended and cleared away at the end."""
    java, job = find_java(), load_job(JOB_FILE)
    streams = any(name in (EXACTLY, AT_LEAST) for name in contenders)
    peers = jars_from(STREAMS_JARS) if streams else ()
    with broker(work) as (started, pids, folder):
        yield Stage(started.cluster, pids, folder, java, peers, job, job.window.size_ms)


@contextmanager
def broker(work: Path) -> Iterator[tuple[Broker, Callable[[], list[int]], Path]]:
    """A broker in a folder that is emptied first, its processes, and the folder; ended and cleared at the end."""
    shutil.rmtree(work, ignore_errors=True)
    folder = work.resolve()
    one = Broker(folder / "broker", find_java(), jars("kafka"))
    member = one.supervised()
    with Supervisor([member]) as supervisor:
        supervisor.start(threading.Event())
        yield one, member.child.pids, folder
    shutil.rmtree(folder / "broker", ignore_errors=True)


def contests(options: Options, on: Stage) -> Iterator[LatencyRun]:
    """Every contender once in each pair, at each rate."""
    for pair in range(1, options.pairs + 1):
        for rate in options.rates:
            for name in order(options.contenders, pair):
                run = contest(name, on, pair, options.plan(rate), options.settings).run()
                print_line(describe(run, options.pairs))
                yield run


def contest(name: str, on: Stage, pair: int, plan: Plan, settings: Mapping[str, str]) -> Contest:
    if name in (EXACTLY, AT_LEAST):
        return StreamsContest(on, name, pair, plan, EXACTLY_ONCE if name == EXACTLY else AT_LEAST_ONCE_AT_ONCE)
    own = {TUNED: settings, LOW: LOW_LATENCY}.get(name, {})
    return CutwaterContest(on, name, pair, plan, own)


def describe(run: LatencyRun, pairs: int) -> str:
    def at(place: str) -> str:
        found = run.delays.get(place)
        return f"{place} {found['p50']:,.0f}/{found['p99']:,.0f}/{found['p99.9']:,.0f} ms, " if found else ""

    epochs = f"epoch {run.epoch_ms:,.0f} ms, " if run.epoch_ms else ""
    verdict = "exact" if run.exact else f"NOT EXACT: {run.fault}"
    places: dict[str, Any] = dict.fromkeys((CHANGELOG, READABLE, VIEW))
    return (
        f"pair {run.pair}/{pairs} {run.rate:6,}/s {run.contender:27} {''.join(map(at, places))}{epochs}"
        f"{run.cpu_s:.1f} CPU-s, {verdict}"
    )

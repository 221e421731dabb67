"""Sizing: what `cutwater size` predicts beside what is measured, at three rates.

python -m benchmarks.sizing --size 40000
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.harness import machine
from benchmarks.harness.command import Command, print_line, write_results
from benchmarks.harness.measurement import Sampler, cpu_between
from benchmarks.soak.sizes import size_mb
from cutwater.adapters.config.figure_files import read_figures
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.load.load_draw import LoadDraw
from cutwater.core.load.rate_profile import RateProfile
from cutwater.core.protocol.records import Milestone
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.machine import Machine
from cutwater.core.sizing.recommendation import Sizing, size_job
from cutwater.core.sizing.simulation import PARTS, simulate, weighed_quantile
from cutwater.core.sizing.skew import KeySkew
from cutwater.local.background_stack import Background
from cutwater.local.stack import Stack, start_stack
from cutwater.operations.load_sender import LoadPlan, send_load

TITLE = "Sizing: predicted and measured"
JOB_FILE = Path("deploy/jobs/flights.yaml")
RATES = (500, 2_000, 8_000)
KEYS, ZIPF = 3_000, 0.5
WARM_RATE = 1_000_000
WARM_EVENTS, WARM_S, PATIENCE_S = 200_000, 30.0, 300.0
"""What Java compiles on the way is no part of a job that has run for long: so many events as fast as this machine
can, and then some of the rate."""
WITHIN = 0.2
"""Prediction and measurement shall differ by no more."""


@dataclass(frozen=True)
class Options:
    size: int
    seed: int
    out: Path
    machine: Path | None


@dataclass(frozen=True)
class SizingCommand(Command):
    options: type[Any] = Options

    def add(self, add: Callable[..., Any]) -> None:
        add("--machine", type=Path, help="figures of 'cutwater calibrate'; default: those of 'cutwater size'")


COMMAND = SizingCommand("sizing", TITLE, (), 20_000, 1_000_000, of="events measured at the lowest rate")


@dataclass(frozen=True)
class Figures:
    """Of one rate: predicted, or measured."""

    driver_cores: float
    """CPU time of the driver by time."""
    p50_s: float
    """From an event's moment to its milestone."""
    rows_per_s: float
    view_mb: float


def bench(options: Any) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    about, figures = machine.describe(), read_figures(options.machine, Machine) if options.machine else Machine()
    found: dict[int, tuple[Figures, Figures]] = {}
    for rate in RATES:
        seconds = options.size / RATES[0]
        found[rate] = predict(rate, seconds, figures), measure(rate, seconds, options.seed)
        print_line(f"{rate:,} events/s: predicted {found[rate][0]}, measured {found[rate][1]}")
    written = document(about, asdict(figures), found)
    write_results(options.out, written, table(found))
    return written


def predict(rate: int, seconds: float, figures: Machine) -> Figures:
    """Return what `cutwater size` computes for the rate without a peak, and for a view after so many seconds.

    Epochs are simulated with the partitions and cores that the stack has, since it is the one measured.
    """
    job = load_job(JOB_FILE)
    demand = Demand(
        rate, KeySkew(KEYS, ZIPF), event_bytes=80, peak=1.0, epoch_s=load_settings().trigger_ms / 1_000
    )
    sizing = as_run(size_job(job, demand, figures), job, figures)
    course = simulate(job, demand, figures, sizing, Random(0))
    rows = demand.keys.touched(WARM_EVENTS + rate * (WARM_S + seconds))
    return Figures(
        course.busy * sizing["driver_cores"],
        course.p50_s,
        course.rows_per_s,
        rows * sizing.estimate.row_bytes / 1e6,
    )


def as_run(sizing: Sizing, job: Job, figures: Machine) -> Sizing:
    """Return the sizing with the partitions of the job file and all cores of the machine."""
    known = {"driver_cores": float(figures.cores), "source_partitions": float(job.shards.partitions)}
    return replace(sizing, figures=[one._replace(value=known.get(one.name, one.value)) for one in sizing.figures])


def measure(rate: int, seconds: float, seed: int) -> Figures:
    """Run the job for `seconds` at the rate, behind a warm-up."""
    folder = Path(tempfile.mkdtemp(prefix="cutwater-sizing-"))
    settings = load_settings().model_copy(update={"data_dir": folder, "snapshots": ""})
    stack = Stack(JOB_FILE, settings, print_line)
    try:
        with start_stack(stack, threading.Event()), Background(stack) as background:
            driver = next(one.child for one in stack.supervisor.members if one.child.name == "driver")
            with Sampler(driver.pids) as sampler:
                warmed = _send(stack, WARM_RATE, PATIENCE_S, seed, WARM_EVENTS) + _send(stack, rate, WARM_S, seed)
                _wait(stack, background, warmed)
                began_s = time.time()
                before = _read(stack)
                sent = _send(stack, rate, seconds, seed + 1)
                ended_s = time.time()
                _wait(stack, background, before + sent)
                sampler.sample()
                milestones = [one for one in _milestones(stack) if one.committed_ms / 1_000 > began_s]
            cpu_s = cpu_between(sampler.samples, began_s, ended_s)
            rows = sum(one.rows for one in milestones if one.written_ms / 1_000 <= ended_s)
            return Figures(
                cpu_s / (ended_s - began_s),
                _p50_s(milestones, before, began_s, rate),
                rows / (ended_s - began_s),
                size_mb(folder / "views"),
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _send(stack: Stack, rate: int, seconds: float, seed: int, events: int | None = None) -> int:
    draw = LoadDraw(stack.job, KeySkew(KEYS, ZIPF), Random(seed))
    writer = EventWriter(stack.cluster, stack.job)
    return send_load(writer, draw, LoadPlan(RateProfile(rate), seconds, events), lambda _count: None).events


def _milestones(stack: Stack) -> list[Milestone]:
    return [one for one, _ in commit_stream.milestones(stack.cluster, stack.job.name)]


def _read(stack: Stack) -> int:
    """The records that are on the source topic."""
    return commit_stream.source_end(stack.cluster, stack.job.topic).records


def _wait(stack: Stack, background: Background, records: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        newest = commit_stream.milestones(stack.cluster, stack.job.name, 1)
        if newest and newest[0][0].source_cut.records >= records:
            return
        background.raise_error()
        time.sleep(0.2)
    raise UnavailableError(f"the job does not keep up within {PATIENCE_S:.0f} s")


def _p50_s(milestones: Sequence[Milestone], before: int, began_s: float, rate: int) -> float:
    """The median over events of the time from when an event was due to its milestone's commit."""
    ages: list[tuple[float, float]] = []
    read = before
    for one in milestones:
        cut = one.source_cut.records
        if cut <= read:
            continue
        for share in PARTS:
            due_s = began_s + (read + share * (cut - read) - before) / rate
            ages.append((one.committed_ms / 1_000 - due_s, cut - read))
        read = cut
    return weighed_quantile(ages, 0.5)


def document(
    about: Mapping[str, Any], figures: Mapping[str, float], found: Mapping[int, tuple[Figures, Figures]]
) -> dict[str, Any]:
    ratios = {}
    for rate, (predicted, measured) in found.items():
        for name, value in asdict(measured).items():
            ratio = round(asdict(predicted)[name] / value, 3) if value else 0.0
            ratios[f"{name}-{rate}"] = {"median": ratio, "min": ratio, "max": ratio, "pairs": 1}
    runs = [
        {"rate": rate, "predicted": asdict(one), "measured": asdict(other)} for rate, (one, other) in found.items()
    ]
    known = {"machine": dict(about), "figures": dict(figures)}
    return {"benchmark": "sizing", **known, "exact": True, "ratios": ratios, "runs": runs}


def table(found: Mapping[int, tuple[Figures, Figures]]) -> str:
    lines = [f"# {TITLE}", "", "| events/s | figure | predicted | measured | ratio |", "|---:|---|---:|---:|---:|"]
    for rate, (predicted, measured) in found.items():
        for name, value in asdict(measured).items():
            guess = asdict(predicted)[name]
            lines.append(f"| {rate:,} | {name} | {guess:,.3g} | {value:,.3g} | {guess / max(value, 1e-9):.2f} |")
    return "\n".join(lines) + "\n"


def conclude(ratios: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [
        f"{name}: predicted by measured {one['median']} "
        f"({'within' if 1 - WITHIN <= one['median'] <= 1 + WITHIN else 'NOT within'} {WITHIN:.0%})"
        for name, one in ratios.items()
    ]


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, conclude)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

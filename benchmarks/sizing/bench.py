"""Sizing: what `cutwater size` predicts beside what is measured, at three rates."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import machine
from benchmarks.harness.command import Command, print_line, write_results
from benchmarks.sizing.figures import WITHIN, Figures
from benchmarks.sizing.measurement import Run, measure
from benchmarks.sizing.prediction import predict
from cutwater.adapters.config.figure_files import read_figures
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.sizing.machine import Machine
from cutwater.core.sizing.skew import KeySkew
from cutwater.local.calibration.load import Work
from cutwater.local.calibration.run import calibrate

TITLE = "Sizing: predicted and measured"
JOB_FILE = Path("deploy/jobs/flights.yaml")
RATES = (500, 2_000, 8_000)
KEYS = KeySkew(3_000, 0.5)

Pairs = Mapping[int, tuple[Figures, Figures]]
"""Predicted and measured, by rate."""


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
        add("--machine", type=Path, help="figures of 'cutwater calibrate'; default: it measures them first")


COMMAND = SizingCommand("sizing", TITLE, (), 20_000, 1_000_000, of="events measured at the lowest rate")


def bench(options: Any) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote.

    Figures of the machine are measured right before, since its speed may change.
    """
    about, works = machine.describe(), list[Work]()
    if options.machine:
        figures = read_figures(options.machine, Machine)
    else:
        figures, works = _calibrated(options.out)
    seconds = options.size / RATES[0]
    run = measure(JOB_FILE, KEYS, RATES, seconds, options.seed)
    job = load_job(JOB_FILE)
    found = {
        rate: (predict(job, KEYS, rate, seconds, figures, stage.before), stage.figures)
        for rate, stage in zip(RATES, run.stages, strict=True)
    }
    written = document(about, asdict(figures), found, run)
    works = [*works, *run.works]
    _write_epochs(options.out, works)
    write_results(options.out, written, table(found))
    return written


def _calibrated(out: Path) -> tuple[Machine, list[Work]]:
    folder = Path(tempfile.mkdtemp(prefix="cutwater-calibrate-"))
    try:
        found = calibrate(load_settings(), folder, print_line)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines = [f"{name}: {value:g}" for name, value in asdict(found.machine).items()]
    (out / "sizing-machine.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    works = [work for one in found.measured for work in (*one.works, one.idle)]
    _write_epochs(out, works)
    return found.machine, works


def _write_epochs(out: Path, works: Sequence[Work]) -> None:
    text = json.dumps([_plain(one) for one in works])
    (out / "sizing-epochs.json").write_text(text + "\n", encoding="utf-8")


def _plain(work: Work) -> dict[str, Any]:
    """Return what a load took, and each of its epochs."""
    epochs = [
        {
            "began_ms": one.epoch_started_ms,
            "written_ms": one.written_ms,
            "committed_ms": one.committed_ms,
            "events": one.events,
            "rows": one.rows,
            "read": one.source_cut.records - work.before,
        }
        for one in work.milestones
    ]
    return {
        "rate": work.load.rate,
        "keys": work.load.keys.keys,
        "events": work.events,
        "rows": work.rows,
        "began_s": work.began_s,
        "ended_s": work.ended_s,
        "seconds": work.seconds,
        "cpu_s": dict(work.cpu_s),
        "epochs": epochs,
    }


def document(about: Mapping[str, Any], figures: Mapping[str, float], found: Pairs, run: Run) -> dict[str, Any]:
    ratios = {}
    for rate, (predicted, measured) in found.items():
        for name, value in asdict(measured).items():
            ratio = round(asdict(predicted)[name] / value, 3) if value else 0.0
            ratios[f"{name}-{rate}"] = {"median": ratio, "min": ratio, "max": ratio, "pairs": 1}
    runs = [
        {"rate": rate, "predicted": asdict(one), "measured": asdict(other)} for rate, (one, other) in found.items()
    ]
    known = {"machine": dict(about), "figures": dict(figures), "files_by_bytes": run.files_by_bytes}
    return {"benchmark": "sizing", **known, "exact": True, "ratios": ratios, "runs": runs}


def table(found: Pairs) -> str:
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

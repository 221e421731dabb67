"""Soak: does the disk that the state takes stay bounded, while event time runs far faster than the clock?

python -m benchmarks.soak --size 3000000
python -m benchmarks.soak --hours 24        (`make soak HOURS=24`)
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import machine
from benchmarks.harness.command import INEXACT, Command, print_line
from benchmarks.soak.load import FASTER, RATE, Soak, generate, load_of
from benchmarks.soak.sizes import GROWTH_MAX, document, write
from cutwater.adapters.config.settings import load_settings
from cutwater.local.stack.stack import Stack
from cutwater.local.stack.stack_lifecycle import start_stack

TITLE = "Soak: disk under endless load"
HOURS_MIN, HOURS_MAX = 0.01, 1_000.0
JOB_FILE = Path(__file__).parents[1] / "jobs" / "soak.yaml"


@dataclass(frozen=True)
class Options:
    """There is one run, and nobody to compare it with."""

    size: int
    seed: int
    out: Path
    hours: float | None = None

    @property
    def load(self) -> tuple[int, float]:
        """The number of events, and how many come a second."""
        return load_of(self.hours) if self.hours else (self.size, RATE)


class SoakCommand(Command):
    def add(self, add: Callable[..., Any]) -> None:
        add("--hours", type=_hours, help="as many hours in place of --size, with fewer events a second if need be")


def _hours(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not HOURS_MIN <= found <= HOURS_MAX:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from {HOURS_MIN} to {HOURS_MAX}")
    return found


COMMAND = SoakCommand("soak", TITLE, (), 3_000_000, 500_000_000, options=Options)


def bench(options: Options) -> dict[str, Any]:
    """The whole soak; returns the document that it wrote."""
    about, work = machine.describe(), (options.out / "soak-work").resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    job_file = Path(shutil.copy(JOB_FILE, work))
    shutil.copy(JOB_FILE.with_name("tick.avsc"), work)
    settings = load_settings().model_copy(update={"data_dir": work / "data"})
    stack = Stack(job_file, settings, print_line)
    size, rate = options.load
    soak = Soak(stack, generate(size, options.seed, time.time_ns() // 10**6, rate), rate)
    clock_s = size / rate
    about_time = f"{clock_s:,.0f} s of the clock, {clock_s * FASTER / 3600:,.1f} h of theirs"
    print_line(f"{size:,} events, {rate:,.0f} a second: {about_time}")
    with start_stack(stack, threading.Event()):
        soak.run()
        wrong = soak.fault()
    found = document(about, soak.sizes, wrong)
    write(options.out, TITLE, found, soak.sizes)
    shutil.rmtree(work, ignore_errors=True)
    return found


def conclude(ratios: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [f"{name}: {one['median']} (bounded from {1 / GROWTH_MAX:.2f} on)" for name, one in ratios.items()]


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 1 if a row is wrong, or if a place that must be bounded grows."""
    bounded = True

    def run(options: Any) -> dict[str, Any]:
        nonlocal bounded
        found = bench(options)
        bounded = found["bounded"]
        return found

    return COMMAND.run(arguments, run, conclude) or (0 if bounded else INEXACT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

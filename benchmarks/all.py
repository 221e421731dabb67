"""Every benchmark, one after another, and one page with a plot for each: build/bench/index.html.

python -m benchmarks.all
python -m benchmarks.all --pairs 1 --benchmarks b2 b3
python -m benchmarks.all --only-page
"""

from __future__ import annotations

import argparse
import importlib
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.command import INTERRUPTED, Command, print_line
from benchmarks.harness.page import write_page

NAMES = (
    *("b1", "b2", "b3", "b4", "b5", "b6", "b7"),
    *("publish", "reads", "failover", "handover", "sizing", "metrics", "cadence", "snapshots"),
)
"""All that need no stack that runs already."""
Start = Callable[[Sequence[str]], int]
"""Runs a command line to its end; returns its exit code."""


@dataclass(frozen=True)
class AllOptions:
    pairs: int | None
    size: int | None
    benchmarks: tuple[str, ...]
    only_page: bool
    out: Path


def parse(arguments: Sequence[str]) -> AllOptions:
    """Exits with code 2 and the allowed values when an argument does not fit."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.all", description="All benchmarks, and their page."
    )
    add = parser.add_argument
    add("--pairs", type=int, help="runs of each contender (default: each benchmark's own)")
    add("--size", type=int, help="of each benchmark, at most what it allows (default: each benchmark's own)")
    add("--benchmarks", nargs="+", choices=NAMES, default=NAMES, help="default: all")
    add("--only-page", action="store_true", help="run nothing, write the page of the results that are there")
    add("--out", type=Path, default=Path("build/bench"), help="folder for results and logs")
    one = parser.parse_args(arguments)
    return AllOptions(one.pairs, one.size, tuple(one.benchmarks), one.only_page, one.out)


def command_line(name: str, options: AllOptions) -> list[str]:
    """Return how a benchmark is started, with the arguments that it has."""
    command: Command = importlib.import_module(f"benchmarks.{name}").COMMAND
    line = [sys.executable, "-m", f"benchmarks.{name}", "--out", str(options.out)]
    if options.size is not None:
        line += ["--size", str(min(options.size, command.size_max))]
    if options.pairs is not None and command.contenders:
        line += ["--pairs", str(options.pairs)]
    return line


def run_each(options: AllOptions, start: Start) -> int:
    """Run the benchmarks, and write the page after each. Return 0, or the exit code of the first that failed."""
    failed: dict[str, int] = {}
    for name in options.benchmarks:
        print_line(f"{name} …")
        code = start(command_line(name, options))
        write_page(options.out, NAMES)
        if code == INTERRUPTED:
            return code
        if code:
            failed[name] = code
            print_line(f"{name} ended with exit code {code}")
    return next(iter(failed.values()), 0)


def run_to_end(line: Sequence[str]) -> int:
    """Run a benchmark; return its exit code. An interrupt ends it, not this process: it ends its own processes."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(line, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    code = 0 if options.only_page else run_each(options, run_to_end)
    print_line(f"written: {write_page(options.out, NAMES)}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

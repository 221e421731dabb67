"""What every benchmark's command does alike: arguments with bounds, result files after each pair, an exit code."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.harness.figures import Run, markdown
from cutwater.core.errors import CutwaterError

T = TypeVar("T")
SEED, PAIRS = 7, "runs of each contender"
INEXACT, INTERRUPTED = 1, 130
"""Exit codes beside those of Cutwater's own errors."""


@dataclass(frozen=True)
class Options:
    pairs: int
    size: int
    seed: int
    contenders: tuple[str, ...]
    out: Path


@dataclass(frozen=True)
class Command:
    """One benchmark: `python -m benchmarks.<name>`."""

    name: str
    title: str
    contenders: tuple[str, ...]
    """In the order of the first pair; with none there is one run, and nobody to compare it with."""
    size: int
    """How many `of` there are by default, and at most `size_max`."""
    size_max: int
    of: str = "events"
    seeded: bool = True
    """Are they made by chance?"""
    pairs: int = 5
    by_default: tuple[str, ...] = ()
    """The contenders that run where none are named; all of them where this is empty."""
    options: type[Any] = Options

    def parse(self, arguments: Sequence[str]) -> Any:
        """Exits with code 2 and the allowed values when an argument does not fit."""
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{self.name}", description=self.title)
        add, listed = parser.add_argument, self.by_default or self.contenders
        add(
            "--size",
            type=between(1_000, self.size_max),
            default=self.size,
            help=self._by_default(self.of, self.size),
        )
        if self.contenders:
            parser.set_defaults(seed=0)
            add("--pairs", type=between(1, 100), default=self.pairs, help=self._by_default(PAIRS, self.pairs))
            add(
                "--contenders",
                nargs="+",
                choices=self.contenders,
                default=listed,
                help=f"default: {' '.join(listed)}",
            )
        if self.seeded:
            add("--seed", type=int, default=SEED, help=self._by_default(f"of the generated {self.of}", SEED))
        add("--out", type=Path, default=Path("build/bench"), help="folder for results and logs")
        self.add(add)
        found = vars(parser.parse_args(arguments))
        given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in found.items()}
        options = self.options(**given)
        if wrong := self.wrong(options):
            parser.error(wrong)
        return options

    def add(self, add: Callable[..., Any]) -> None:
        """Add arguments that this benchmark has besides, named as its options are."""

    @staticmethod
    def _by_default(what: str, number: int) -> str:
        return f"{what} (default {number:,})"

    def wrong(self, options: Any) -> str:
        """Why this cannot be run here; empty where it can."""
        return ""

    def write(self, out: Path, written: Mapping[str, Any], runs: Sequence[Run], notes: Sequence[str]) -> None:
        """The result files of the runs so far."""
        write_results(out, written, markdown(self.title, written, runs, notes))

    def run(
        self,
        arguments: Sequence[str],
        bench: Callable[[Options], Mapping[str, Any]],
        conclude: Callable[[Mapping[str, Any]], Iterable[str]],
    ) -> int:
        """Run `bench`, which returns the document that it wrote, and say its conclusions; returns the exit code.

        0 when every run was exact, 1 when one was not, an error's own code, 130 when interrupted.
        """
        options = self.parse(arguments)
        options.out.mkdir(parents=True, exist_ok=True)
        try:
            written = bench(options)
        except CutwaterError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            return error.exit_code
        except KeyboardInterrupt:
            print(f"{self.name}: interrupted; broker and contenders have ended", file=sys.stderr)
            return INTERRUPTED
        for line in conclude(written["ratios"]):
            print_line(line)
        print_line(f"written: {', '.join(map(str, result_files(options.out, self.name)))}")
        return 0 if written["exact"] else INEXACT


def result_files(out: Path, name: str) -> tuple[Path, Path]:
    return out / f"{name}.json", out / f"{name}.md"


def write_results(out: Path, written: Mapping[str, Any], text: str) -> None:
    """The result files of a benchmark, for programs and for people."""
    data, page = result_files(out, written["benchmark"])
    data.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    page.write_text(text, encoding="utf-8")


def between(least: int, most: int) -> Any:
    """A type of argument: a whole number within bounds."""

    def number(text: str) -> int:
        if text.isdecimal() and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from {least:,} to {most:,}")

    return number


def order(names: Sequence[T], pair: int) -> list[T]:
    """The contenders of a pair, turned by one each time: none always runs on a machine that is warm or tired."""
    turn = (pair - 1) % len(names)
    return [*names[turn:], *names[:turn]]


def print_line(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def ratio_lines(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Each ratio in a line."""
    return [f"{name}: {one['median']} ({one['min']} to {one['max']}, {one['pairs']} pairs)" for name, one in
            found.items()]  # fmt: skip

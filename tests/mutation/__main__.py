"""make mutate [MODULE=core/protocol/commit.py] [SAMPLE=600]: python -m mutation [--module protocol/commit.py]
[--sample 600]"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from mutation.equivalents import reason_of
from mutation.operators import Mutant, mutants, sources
from mutation.runner import BUDGET_S, KILLED, SURVIVED, TIMEOUT, UNCOVERED, Collected
from mutation.score import write_score
from mutation.swap import import_as

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build/mutation"
TESTS = ("tests/unit/core", "tests/mutation/histories.py")
SAY_EVERY_S = 30.0
EACH = 3
"""Mutants of each module that every sample has."""


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument(
        "--module", action="append", default=[], help="of core/: protocol/commit.py; again for more"
    )
    parser.add_argument("--sample", type=int, help="so many mutants, chosen by the seed, instead of all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default 2)")
    parser.add_argument("--again", action="store_true", help="run only those that no test noticed, once more")
    parser.add_argument(
        "--record", action="store_true", help="write the score, and docs/MUTATION.md, from what has been run"
    )
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    parser.add_argument("tests", nargs="*", help=argparse.SUPPRESS)
    return parser.parse_args(words)


def main() -> int:
    asked = arguments(sys.argv[1:])
    os.chdir(ROOT)
    if asked.alone:
        return _alone(asked.alone, asked.tests)
    chosen = _chosen(asked)
    results = Results(BUILD / "results.jsonl")
    left = [one for one in chosen if (results.alive(one) if asked.again else results.said(one) is None)]
    if asked.record and not (asked.again or asked.sample or asked.module):
        left = []  # the score of all that was run
    print(f"{len(chosen):,} mutants, of which {len(left):,} are to be run", flush=True)
    if left and (code := _run(left, results, asked.jobs)):
        return code
    print(_told(chosen, results))
    if asked.record:
        write_score(chosen, results.all, BUDGET_S)
    return 0


def _chosen(asked: argparse.Namespace) -> list[Mutant]:
    wanted = {one.removeprefix("services/cutwater/").removeprefix("core/") for one in asked.module}
    texts = sources()
    if wanted - set(texts):
        raise SystemExit(f"core/ has no module {', '.join(sorted(wanted - set(texts)))}")
    chosen = [
        one
        for module, text in texts.items()
        if not wanted or module in wanted
        for one in mutants(text, module)
        if reason_of(one) is None
    ]
    # By chance, and by nothing but the name: another mutant more or less changes the place of no other.
    chosen.sort(key=lambda one: Random(f"{asked.seed} {one.name}").random())
    return _sample(chosen, asked.sample) if asked.sample else chosen


def _sample(chosen: list[Mutant], size: int) -> list[Mutant]:
    """The first of each module, then the first of all, in their order."""
    seen, first, others = Counter[str](), list[Mutant](), list[Mutant]()
    for one in chosen:
        seen[one.module] += 1
        (first if seen[one.module] <= EACH else others).append(one)
    return [*first, *others[: max(0, size - len(first))]]


@dataclass
class Results:
    """What has been run, a line each: mutant, hash of nothing but its name, outcome."""

    file: Path

    def __post_init__(self) -> None:
        self.all: dict[str, str] = {}
        if self.file.exists():
            for line in self.file.read_text(encoding="utf-8").splitlines():
                said = json.loads(line)
                self.all[said["name"]] = said["said"]

    def said(self, one: Mutant) -> str | None:
        return self.all.get(one.name)

    def alive(self, one: Mutant) -> bool:
        return self.all.get(one.name) in (SURVIVED, UNCOVERED)

    def add(self, one: Mutant, said: str, took_s: float) -> None:
        self.all[one.name] = said
        told = {
            "name": one.name,
            "said": said,
            "s": round(took_s, 1),
            "at": f"{one.module}:{one.line}",
            "what": one.what,
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(told) + "\n")


def _run(left: list[Mutant], results: Results, jobs: int) -> int:
    BUILD.mkdir(parents=True, exist_ok=True)
    terminal = os.fdopen(os.dup(2), "w")
    began, said_at, done = time.monotonic(), time.monotonic(), 0
    first: list[float] = []

    def say(text: str) -> None:
        print(text, file=terminal, flush=True)

    def add(one: Mutant, said: str, took_s: float) -> None:
        nonlocal done, said_at
        first.append(time.monotonic() - took_s) if not first else None
        done += 1
        results.add(one, said, took_s)
        if said in (SURVIVED, UNCOVERED):
            say(f"{said}: core/{one.module}:{one.line}: {one.what} [{one.name}]")
        if time.monotonic() - said_at >= SAY_EVERY_S:
            said_at = time.monotonic()
            each_s = (said_at - first[0]) / done
            say(f"{done:,} of {len(left):,} mutants, about {each_s * (len(left) - done) / 60:.1f} minutes left")

    plugin = Collected(left, BUILD / "lines.json", add, say, jobs)
    words = [
        "-q",
        "--disable-warnings",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        f"--basetemp={BUILD / 'temp'}",
        *TESTS,
    ]
    code = int(pytest.main(words, plugins=[plugin]))
    say(f"{done:,} mutants in {(time.monotonic() - began) / 60:.1f} minutes")
    return 0 if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else code


def _told(chosen: list[Mutant], results: Results) -> str:
    count = Counter(results.said(one) for one in chosen)
    dead = count[KILLED] + count[TIMEOUT]
    every = dead + count[SURVIVED] + count[UNCOVERED]
    return (
        f"{dead:,} of {every:,} mutants were noticed, {dead / every:.1%}: {dict(count)}"
        if every
        else "nothing run"
    )


def _alone(which: str, tests: list[str]) -> int:
    module, _, name = which.partition(":")
    found = next(one for one in mutants(sources()[module], module) if one.name == name)
    import_as(found)
    # To rewrite the asserts of a plugin, which the package is, pytest would read its modules itself: unchanged.
    words = ["-q", "-x", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"]
    words.append(f"--basetemp={BUILD / f'temp-{os.getpid()}'}")
    return int(pytest.main([*words, *tests]))


if __name__ == "__main__":
    sys.exit(main())

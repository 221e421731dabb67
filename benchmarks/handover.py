"""Hand-over of a generation: how long readers have nothing newer while another one takes over a large state.

python -m benchmarks.handover --size 1000000
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.failover import events, held
from benchmarks.generation_handover.gaps import change
from benchmarks.generation_handover.readers import Load, OfTheApi, OfTheOutput
from benchmarks.generation_handover.report import Moments, Records, figures, limit_more_s, result_lines
from benchmarks.generation_handover.stack import Stack, later
from benchmarks.harness import machine
from benchmarks.harness.command import Command, between, print_line, write_results
from cutwater.adapters.topics.candidates import candidacies, candidates, promoted
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Milestone, Promotion
from cutwater.local.java import find_java

TITLE = "Hand-over of a generation with a large state"
SIZE, SIZE_MAX = 200_000, 10_000_000
RATE, SECONDS = 1_000, 60
BEFORE, AFTER = 4, 6
"""Partitions."""
NEAR_S = 5.0
"""A candidate has caught up when it lacks no more than what comes in so long."""


@dataclass(frozen=True)
class Options:
    size: int
    rate: int
    seconds: int
    out: Path


@dataclass(frozen=True)
class HandoverCommand(Command):
    """Has a rate and a duration where the others have pairs."""

    def add(self, add: Callable[..., Any]) -> None:
        add("--rate", type=between(1, 50_000), default=RATE, help=f"events a second meanwhile (default {RATE:,})")
        add(
            "--seconds",
            type=between(5, 600),
            default=SECONDS,
            help=f"that are looked at before, and as many behind the promotion (default {SECONDS})",
        )


COMMAND = HandoverCommand(
    "handover", TITLE, (), SIZE, SIZE_MAX, of="keys, one event each", seeded=False, options=Options
)
"""Of one run: no peer hands a job's readers over from one writer to another."""


class Handover:
    """A generation of other partitions, started and promoted under load."""

    def __init__(self, stack: Stack, options: Any) -> None:
        self._stack = stack
        self._options = options
        last = stack.begin()
        print_line(f"{options.size:,} events are in milestone {last.token}")
        work: tuple[OfTheApi, OfTheOutput, Load] = stack.put_to_work(options.rate, last)
        self.api, self.output, self._load = work

    def run(self) -> Moments:
        """Look on for a while, claim from the newest milestone, let it catch up, promote it, and look on."""
        self._stack.wait(
            lambda: all(len(one.seen) > 1 for one in (self.api, self.output)), "milestones under load"
        )
        steady_s = time.monotonic()
        self._stack.let_time_pass(self._options.seconds)
        last = self._newest()
        offset_s = time.time() - time.monotonic()
        began_s = time.monotonic()
        words = ("--from", str(last.token), "--partitions", str(AFTER))
        generation = Generation.parse(self._stack.verb("generation", "start", *words)["generation"])
        print_line(f"{generation} is claimed from {last.token}")
        self._stack.wait(lambda: self._caught_up(generation), f"{generation} to catch up")
        asked_s = time.monotonic()
        print_line(f"{generation} has caught up, and its promotion is asked for")
        self._stack.verb("generation", "promote", str(generation))
        readers = self.api, self.output
        self._stack.wait(lambda: all(change(one.seen, generation) for one in readers), f"{generation} at readers")
        self._stack.let_time_pass(self._options.seconds)
        return Moments(generation, offset_s, steady_s, began_s, asked_s, time.monotonic())

    def records(self, generation: Generation) -> Records:
        """What the topics say of it."""
        stack = self._stack
        told = [one for one in candidacies(stack.cluster, stack.job.name) if one.generation == generation]
        (claim,) = (one for one in told if isinstance(one, Claim))
        first = next(one for one in told if isinstance(one, Milestone))
        asked = next(one for one in told if isinstance(one, Promotion))
        starts = stack.verb("history", "--service", "driver")
        start = [one for one in starts if one["generation"] == str(generation)][-1]
        compared_ms = stack.logged_ms("publisher", "hand-over", generation)
        return Records(claim.at_ms, start, first, asked.at_ms, stack.milestones(), compared_ms)

    def finish(self) -> str | None:
        """No more events; what is not as it should be."""
        self._load.end()
        last = self._stack.wait(self._stack.drained, "the last milestone, on the output")
        for one in (self.api, self.output):
            self._stack.wait(lambda one=one: one.seen[-1].token == last.token, f"{last.token} at {one.name}")  # type: ignore[misc]
            one.end()
        faults = [*self.api.faults[:3], *self.output.faults[:3]]
        size, made = self._options.size, self._load.made
        total = sum(one["value"] for one in events(size))
        total += sum(later(number, size)["value"] for number in range(made))
        if (found := held(self._stack.cluster, self._stack.job, last)) != (size, size + made, total):
            faults.append(f"keys, events and their sum are {found}, not {(size, size + made, total)}")
        return "; ".join(faults) or None

    def _newest(self) -> Milestone:
        last = promoted(self._stack.cluster, self._stack.job.name)
        if last is None:
            raise UnavailableError("the commit stream is empty")
        return last

    def _caught_up(self, generation: Generation) -> bool:
        own = candidates(self._stack.cluster, self._stack.job.name).require(generation).newest
        if own is None:
            return False
        behind = self._newest().source_cut.records_since(own.source_cut)
        return bool(behind <= self._options.rate * NEAR_S)


def bench(options: Any) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    find_java()
    about = machine.describe()
    stack = Stack(options.out / "handover-work", options.size, BEFORE)
    try:
        handover = Handover(stack, options)
        moments = handover.run()
        records = handover.records(moments.generation)
        wrong = handover.finish()
    finally:
        stack.end()
    written: Mapping[str, Any] = {
        "benchmark": "handover",
        "machine": about,
        "exact": wrong is None,
        "fault": wrong,
        "ratios": {},
        "keys": options.size,
        "rate": options.rate,
        "partitions": [BEFORE, AFTER],
        "limit_more_s": limit_more_s(options.size),
        **figures(moments, records, handover.api, handover.output, options.size),
    }
    write_results(options.out, written, "\n".join(result_lines(TITLE, written)) + "\n")
    for line in result_lines(TITLE, written):
        print_line(line)
    return dict(written)


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, lambda _ratios: [])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The steps: each changes the job as an operator would, while flights arrive."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from examples.changing.verbs import VerbInterrupted, Verbs
from examples.changing.verdict import emitted, judge
from examples.two_regions.feeder import Feeder
from examples.two_regions.report import DemoReport

from cutwater.adapters.topics.candidates import promoted
from cutwater.adapters.topics.commit_stream import published, source_end
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.records import Milestone
from cutwater.demo.target import Target
from cutwater.demo.verdict import served_rows

T = TypeVar("T")
PARTITIONS = 8
PAIRS = 10
"""Pairs of milestones that the canary's gate compares."""
LOAD_S = 5.0
"""Flights arrive for so long before the first step, and between steps."""
PATIENCE_S = 600.0
LOOK_S = 0.2
REMOVED, ADDED = "miles: {measure: sum, field: distance_miles}", "longest: {measure: max, field: distance_miles}"
"""The measure that the changed job file leaves out, and the one in its place."""


class Change:
    def __init__(
        self,
        stack: Target,
        feeder: Feeder,
        events: pd.DataFrame,
        verbs: Verbs,
        report: DemoReport,
        folder: Path,
        stop: threading.Event,
    ) -> None:
        """`events`: what the feeder sends, in its order. `folder`: that of the stack."""
        self._stack, self._feeder, self._events, self._verbs = stack, feeder, events, verbs
        self._report, self._folder, self._stop = report, folder, stop

    def play(self) -> None:
        with self._report.step("flights arrive"):
            self._until(lambda: self._newest() is not None, "the first milestone")
            self._rest()
        with self._report.step(f"the job gets {PARTITIONS} partitions"):
            self._reshard()
        with self._report.step("a canary counts with other measures, and its gate promotes it"):
            before = self._canary()
        with self._report.step("what would a rollback change?"):
            self._preview(before)
        with self._report.step("the job goes back"):
            self._roll_back(before)
        with self._report.step("all flights so far are counted once more, in a sandbox"):
            self._replay()
        with self._report.step("the last flights arrive, and every row is compared"):
            self._compare()

    def _reshard(self) -> None:
        claimed = self._verbs.run("generation", "start", "--partitions", str(PARTITIONS))
        began = time.monotonic()
        self._verbs.run("generation", "promote", claimed["generation"])
        self._record_time("reshard_s", time.monotonic() - began, f"{claimed['generation']} is promoted after")
        self._rest()

    def _canary(self) -> str:
        """Return the token of the last milestone before the promotion."""
        file = self._changed_file()
        gate = ("--milestones", str(PAIRS), "--differences", "0")
        found = self._verbs.run("canary", "start", "--job-file", str(file), *gate, "--wait", str(PATIENCE_S))
        compared, differing = found["compared"], found["differing"]
        self._report.check(
            "the gate promotes the canary",
            found["verdict"] == "promote" and compared >= PAIRS and not differing,
            f"{compared} pairs of milestones, {found['rows']:,} rows: {differing} differ",
        )
        way = self._until(self._way_back, "the way back to be ready")
        newest = self._until(self._newest, "a milestone")
        generation = newest.token.generation
        self._report.check(
            "the canary is the promoted generation", str(generation) == found["generation"], str(generation)
        )
        self._rest()
        return str(way["to"])

    def _way_back(self) -> dict[str, Any] | None:
        way = self._verbs.run("canary", "status", codes=(0, 1))["way_back"]
        return way if way and way["ready"] else None

    def _changed_file(self) -> Path:
        """Write the job file with a measure less, and one more."""
        text = (Path("deploy/jobs") / "flights.yaml").read_text(encoding="utf-8")
        if REMOVED not in text:
            raise UnavailableError(f"deploy/jobs/flights.yaml has no line '{REMOVED}'")
        folder = self._folder / "changed"
        folder.mkdir(exist_ok=True)
        file = folder / "flights.yaml"
        file.write_text(text.replace(REMOVED, ADDED), encoding="utf-8")
        return file

    def _preview(self, before: str) -> None:
        found = self._verbs.run("rollback", "--to", before, "--diff", codes=(0, 1))
        changed = found["diff"]["differing_rows"]
        self._report.check("it names windows", changed > 0, f"{changed:,} windows would change at first")

    def _roll_back(self, before: str) -> None:
        began = time.monotonic()
        self._verbs.run("rollback", "--to", before)
        self._record_time("rollback_s", time.monotonic() - began, "the old measures are back after")
        self._rest()

    def _replay(self) -> None:
        found = self._verbs.run("replay", codes=(0, 1))
        rows, differing = found["live_rows"], found["differing_rows"]
        self._report.check("job and replay agree", not differing, f"{rows:,} windows: {differing} differ")

    def _compare(self) -> None:
        self._until(lambda: self._feeder.done, "the last flight to be sent")
        newest = self._until(self._complete, "a milestone with every flight")
        self._until(lambda: self._published(newest), f"the output of {newest.token}")
        stack = self._stack
        served = list(served_rows(stack.views[0], stack.headers))
        output = emitted(stack.cluster, stack.job, newest.token)
        judge(self._report, stack.cluster, stack.job, self._events, served, output)

    def _newest(self) -> Milestone | None:
        return promoted(self._stack.cluster, self._stack.job.name)

    def _complete(self) -> Milestone | None:
        newest = self._newest()
        end = source_end(self._stack.cluster, self._stack.job.topic)
        return newest if newest is not None and newest.source_cut.covers(end) else None

    def _published(self, newest: Milestone) -> bool:
        newest_published = published(self._stack.cluster, self._stack.job.name)
        return newest_published is not None and newest_published.sequence >= newest.token.sequence

    def _rest(self) -> None:
        """Let flights arrive."""
        until = time.monotonic() + LOAD_S
        self._until(lambda: time.monotonic() > until, "time to pass")

    def _record_time(self, name: str, seconds: float, what: str) -> None:
        self._report.fact(name, round(seconds, 1), f"{what} {seconds:.1f} s")

    def _until(self, done: Callable[[], T | None], what: str) -> T:
        """Return the first true answer. Raise UnavailableError after a time, and any error of stack and feeder."""
        deadline = time.monotonic() + PATIENCE_S
        while not (answer := done()):
            self._stack.check()
            self._feeder.raise_error()
            if time.monotonic() > deadline:
                raise UnavailableError(f"waited {PATIENCE_S:.0f} s in vain for {what}")
            if self._stop.wait(LOOK_S):
                raise VerbInterrupted
        return answer

"""One run of B3's job with an objective for readers, or with a fixed interval and bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.cadence.outcome import CONTROLLER, CadenceRun, RecordedEpoch, missed_s, trace
from benchmarks.latency.contest import Evidence, Stage
from benchmarks.latency.cutwater import CutwaterContest
from benchmarks.latency.delays import Floats, Ints
from benchmarks.latency.load import Plan
from benchmarks.latency.outcome import VIEW
from benchmarks.windows.workload import Events
from cutwater.adapters.topics import commit_stream
from cutwater.core.cadence.epoch_setting import Setting

OBJECTIVE_MS = 2_000
EVENTS_MAX = 200_000
BOUND = f"max_events_per_epoch: {EVENTS_MAX}\n"
"""In B3's job file. The controller never leaves it either."""
FIXED = {
    "500-ms": Setting(EVENTS_MAX, 500),
    "1500-ms": Setting(EVENTS_MAX, 1_500),
    "500-ms-of-10000": Setting(10_000, 500),
}
"""By contender. The first one is what a job without objectives has."""


class CadenceContest(CutwaterContest):
    """`run_cadence` once; then `recorded` is the run as a trace."""

    def __init__(self, stage: Stage, contender: str, pair: int, plan: Plan) -> None:
        self._fixed = FIXED.get(contender)
        settings = {"CUTWATER_TRIGGER_MS": str(self._fixed.interval_ms)} if self._fixed else {}
        super().__init__(stage, contender, pair, plan, settings)
        self._epochs: list[RecordedEpoch] = []
        self._due_ns: Ints = np.array([], dtype=np.int64)
        self._missed_s = 0.0

    def job_text(self) -> str:
        text = super().job_text()
        assert BOUND in text
        if self._fixed is None:
            return f"{text}objectives: {{readable_p99: {OBJECTIVE_MS}ms}}\n"
        return text.replace(BOUND, f"max_events_per_epoch: {self._fixed.events_max}\n")

    def evidence(self, events: Events, due_ns: Ints) -> Evidence:
        planned, committed = self._files.offsets, self._files.commits
        found = commit_stream.milestones(self.stage.cluster, self._job.name)
        self._epochs = [
            RecordedEpoch(planned[one.epoch], committed[one.epoch], one.events)
            for one, _ in found
            if one.epoch in planned and one.epoch in committed
        ]
        self._due_ns = due_ns[self.measured]
        return super().evidence(events, due_ns)

    def _delays(self, events: Events, due_ns: Ints, found: Evidence) -> tuple[dict[str, Floats], str | None]:
        delays, wrong = super()._delays(events, due_ns, found)
        if VIEW in delays:
            self._missed_s = missed_s(self._due_ns, delays[VIEW], OBJECTIVE_MS)
        return delays, wrong

    def run_cadence(self) -> CadenceRun:
        """Raises as `run`."""
        run = self.run()
        view: Mapping[str, float] = run.delays.get(VIEW, {})
        first, last = (int(self._due_ns[at]) for at in (0, -1))
        inside = [one for one in self._epochs if one.events and first <= one.planned_ns <= last]
        return CadenceRun(
            self.contender,
            self.pair,
            run.delays,
            view.get("p99", float("inf")),
            self._missed_s,
            len(inside),
            run.cpu_s,
            run.exact,
            run.fault,
        )

    def recorded(self, about: str) -> dict[str, Any] | None:
        """The controller's run as a trace; None of another contender's."""
        return trace(self._epochs, self._due_ns, about) if self.contender == CONTROLLER else None

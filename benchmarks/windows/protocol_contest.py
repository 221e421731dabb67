"""The contenders of B6's throughput: the driver with commit-signal beside it, and the query with a bare sink."""

from __future__ import annotations

import sys
import time

from benchmarks.windows.contenders import Contest
from benchmarks.windows.shapes import CUTWATER
from benchmarks.windows.timeline import Timeline
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol import topics
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy

BARE = "bare-sink"
_STOP_S, _MILESTONE_S, _LOOK_S = 10.0, 30.0, 0.1


class ProtocolContest(Contest):
    """Of the two, Cutwater has its milestones written while it drains: they are part of what it costs."""

    BENCHMARK = "b6"

    @property
    def written_topics(self) -> list[str]:
        return super().written_topics if self._contender == CUTWATER else [self._output]

    def _program(self) -> list[str]:
        if self._contender == CUTWATER:
            return super()._program()
        ensure_topics(self._stage.cluster, [topics.events(self._output, self._stage.job.shards.partitions)])
        return ["-m", "benchmarks.windows.bare_job", str(self._job_file), self._output]

    def _follow(self, children: list[Child]) -> Timeline:
        if self._contender != CUTWATER:
            return super()._follow(children)
        signal = [sys.executable, "-m", "cutwater.commit_signal", str(self._job_file)]
        log = self._folder / "commit-signal.txt"
        signaller = Child(f"{self._name}-signal", signal, self._env(), log, RestartPolicy())
        signaller.start()
        try:
            timeline = super()._follow(children)
            self._wait_for_milestone(signaller)
            return timeline
        finally:
            signaller.stop(_STOP_S)

    def _wait_for_milestone(self, signaller: Child) -> None:
        """The last event is in a milestone: the run did the whole protocol."""
        deadline = time.monotonic() + _MILESTONE_S
        while True:
            found = commit_stream.milestones(self._stage.cluster, self._name, limit=1)
            if found and found[0][0].source_cut.records >= self._stage.events:
                return
            if signaller.poll() is not None or time.monotonic() > deadline:
                raise UnavailableError(f"{self._name} has no milestone of all events. {signaller.describe_end()}")
            time.sleep(_LOOK_S)

    def _fault(self) -> str | None:
        return super()._fault() if self._contender == CUTWATER else self._rows_fault(self._output)

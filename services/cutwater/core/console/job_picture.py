"""All that the console knows of one job from its topics: status, milestones, load by partition, generations.

Theory of operation. The status starts at the ends of the topics, the rest with the kept history. Each record is
folded once: a milestone that was read before changes nothing. `version` changes with every change, so a page that
has this version is current.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from cutwater.core.console.generation_tree import Reigns
from cutwater.core.console.heat_map import HeatMap
from cutwater.core.console.timeline import Timeline
from cutwater.core.generations.candidates import Candidates
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.monitoring.job_status_fold import observe_end, observe_nothing, observe_view
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone

CELLS_MAX = 4_000_000
"""Numbers of the history that are folded into the heat map: the newest milestones'."""
LANES_MAX = 65_536


class JobPicture:
    """One job, from the records that were read."""

    def __init__(self, status: JobStatus, shards: int) -> None:
        """`shards`: the job's number of shards, whose sizes a census tells."""
        self.status = status
        self.timeline = Timeline()
        self.reigns = Reigns()
        self.state = HeatMap(min(shards, LANES_MAX), gauge=True)
        """Bytes of the state by shard, by the rehydrator's censuses."""
        self.writes = HeatMap(_partitions(status.committed))
        """Rows written by partition of the changelog, in this generation."""
        self.candidates = Candidates()
        """The claims, for the holds of their promotions."""
        self.version = 0
        self._newest: deque[Milestone] = deque(maxlen=max(64, CELLS_MAX // max(1, self.writes.lanes)))
        """The end of the history, which is not folded by partition yet."""
        self._view_sequence = 0
        self._counted = ""

    def read_history(self, milestones: Iterable[Milestone]) -> None:
        """Add the next part of the kept milestones, oldest first; call `end_history` after the last one."""
        for one in milestones:
            self.reigns.take(one)
            if self.timeline.take(one):
                self._newest.append(one)
        self.version += 1

    def end_history(self) -> None:
        """Fold the end of the history by partition: all of it would take too long."""
        while self._newest:
            self._write(self._newest.popleft())
        self.version += 1

    def continue_with(self, status: JobStatus) -> None:
        """Replace the status with that of a generation that was promoted. The history stays, but for the load by
        partition: the new generation may have others."""
        self.status = status
        self.writes = HeatMap(_partitions(status.committed))
        self.version += 1

    def take(self, status: JobStatus) -> None:
        """Take the status after one more record."""
        # The time since which nothing waits is always now.
        if replace(status, waiting_ms=self.status.waiting_ms) != self.status:
            self.version += 1
        self.status = status

    def take_milestone(self, one: Milestone) -> None:
        """Add one milestone of the commit stream."""
        self.reigns.take(one)
        if self.timeline.take(one):
            self._write(one)
            self.version += 1

    def take_published(self, sequence: int, at_ms: int) -> None:
        """Add a position of the publisher."""
        self.timeline.mark_published(sequence, at_ms)
        self.version += 1

    def see_view(self, sequence: int, now_ms: int) -> None:
        """Add the view's milestone, as it answered now; 0 if it does not answer."""
        if not sequence:
            self._view_sequence = 0  # what it applies until it answers again was not observed
            self.take(replace(self.status, view=None) if self.status.view else self.status)
            return
        if 0 < self._view_sequence < sequence:
            self.timeline.mark_applied(self._view_sequence, sequence, now_ms)
        self._view_sequence = sequence
        self.take(observe_view(self.status, sequence, now_ms))

    def see_end(self, end: Cut | None, now_ms: int, sample_ms: int, hidden: int = 0) -> None:
        """Add the source's end; None if it is unknown. `hidden`: offsets behind an open transaction."""
        if end is None:
            self.take(observe_nothing(self.status, now_ms, sample_ms))
        else:
            self.take(replace(observe_end(self.status, end, now_ms, sample_ms), hidden=hidden))

    def see_candidates(self, found: Candidates) -> None:
        """Add the claims as they are now."""
        if found != self.candidates:
            self.candidates = found
            self.version += 1

    def see_census(self, counted: str, at_ms: int, sizes: Sequence[int]) -> None:
        """Add a census of the view: bytes by shard. The same census again changes nothing."""
        if counted != self._counted and self.state.take(at_ms, sizes):
            self._counted = counted
            self.version += 1

    def _write(self, one: Milestone) -> None:
        if one.generation != self.status.generation or not one.partition_rows:
            return
        if not self.writes.lanes:  # the first milestone of the job
            self.writes = HeatMap(min(LANES_MAX, len(one.partition_rows)))
        self.writes.take(one.committed_ms, one.partition_rows)


def _partitions(newest: Milestone | None) -> int:
    return min(LANES_MAX, len(newest.changelog_cut)) if newest else 0

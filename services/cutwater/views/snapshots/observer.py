"""What a view's snapshots see of its milestones, in the follower's thread: when one may be taken, how often."""

from __future__ import annotations

from collections.abc import Callable

from cutwater.core.cadence.decisions import Decision
from cutwater.core.cadence.snapshot_cadence import SnapshotCadence
from cutwater.core.protocol.records import Milestone
from cutwater.views.follow.applier import Applied
from cutwater.views.follow.follower import Observer
from cutwater.views.snapshots.scheduler import SnapshotScheduler


class SnapshotPace:
    """Sets the time between two snapshots by the decisions of the cadence controller, in the follower's thread."""

    def __init__(
        self, cadence: SnapshotCadence, snapshots: SnapshotScheduler, decided: Callable[[Decision], None]
    ) -> None:
        """`decided`: receives each decision once it is applied."""
        self._cadence, self._snapshots, self._decided = cadence, snapshots, decided
        decided(cadence.begin())

    def restored(self, seconds: float) -> None:
        """Take the time that the view's own restore from a snapshot took."""
        self._cadence.fetched(seconds)

    def applied(self, milestone: Milestone, done: Applied) -> None:
        self._cadence.uploaded(self._snapshots.size)
        # By the milestones' clock: a view that catches up sees hours within seconds.
        decision = self._cadence.applied(done.records, done.seconds, milestone.committed_ms / 1_000)
        if decision is not None:
            self._snapshots.set_every(self._cadence.every_ms)
            self._decided(decision)


class SnapshottingObserver:
    """Observer that forwards to another, and takes snapshots between two milestones, in the follower's thread."""

    def __init__(self, observer: Observer, snapshots: SnapshotScheduler, pace: SnapshotPace | None = None) -> None:
        """`pace`: sets the time between two snapshots; None if it is fixed."""
        self._observer = observer
        self._snapshots = snapshots
        self._pace = pace

    def applied(self, milestone: Milestone, done: Applied) -> None:
        self._observer.applied(milestone, done)
        if self._pace is not None:
            self._pace.applied(milestone, done)
        self._snapshots.maybe_checkpoint()

    def backlog(self, milestones: int) -> None:
        self._observer.backlog(milestones)
        self._snapshots.maybe_checkpoint()

    def retried(self) -> None:
        self._observer.retried()

    def diverged(self) -> None:
        self._observer.diverged()

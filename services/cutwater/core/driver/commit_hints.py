"""Commit hints and heartbeats of a driver."""

from __future__ import annotations

from collections.abc import Callable

from cutwater.core.driver.epoch import Epochs
from cutwater.core.driver.ports import Barriers, Checkpoint, Lock, Reached, Rows, nowhere
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.records import Barrier, Committed, Heartbeat

HEARTBEAT_MS_MAX = 60_000


class CommitHints:
    """Writes 'committed N' once the commit log holds N, and heartbeats while idle; correctness needs neither."""

    def __init__(
        self,
        epochs: Epochs,
        lock: Lock,
        attempt: int,
        barriers: Barriers,
        rows: Rows,
        checkpoint: Checkpoint,
        source_end: Callable[[TopicPartition], int],
        heartbeat_ms: int,
        hints: bool,
        now_ms: Callable[[], int],
        reached: Reached = nowhere,
    ) -> None:
        self._epochs = epochs
        self._lock = lock
        self._attempt = attempt
        self._barriers = barriers
        self._rows = rows
        self._checkpoint = checkpoint
        self._source_end = source_end
        self._heartbeat_ms = heartbeat_ms
        self._hints = hints
        self._now_ms = now_ms
        self._reached = reached
        self._announced = -1
        self._beat_ms = 0
        self._pause_ms = heartbeat_ms

    def tick(self) -> None:
        """Check once. Raises FencedError or DivergenceError if the driver must stop."""
        barrier = self._epochs.newest
        if barrier is None:
            return
        if self._announced < barrier.epoch:
            if not self._checkpoint.is_committed(barrier.epoch):
                return
            self._reached("commit-seen")
            if self._hints:
                self._barriers.write(self._write(Committed, barrier, self._now_ms()))
                self._reached("hint-written")
            self._announced = barrier.epoch
            self._beat_ms = self._now_ms()
            self._pause_ms = self._heartbeat_ms
        # A clock that jumped back must not silence the job until it has caught up.
        elif not 0 <= self._now_ms() - self._beat_ms < self._pause_ms:
            self._beat(barrier)
            # A job that idles for weeks must not fill the topics with heartbeats.
            self._pause_ms = min(2 * self._pause_ms, max(HEARTBEAT_MS_MAX, self._heartbeat_ms))

    def _beat(self, barrier: Barrier) -> None:
        self._beat_ms = self._now_ms()
        if not self._lock.acquire(blocking=False):
            return  # an epoch is being written: not idle
        try:
            if self._epochs.newest is not barrier or not self._at_end(barrier):
                return
            self._rows.check_idle(barrier)
            # Use the time before the check: later events are unknown, and the check may have taken long.
            self._barriers.write(self._write(Heartbeat, barrier, self._beat_ms))
        finally:
            self._lock.release()

    def _at_end(self, barrier: Barrier) -> bool:
        return all(offset >= self._source_end(place) for place, offset in barrier.source_cut)

    def _write(
        self, kind: type[Committed] | type[Heartbeat], barrier: Barrier, at_ms: int
    ) -> Committed | Heartbeat:
        return kind(barrier.job, barrier.generation, self._attempt, barrier.epoch, at_ms)

"""Hints and heartbeats, from a thread beside the query. Correctness never depends on either."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cutwater.adapters.cluster import Cluster
from cutwater.adapters.kafka import bounds, make_consumer
from cutwater.core.records import Barrier, Committed, Heartbeat
from cutwater_spark.barriers import BarrierLog
from cutwater_spark.changelog import Changelog
from cutwater_spark.checkpoint import Checkpoint
from cutwater_spark.epochs import EpochWriter

POLL_S = 0.025
HEARTBEAT_MS_MAX = 60_000


class Announcer:
    """Says 'committed N' as soon as the commit log holds N, and 'nothing new' while the job is idle."""

    def __init__(
        self,
        cluster: Cluster,
        epochs: EpochWriter,
        attempt: int,
        barriers: BarrierLog,
        changelog: Changelog,
        checkpoint: Checkpoint,
        heartbeat_ms: int,
        hints: bool,
        now_ms: Callable[[], int],
    ) -> None:
        self._epochs = epochs
        self._attempt = attempt
        self._barriers = barriers
        self._changelog = changelog
        self._checkpoint = checkpoint
        self._heartbeat_ms = heartbeat_ms
        self._hints = hints
        self._now_ms = now_ms
        self._source = make_consumer(cluster)
        self._announced = -1
        self._beat_ms = 0
        self._pause_ms = heartbeat_ms
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)
        self._source.close()

    def _run(self) -> None:
        try:
            while not self._stop.wait(POLL_S):
                self._tick()
        except BaseException as error:  # the driver's main thread sees it and stops
            self.failure = error

    def _tick(self) -> None:
        barrier = self._epochs.newest
        if barrier is None:
            return
        if self._announced < barrier.epoch:
            if not self._checkpoint.is_committed(barrier.epoch):
                return
            if self._hints:
                self._barriers.write(self._say(Committed, barrier))
            self._announced = barrier.epoch
            self._beat_ms = self._now_ms()
            self._pause_ms = self._heartbeat_ms
        elif self._now_ms() - self._beat_ms >= self._pause_ms:
            self._beat(barrier)
            # A job that idles for weeks shall not fill the topics with it.
            self._pause_ms = min(2 * self._pause_ms, max(HEARTBEAT_MS_MAX, self._heartbeat_ms))

    def _beat(self, barrier: Barrier) -> None:
        self._beat_ms = self._now_ms()
        if not self._epochs.lock.acquire(blocking=False):
            return  # an epoch is being written: not idle
        try:
            if self._epochs.newest is not barrier or not self._at_end(barrier):
                return
            self._changelog.check_idle(barrier)
            self._barriers.write(self._say(Heartbeat, barrier))
        finally:
            self._epochs.lock.release()

    def _at_end(self, barrier: Barrier) -> bool:
        return all(
            offset >= bounds(self._source, place.topic, place.partition)[1] for place, offset in barrier.source_cut
        )

    def _say(self, kind: type[Committed] | type[Heartbeat], barrier: Barrier) -> Committed | Heartbeat:
        return kind(barrier.job, barrier.generation, self._attempt, barrier.epoch, self._now_ms())

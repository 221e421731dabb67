"""The thread that writes hints and heartbeats beside the query. `core.driver.commit_hints` decides when."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cutwater.adapters.kafka.client import bounds, make_consumer
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.runtime.kafka_client_log import QUIET
from cutwater.core.driver.commit_hints import CommitHints
from cutwater.core.protocol.cuts import TopicPartition
from cutwater_spark.checkpoint import Checkpoint
from cutwater_spark.epoch.barriers import BarrierLog
from cutwater_spark.epoch.changelog_sink import Changelog
from cutwater_spark.epoch.writer import EpochWriter

POLL_S = 0.025


class HintWriter:
    """Runs the thread. `failure`: the error that ended it."""

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
        self._source = make_consumer(cluster, **QUIET)
        self._announcing = CommitHints(
            epochs.steps,
            epochs.lock,
            attempt,
            barriers,
            changelog,
            checkpoint,
            self._source_end,
            heartbeat_ms,
            hints,
            now_ms,
            reach,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)
        if not self._thread.is_alive():  # otherwise it still waits for a broker and uses the consumer
            self._source.close()

    def _run(self) -> None:
        try:
            while not self._stop.wait(POLL_S):
                self._announcing.tick()
        except BaseException as error:  # the driver's main thread sees it and stops
            self.failure = error

    def _source_end(self, place: TopicPartition) -> int:
        return bounds(self._source, place.topic, place.partition)[1]

"""Poll for a promotion while no view follows the commit stream, because the view has stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import promoted
from cutwater.core.errors import CutwaterError
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone

LOOK_S = 2.0


class PromotionPoll:
    """Polls the promoted generation; `run` needs a thread of its own, because brokers may not answer."""

    def __init__(self, cluster: Cluster, job: str, beyond: Callable[[], Generation | None]) -> None:
        """`beyond`: the generation to look beyond; None pauses the poll."""
        self._cluster = cluster
        self._job = job
        self._beyond = beyond
        self._stop = threading.Event()
        self.found: Milestone | None = None
        """The newest milestone of a later generation."""

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> None:
        """Poll until stopped. Errors of brokers and of the stream are retried."""
        while not self._stop.wait(LOOK_S):
            beyond = self._beyond()
            if beyond is None:
                continue
            try:
                last = promoted(self._cluster, self._job)
            except CutwaterError:
                continue  # the view has reported why it stopped
            if last is not None and last.generation.number > beyond.number:
                self.found = last
